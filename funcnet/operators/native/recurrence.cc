// The steps of LSTM and GRU layers over time, forward and backward.
//
// Arrays are (…, time, entries), so the sequences of a batch are rows of memory. XLA's threads share the sequences: a
// thread computes all steps of its own, so threads never wait for one another. The weights are packed once a call, in
// panels of 16 columns, and each step multiplies them by the states of all sequences of a thread.
#include "kernels.h"

namespace funcnet {
namespace {

constexpr int64_t kPanel = 16;  // columns: two vectors

inline Eight magnitude(Eight x) { return x < 0 ? -x : x; }

// exp(-|x|) keeps the digits of both tails.
inline Eight logistic(Eight x) {
  const Eight small = exponential(-magnitude(x));
  return (x < 0 ? small : Eight{} + 1.0f) / (1.0f + small);
}

// The rational approximation of Eigen, to 3 units in the last place. NaN stays.
inline Eight hyperbolic(Eight x) {
  constexpr float kMost = 7.90531110763549805f;
  x = x > kMost ? Eight{} + kMost : x < -kMost ? Eight{} - kMost : x;
  const Eight square = x * x;
  Eight above = square * -2.76076847742355e-16f + 2.00018790482477e-13f;
  above = above * square - 8.60467152213735e-11f;
  above = above * square + 5.12229709037114e-08f;
  above = above * square + 1.48572235717979e-05f;
  above = above * square + 6.37261928875436e-04f;
  above = above * square + 4.89352455891786e-03f;
  Eight below = square * 1.19825839466702e-06f + 1.18534705686654e-04f;
  below = below * square + 2.26843463243900e-03f;
  below = below * square + 4.89352518554385e-03f;
  return x * above / below;
}

// The derivative of tanh. `1 - tanh²` would lose digits where tanh is close to 1.
inline Eight slope(Eight x) {
  const Eight small = exponential(-2.0f * magnitude(x)), sum = 1.0f + small;
  return 4.0f * small / (sum * sum);
}

inline float logistic(float x) { return logistic(Eight{} + x)[0]; }
inline float hyperbolic(float x) { return hyperbolic(Eight{} + x)[0]; }
inline float slope(float x) { return slope(Eight{} + x)[0]; }

// A matrix (depth, columns) as panels (columns / 16, depth, 16), filled with zeros.
struct Packed {
  int64_t depth, columns;
  std::vector<float> data;

