// Layer, RMS and group normalisation, forward and backward, and the moments of rows.
//
// The mean is a float, which is exact to 1e-3 only for values near 1e4. What is missing is the mean of the differences
// from it. It is kept as a second number, `shift`, and both are subtracted, as in funcnet/functional.
#include "kernels.h"

namespace funcnet {
namespace {

struct Moments {
  float mean, shift, scale;  // of a row: two parts of its mean, and 1 / sqrt(variance + eps)
};

template <bool kCentred>
Moments moments(const float* x, int64_t size, double eps) {
  double sum[1], both[2];
  float mean = 0;
  if (kCentred) {
    sums<1>(size, sum, [&](auto t, int64_t i, auto* terms) { terms[0] = load<decltype(t)>(x + i); });
    mean = static_cast<float>(sum[0] / size);
  }
  sums<2>(size, both, [&](auto t, int64_t i, auto* terms) {
    const auto difference = load<decltype(t)>(x + i) - mean;
    terms[0] = difference;
    terms[1] = difference * difference;
  });
  const double shift = kCentred ? both[0] / size : 0;
  const double variance = both[1] / size - shift * shift;
  return {mean, static_cast<float>(shift), static_cast<float>(1 / std::sqrt(variance + eps))};
}

// ------------------------------------------------------------------------------------------ over the last dimension

template <bool kCentred>
void rows_forward(ffi::ThreadPool& pool, const Input& x, const float* weight, const float* bias, float* y, float* mean,
                  float* shift, float* scale, double eps) {
  const int64_t size = last(x), rows = size ? x.element_count() / size : 0;
  const float* from = x.typed_data();
  const int64_t count = pieces(rows, size);
  parallel(pool, count, [=](int64_t piece) {
    for (int64_t row = rows * piece / count; row < rows * (piece + 1) / count; ++row) {
      const float* in = from + row * size;
      float* out = y + row * size;
      const Moments m = moments<kCentred>(in, size, eps);
      if (kCentred) mean[row] = m.mean, shift[row] = m.shift;
      scale[row] = m.scale;
      each(size, [&](auto t, int64_t i) {
        using T = decltype(t);
        T value = (load<T>(in + i) - m.mean - m.shift) * m.scale * load<T>(weight + i);
        if (kCentred) value += load<T>(bias + i);
        store(out + i, value);
      });
    }
  });
}

// Gradients of x (blocks, rows, size), and of weight and bias as one sum for each block (blocks, size).
template <bool kCentred>
void rows_backward(ffi::ThreadPool& pool, const Input& grad, const float* x, const float* mean, const float* shift,
                   const float* scale, const float* weight, float* of_x, float* of_weight, float* of_bias) {
  const int64_t size = last(grad), rows = last(grad, 2);
  const int64_t blocks = size && rows ? grad.element_count() / (size * rows) : 0;
  const float* from = grad.typed_data();
  const int64_t count = pieces(rows, size);  // of each block
  std::vector<float> parts(count > 1 ? blocks * count * size * 2 : 0);
  float* kept = parts.data();
  parallel(pool, blocks * count, [=](int64_t place) {
    const int64_t block = place / count, piece = place % count;
    float* weights = count > 1 ? kept + place * size * 2 : of_weight + block * size;
    float* biases = count > 1 ? weights + size : kCentred ? of_bias + block * size : nullptr;
    std::fill_n(weights, size, 0.0f);
    if (kCentred) std::fill_n(biases, size, 0.0f);
    for (int64_t r = rows * piece / count; r < rows * (piece + 1) / count; ++r) {
      const int64_t row = block * rows + r;
      const float *g = from + row * size, *in = x + row * size;
      float* out = of_x + row * size;
      const float middle = kCentred ? mean[row] : 0, rest = kCentred ? shift[row] : 0, factor = scale[row];
      double total[2];
      sums<2>(size, total, [&](auto t, int64_t i, auto* terms) {
        using T = decltype(t);
        const T scaled = load<T>(g + i) * load<T>(weight + i);
        terms[0] = scaled;
        terms[1] = scaled * ((load<T>(in + i) - middle - rest) * factor);
      });
      const float sum = kCentred ? static_cast<float>(total[0] / size) : 0;
      const float along = static_cast<float>(total[1] / size);
      each(size, [&](auto t, int64_t i) {
        using T = decltype(t);
        const T here = load<T>(g + i), normal = (load<T>(in + i) - middle - rest) * factor;
        store(out + i, (here * load<T>(weight + i) - sum - normal * along) * factor);
        store(weights + i, load<T>(weights + i) + here * normal);
        if (kCentred) store(biases + i, load<T>(biases + i) + here);
      });
    }
  });
  if (count <= 1) return;
  parallel(pool, blocks, [=](int64_t block) {
    for (int which = 0; which < (kCentred ? 2 : 1); ++which) {
      float* to = (which ? of_bias : of_weight) + block * size;
      std::fill_n(to, size, 0.0f);
      for (int64_t piece = 0; piece < count; ++piece) {
        const float* part = kept + ((block * count + piece) * 2 + which) * size;
        each(size, [&](auto t, int64_t i) {
          using T = decltype(t);
          store(to + i, load<T>(to + i) + load<T>(part + i));
        });
      }
    }
  });
}

ffi::Error layer_norm(ffi::ThreadPool pool, Input x, Input weight, Input bias, Output y, Output mean, Output shift,
                      Output scale, double eps) {
  rows_forward<true>(pool, x, weight.typed_data(), bias.typed_data(), y->typed_data(), mean->typed_data(),
                     shift->typed_data(), scale->typed_data(), eps);
  return ffi::Error::Success();
}

ffi::Error layer_norm_backward(ffi::ThreadPool pool, Input grad, Input x, Input mean, Input shift, Input scale,
                               Input weight, Output of_x, Output of_weight, Output of_bias, double) {
  rows_backward<true>(pool, grad, x.typed_data(), mean.typed_data(), shift.typed_data(), scale.typed_data(),
                      weight.typed_data(), of_x->typed_data(), of_weight->typed_data(), of_bias->typed_data());
  return ffi::Error::Success();
}

ffi::Error rms_norm(ffi::ThreadPool pool, Input x, Input weight, Output y, Output scale, double eps) {
  rows_forward<false>(pool, x, weight.typed_data(), nullptr, y->typed_data(), nullptr, nullptr, scale->typed_data(), eps);
  return ffi::Error::Success();
}

ffi::Error rms_norm_backward(ffi::ThreadPool pool, Input grad, Input x, Input scale, Input weight, Output of_x,
                             Output of_weight, double) {
  rows_backward<false>(pool, grad, x.typed_data(), nullptr, nullptr, scale.typed_data(), weight.typed_data(),
                       of_x->typed_data(), of_weight->typed_data(), nullptr);
  return ffi::Error::Success();
}

// --------------------------------------------------------------------------------------------- over groups of channels

// x (…, groups, channels of a group, positions); weight and bias (groups, channels of a group).
ffi::Error group_norm(ffi::ThreadPool pool, Input x, Input weight, Input bias, Output y, Output mean, Output shift,
                      Output scale, double eps) {
  const int64_t positions = last(x), channels = last(x, 2), groups = last(x, 3), size = channels * positions;
  const int64_t rows = size ? x.element_count() / size : 0, count = pieces(rows, size);
  const float *from = x.typed_data(), *weights = weight.typed_data(), *biases = bias.typed_data();
  float *to = y->typed_data(), *means = mean->typed_data(), *shifts = shift->typed_data(), *scales = scale->typed_data();
  parallel(pool, count, [=](int64_t piece) {
    for (int64_t row = rows * piece / count; row < rows * (piece + 1) / count; ++row) {
      const Moments m = moments<true>(from + row * size, size, eps);
      means[row] = m.mean;
      shifts[row] = m.shift;
      scales[row] = m.scale;
      for (int64_t c = 0; c < channels; ++c) {
        const float factor = weights[row % groups * channels + c] * m.scale;
        const float bias = biases[row % groups * channels + c];
        const float* in = from + row * size + c * positions;
        float* out = to + row * size + c * positions;
        each(positions, [&](auto t, int64_t i) {
          using T = decltype(t);
          store(out + i, (load<T>(in + i) - m.mean - m.shift) * factor + bias);
        });
      }
    }
  });
  return ffi::Error::Success();
}

// Gradients of x, and of weight and bias for each index of `…` (…, groups, channels of a group).
ffi::Error group_norm_backward(ffi::ThreadPool pool, Input grad, Input x, Input mean, Input shift, Input scale,
                               Input weight, Output of_x, Output of_weight, Output of_bias, double) {
  const int64_t positions = last(x), channels = last(x, 2), groups = last(x, 3), size = channels * positions;
  const int64_t rows = size ? x.element_count() / size : 0, count = pieces(rows, size);
  const float *grads = grad.typed_data(), *from = x.typed_data(), *weights = weight.typed_data();
  const float *means = mean.typed_data(), *shifts = shift.typed_data(), *scales = scale.typed_data();
  float *to = of_x->typed_data(), *to_weights = of_weight->typed_data(), *to_biases = of_bias->typed_data();
  parallel(pool, count, [=](int64_t piece) {
    for (int64_t row = rows * piece / count; row < rows * (piece + 1) / count; ++row) {
      const float *g = grads + row * size, *in = from + row * size;
      const float middle = means[row], rest = shifts[row], factor = scales[row];
      double sum = 0, along = 0;
      for (int64_t c = 0; c < channels; ++c) {
        double total[2];
        sums<2>(positions, total, [&](auto t, int64_t i, auto* terms) {
          using T = decltype(t);
          const T here = load<T>(g + c * positions + i);
          terms[0] = here;
          terms[1] = here * ((load<T>(in + c * positions + i) - middle - rest) * factor);
        });
        to_biases[row * channels + c] = static_cast<float>(total[0]);
        to_weights[row * channels + c] = static_cast<float>(total[1]);
        sum += total[0] * weights[row % groups * channels + c];
        along += total[1] * weights[row % groups * channels + c];
      }
      const float mean_of = static_cast<float>(sum / size), part = static_cast<float>(along / size);
      for (int64_t c = 0; c < channels; ++c) {
        const float own = weights[row % groups * channels + c];
        const int64_t begin = row * size + c * positions;
        each(positions, [&](auto t, int64_t i) {
          using T = decltype(t);
          const T normal = (load<T>(from + begin + i) - middle - rest) * factor;
          store(to + begin + i, (load<T>(grads + begin + i) * own - mean_of - normal * part) * factor);
        });
      }
    }
  });
  return ffi::Error::Success();
}

// ------------------------------------------------------------------------------------------------ moments of rows

// For each row: two parts of its mean, and the sum of squared differences from it.
ffi::Error row_moments(ffi::ThreadPool pool, Input x, Output mean, Output rest, Output squares) {
  const int64_t rows = mean->element_count(), size = rows ? x.element_count() / rows : 0, count = pieces(rows, size);
  const float* from = x.typed_data();
  float *means = mean->typed_data(), *rests = rest->typed_data(), *to = squares->typed_data();
  parallel(pool, count, [=](int64_t piece) {
    for (int64_t row = rows * piece / count; row < rows * (piece + 1) / count; ++row) {
      const float* in = from + row * size;
      double sum[1], both[2];
      sums<1>(size, sum, [&](auto t, int64_t i, auto* terms) { terms[0] = load<decltype(t)>(in + i); });
      const float middle = static_cast<float>(sum[0] / size);
      sums<2>(size, both, [&](auto t, int64_t i, auto* terms) {
        const auto difference = load<decltype(t)>(in + i) - middle;
        terms[0] = difference;
        terms[1] = difference * difference;
      });
      means[row] = middle;
      rests[row] = static_cast<float>(both[0] / size);
      const double around = std::isinf(both[1]) ? both[1] : both[1] - both[0] * both[0] / size;
      to[row] = static_cast<float>(around < 0 ? 0 : around);
    }
  });
  return ffi::Error::Success();
}

// For each row: the sums of the gradient, and of its products with the differences of x from its mean.
ffi::Error row_products(ffi::ThreadPool pool, Input grad, Input x, Input mean, Input rest, Output total, Output along) {
  const int64_t rows = mean.element_count(), size = rows ? x.element_count() / rows : 0, count = pieces(rows, size);
  const float *grads = grad.typed_data(), *from = x.typed_data(), *means = mean.typed_data(), *rests = rest.typed_data();
  float *totals = total->typed_data(), *to = along->typed_data();
  parallel(pool, count, [=](int64_t piece) {
    for (int64_t row = rows * piece / count; row < rows * (piece + 1) / count; ++row) {
      const float *g = grads + row * size, *in = from + row * size;
      const float middle = means[row], shift = rests[row];
      double both[2];
      sums<2>(size, both, [&](auto t, int64_t i, auto* terms) {
        using T = decltype(t);
        terms[0] = load<T>(g + i);
        terms[1] = terms[0] * (load<T>(in + i) - middle - shift);
      });
      totals[row] = static_cast<float>(both[0]);
      to[row] = static_cast<float>(both[1]);
    }
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_layer_norm, layer_norm, (kernel<3, 4>().Attr<double>("eps")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_layer_norm_backward, layer_norm_backward, (kernel<6, 3>().Attr<double>("eps")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_rms_norm, rms_norm, (kernel<2, 2>().Attr<double>("eps")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_rms_norm_backward, rms_norm_backward, (kernel<4, 2>().Attr<double>("eps")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_group_norm, group_norm, (kernel<3, 4>().Attr<double>("eps")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_group_norm_backward, group_norm_backward, (kernel<6, 3>().Attr<double>("eps")));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_row_moments, row_moments, (kernel<1, 3>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_row_products, row_products, (kernel<4, 2>()));

}  // namespace funcnet