  // The entry (k, n) is from[k · row + n · column].
  Packed(ffi::ThreadPool& pool, const float* from, int64_t depth, int64_t columns, int64_t row, int64_t column)
      : depth(depth), columns(columns), data((columns + kPanel - 1) / kPanel * kPanel * depth) {
    float* to = data.data();
    parallel(pool, (columns + kPanel - 1) / kPanel, [=](int64_t panel) {
      const int64_t begin = panel * kPanel, width = std::min(kPanel, columns - begin);
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t n = 0; n < width; ++n)
          to[(panel * depth + k) * kPanel + n] = from[k * row + (begin + n) * column];
    });
  }
};

// Rows [0, R) of a (R, depth) times one panel, to c.
template <int R>
inline void tile(const float* a, int64_t a_step, const float* panel, int64_t depth, float* c, int64_t c_step,
                 int64_t width) {
  Eight sum[R][2] = {};
  for (int64_t k = 0; k < depth; ++k) {
    const Eight left = load<Eight>(panel + k * kPanel), right = load<Eight>(panel + k * kPanel + 8);
    for (int r = 0; r < R; ++r) {
      const float factor = a[r * a_step + k];
      sum[r][0] += factor * left;
      sum[r][1] += factor * right;
    }
  }
  for (int r = 0; r < R; ++r) std::memcpy(c + r * c_step, sum[r], sizeof(float) * width);
}

// c (rows, columns) = a (rows, depth) · b.
void multiply(const float* a, int64_t a_step, int64_t rows, const Packed& b, float* c, int64_t c_step) {
  for (int64_t begin = 0; begin < b.columns; begin += kPanel) {
    const float* panel = b.data.data() + begin * b.depth;
    const int64_t width = std::min(kPanel, b.columns - begin);
    int64_t row = 0;
    auto next = [&](auto size) {
      constexpr int R = decltype(size)::value;
      for (; row + R <= rows; row += R)
        tile<R>(a + row * a_step, a_step, panel, b.depth, c + row * c_step + begin, c_step, width);
    };
    next(std::integral_constant<int, 6>());
    next(std::integral_constant<int, 4>());
    next(std::integral_constant<int, 2>());
    next(std::integral_constant<int, 1>());
  }
}

struct Sizes {
  int64_t batch, time, gates, size;  // sequences, steps, entries of all gates, entries of a state
};

Sizes sizes_of(const Input& gates, const Input& h) {
  const int64_t time = last(gates, 2), wide = last(gates), size = last(h);
  return {time * wide ? static_cast<int64_t>(gates.element_count()) / (time * wide) : 0, time, wide, size};
}

// Calls body(first, count) for the sequences of each thread.
template <typename F>
void share(ffi::ThreadPool& pool, int64_t batch, F body) {
  const int64_t parts = std::min<int64_t>(std::max<int64_t>(1, pool.num_threads()), batch);
  parallel(pool, parts, [=](int64_t part) {
    const int64_t first = batch * part / parts;
    body(first, batch * (part + 1) / parts - first);
  });
}

inline int64_t step_at(int64_t t, int64_t time, bool reverse) { return reverse ? time - 1 - t : t; }

// ------------------------------------------------------------------------------------------------------------- LSTM

// Gates in torch's order: input, forget, cell, output. With `kept`: (slopes, forget gate, slope of the cell).
void lstm_forward(ffi::ThreadPool& pool, const Sizes& n, const float* gates, const float* h0, const float* c0,
                  const float* weight, bool reverse, float* hs, float* h_last, float* c_last, float* slopes,
                  float* forget, float* slope_c) {
  const int64_t d = n.size;
  const Packed packed(pool, weight, d, n.gates, 1, d);
  share(pool, n.batch, [=, &packed](int64_t first, int64_t count) {
    std::vector<float> pushed(count * n.gates);
    float *h = h_last + first * d, *c = c_last + first * d;
    std::copy_n(h0 + first * d, count * d, h);
    std::copy_n(c0 + first * d, count * d, c);
    for (int64_t step = 0; step < n.time; ++step) {
      const int64_t t = step_at(step, n.time, reverse);
      multiply(h, d, count, packed, pushed.data(), n.gates);
      for (int64_t b = 0; b < count; ++b) {
        const int64_t place = (first + b) * n.time + t;
        const float *x = gates + place * n.gates, *own = pushed.data() + b * n.gates;
        float *h_own = h + b * d, *c_own = c + b * d, *out = hs + place * d;
        each(d, [&](auto one, int64_t k) {
          using T = decltype(one);
          auto sum = [&](int64_t gate) { return load<T>(x + gate * d + k) + load<T>(own + gate * d + k); };
          const T i = logistic(sum(0)), f = logistic(sum(1)), o = logistic(sum(3)), in = sum(2), g = hyperbolic(in);
          const T before = load<T>(c_own + k), cell = f * before + i * g, shown = hyperbolic(cell);
          store(c_own + k, cell);
          store<T>(h_own + k, o * shown);
          store<T>(out + k, o * shown);
          if (!slopes) return;
          float* to = slopes + place * n.gates + k;
          store<T>(to, g * i * (1.0f - i));
          store<T>(to + d, before * f * (1.0f - f));
          store<T>(to + 2 * d, i * slope(in));
          store<T>(to + 3 * d, shown * o * (1.0f - o));
          store(forget + place * d + k, f);
          store<T>(slope_c + place * d + k, o * slope(cell));
        });
      }
    }
  });
}

ffi::Error lstm(ffi::ThreadPool pool, Input gates, Input h, Input c, Input weight, Output hs, Output h_last,
                Output c_last, bool reverse) {
  lstm_forward(pool, sizes_of(gates, h), gates.typed_data(), h.typed_data(), c.typed_data(), weight.typed_data(),
               reverse, hs->typed_data(), h_last->typed_data(), c_last->typed_data(), nullptr, nullptr, nullptr);
  return ffi::Error::Success();
}

ffi::Error lstm_kept(ffi::ThreadPool pool, Input gates, Input h, Input c, Input weight, Output hs, Output h_last,
                     Output c_last, Output slopes, Output forget, Output slope_c, bool reverse) {
  lstm_forward(pool, sizes_of(gates, h), gates.typed_data(), h.typed_data(), c.typed_data(), weight.typed_data(),
               reverse, hs->typed_data(), h_last->typed_data(), c_last->typed_data(), slopes->typed_data(),
               forget->typed_data(), slope_c->typed_data());
  return ffi::Error::Success();
}

ffi::Error lstm_backward(ffi::ThreadPool pool, Input of_hs, Input of_h, Input of_c, Input slopes, Input forget,
                         Input slope_c, Input weight, Input, Input, Input, Output to_gates, Output to_h, Output to_c,
                         bool reverse) {
  const Sizes n = sizes_of(slopes, of_h);
  const int64_t d = n.size;
  const Packed packed(pool, weight.typed_data(), n.gates, d, d, 1);
  const float *grads = of_hs.typed_data(), *kept = slopes.typed_data(), *kept_f = forget.typed_data();
  const float *kept_c = slope_c.typed_data(), *last_h = of_h.typed_data(), *last_c = of_c.typed_data();
  float *to = to_gates->typed_data(), *all_h = to_h->typed_data(), *all_c = to_c->typed_data();
  share(pool, n.batch, [=, &packed](int64_t first, int64_t count) {
    float *h = all_h + first * d, *c = all_c + first * d;
    std::copy_n(last_h + first * d, count * d, h);
    std::copy_n(last_c + first * d, count * d, c);
    for (int64_t step = n.time - 1; step >= 0; --step) {
      const int64_t t = step_at(step, n.time, reverse);
      for (int64_t b = 0; b < count; ++b) {
        const int64_t place = (first + b) * n.time + t;
        const float* s = kept + place * n.gates;
        float *out = to + place * n.gates, *h_own = h + b * d, *c_own = c + b * d;
        each(d, [&](auto one, int64_t k) {
          using T = decltype(one);
          const T along = load<T>(h_own + k) + load<T>(grads + place * d + k);
          const T cell = load<T>(c_own + k) + load<T>(kept_c + place * d + k) * along;
          for (int gate = 0; gate < 3; ++gate) store<T>(out + gate * d + k, load<T>(s + gate * d + k) * cell);
          store<T>(out + 3 * d + k, load<T>(s + 3 * d + k) * along);
          store<T>(c_own + k, load<T>(kept_f + place * d + k) * cell);
        });
      }
      multiply(to + (first * n.time + t) * n.gates, n.time * n.gates, count, packed, h, d);
    }
  });
  return ffi::Error::Success();
}

// -------------------------------------------------------------------------------------------------------------- GRU

// Gates in torch's order: reset, update, candidate. With `kept`: (slopes, update gate, reset gate).
void gru_forward(ffi::ThreadPool& pool, const Sizes& n, const float* gates, const float* h0, const float* weight,
                 const float* bias, bool reverse, float* hs, float* h_last, float* slopes, float* update, float* reset) {
  const int64_t d = n.size;
  const Packed packed(pool, weight, d, n.gates, 1, d);
  share(pool, n.batch, [=, &packed](int64_t first, int64_t count) {
    std::vector<float> pushed(count * n.gates);
    float* h = h_last + first * d;
    std::copy_n(h0 + first * d, count * d, h);
    for (int64_t step = 0; step < n.time; ++step) {
      const int64_t t = step_at(step, n.time, reverse);
      multiply(h, d, count, packed, pushed.data(), n.gates);
      for (int64_t b = 0; b < count; ++b) {
        const int64_t place = (first + b) * n.time + t;
        const float *x = gates + place * n.gates, *own = pushed.data() + b * n.gates;
        float *h_own = h + b * d, *out = hs + place * d;
        each(d, [&](auto one, int64_t k) {
          using T = decltype(one);
          const T in_r = load<T>(x + k) + load<T>(own + k), in_z = load<T>(x + d + k) + load<T>(own + d + k);
          const T r = logistic(in_r), z = logistic(in_z), candidate = load<T>(own + 2 * d + k) + load<T>(bias + k);
          const T in_n = load<T>(x + 2 * d + k) + r * candidate, fresh = hyperbolic(in_n), before = load<T>(h_own + k);
          const T after = fresh + z * (before - fresh);
          store(h_own + k, after);
          store(out + k, after);
          if (!slopes) return;
          float* to = slopes + place * n.gates + k;
          const T by_z = logistic(T(-in_z)), by_n = by_z * slope(in_n);  // 1 - z would lose digits
          store<T>(to, by_n * candidate * r * logistic(T(-in_r)));
          store<T>(to + d, (before - fresh) * z * by_z);
          store(to + 2 * d, by_n);
          store(update + place * d + k, z);
          store(reset + place * d + k, r);
        });
      }
    }
  });
}

ffi::Error gru(ffi::ThreadPool pool, Input gates, Input h, Input weight, Input bias, Output hs, Output h_last,
               bool reverse) {
  gru_forward(pool, sizes_of(gates, h), gates.typed_data(), h.typed_data(), weight.typed_data(), bias.typed_data(),
              reverse, hs->typed_data(), h_last->typed_data(), nullptr, nullptr, nullptr);
  return ffi::Error::Success();
}

ffi::Error gru_kept(ffi::ThreadPool pool, Input gates, Input h, Input weight, Input bias, Output hs, Output h_last,
                    Output slopes, Output update, Output reset, bool reverse) {
  gru_forward(pool, sizes_of(gates, h), gates.typed_data(), h.typed_data(), weight.typed_data(), bias.typed_data(),
              reverse, hs->typed_data(), h_last->typed_data(), slopes->typed_data(), update->typed_data(),
              reset->typed_data());
  return ffi::Error::Success();
}

ffi::Error gru_backward(ffi::ThreadPool pool, Input of_hs, Input of_h, Input slopes, Input update, Input reset,
                        Input weight, Input, Input, Input, Output to_gates, Output to_h, Output to_candidate,
                        bool reverse) {
  const Sizes n = sizes_of(slopes, of_h);
  const int64_t d = n.size;
  const Packed packed(pool, weight.typed_data(), n.gates, d, d, 1);
  const float *grads = of_hs.typed_data(), *kept = slopes.typed_data(), *last_h = of_h.typed_data();
  const float *updates = update.typed_data(), *resets = reset.typed_data();
  float *to = to_gates->typed_data(), *all_h = to_h->typed_data(), *candidates = to_candidate->typed_data();
  share(pool, n.batch, [=, &packed](int64_t first, int64_t count) {
    std::vector<float> pushed(count * n.gates), through(count * d);
    float* h = all_h + first * d;
    std::copy_n(last_h + first * d, count * d, h);
    for (int64_t step = n.time - 1; step >= 0; --step) {
      const int64_t t = step_at(step, n.time, reverse);
      for (int64_t b = 0; b < count; ++b) {
        const int64_t place = (first + b) * n.time + t;
        const float* s = kept + place * n.gates;
        float *out = to + place * n.gates, *own = pushed.data() + b * n.gates, *h_own = h + b * d;
        each(d, [&](auto one, int64_t k) {
          using T = decltype(one);
          const T along = load<T>(h_own + k) + load<T>(grads + place * d + k);
          for (int gate = 0; gate < 3; ++gate) {
            const T here = load<T>(s + gate * d + k) * along;
            store(out + gate * d + k, here);
            store<T>(own + gate * d + k, gate < 2 ? here : here * load<T>(resets + place * d + k));
          }
          store<T>(candidates + place * d + k, load<T>(own + 2 * d + k));
          store<T>(h_own + k, load<T>(updates + place * d + k) * along);
        });
      }
      multiply(pushed.data(), n.gates, count, packed, through.data(), d);
      each(count * d, [&](auto one, int64_t k) {
        using T = decltype(one);
        store<T>(h + k, load<T>(h + k) + load<T>(through.data() + k));
      });
    }
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_lstm, lstm, (kernel<4, 3>().Attr<bool>("reverse")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_lstm_kept, lstm_kept, (kernel<4, 6>().Attr<bool>("reverse")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_lstm_backward, lstm_backward, (kernel<10, 3>().Attr<bool>("reverse")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_gru, gru, (kernel<4, 2>().Attr<bool>("reverse")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_gru_kept, gru_kept, (kernel<4, 5>().Attr<bool>("reverse")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_gru_backward, gru_backward, (kernel<9, 3>().Attr<bool>("reverse")));

}  // namespace funcnet
