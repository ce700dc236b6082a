// Softmax and log-softmax over the last dimension, forward and backward.
#include "kernels.h"

namespace funcnet {
namespace {

float largest(const float* x, int64_t size) {
  Eight found[4];
  for (auto& one : found) one = Eight{} - INFINITY;
  float rest = -INFINITY;
  int64_t i = 0;
  for (; i + 32 <= size; i += 32)
    for (int j = 0; j < 4; ++j) {
      const Eight value = load<Eight>(x + i + 8 * j);
      found[j] = value > found[j] ? value : found[j];
    }
  for (; i < size; ++i) rest = x[i] > rest ? x[i] : rest;
  for (const auto& one : found)
    for (int lane = 0; lane < 8; ++lane) rest = one[lane] > rest ? one[lane] : rest;
  return rest;
}

// Calls row(in, out, size) for each row, where `in` is that of the first array.
template <typename F>
ffi::Error rows(ffi::ThreadPool& pool, const Input& x, float* y, F row) {
  const int64_t size = last(x), count = size ? x.element_count() / size : 0, parts = pieces(count, size);
  const float* from = x.typed_data();
  parallel(pool, parts, [=](int64_t part) {
    for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i) row(from + i * size, y + i * size, size);
  });
  return ffi::Error::Success();
}

ffi::Error softmax(ffi::ThreadPool pool, Input x, Output y) {
  return rows(pool, x, y->typed_data(), [](const float* in, float* out, int64_t size) {
    const float top = largest(in, size);
    double total[1];
    sums<1>(size, total, [&](auto t, int64_t i, auto* terms) {
      using T = decltype(t);
      terms[0] = exponential(load<T>(in + i) - top);
      store<T>(out + i, terms[0]);
    });
    const float scale = static_cast<float>(1 / total[0]);
    each(size, [&](auto t, int64_t i) { store(out + i, load<decltype(t)>(out + i) * scale); });
  });
}

ffi::Error softmax_backward(ffi::ThreadPool pool, Input grad, Input y, Output of_x) {
  const float *from = grad.typed_data(), *results = y.typed_data();
  return rows(pool, grad, of_x->typed_data(), [=](const float* g, float* out, int64_t size) {
    const float* here = results + (g - from);
    double total[1];
    sums<1>(size, total, [&](auto t, int64_t i, auto* terms) {
      using T = decltype(t);
      terms[0] = load<T>(g + i) * load<T>(here + i);
    });
    const float sum = static_cast<float>(total[0]);
    each(size, [&](auto t, int64_t i) {
      using T = decltype(t);
      store<T>(out + i, (load<T>(g + i) - sum) * load<T>(here + i));
    });
  });
}

ffi::Error log_softmax(ffi::ThreadPool pool, Input x, Output y) {
  return rows(pool, x, y->typed_data(), [](const float* in, float* out, int64_t size) {
    const float top = largest(in, size);
    double total[1];
    sums<1>(size, total, [&](auto t, int64_t i, auto* terms) {
      terms[0] = exponential(load<decltype(t)>(in + i) - top);
    });
    const float rest = static_cast<float>(std::log(total[0]));
    each(size, [&](auto t, int64_t i) {
      using T = decltype(t);
      store<T>(out + i, load<T>(in + i) - top - rest);
    });
  });
}

ffi::Error log_softmax_backward(ffi::ThreadPool pool, Input grad, Input y, Output of_x) {
  const float *from = grad.typed_data(), *results = y.typed_data();
  return rows(pool, grad, of_x->typed_data(), [=](const float* g, float* out, int64_t size) {
    const float* here = results + (g - from);
    double total[1];
    sums<1>(size, total, [&](auto t, int64_t i, auto* terms) { terms[0] = load<decltype(t)>(g + i); });
    const float sum = static_cast<float>(total[0]);
    each(size, [&](auto t, int64_t i) {
      using T = decltype(t);
      store<T>(out + i, load<T>(g + i) - exponential(load<T>(here + i)) * sum);
    });
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_softmax, softmax, (kernel<1, 1>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_softmax_backward, softmax_backward, (kernel<2, 1>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_log_softmax, log_softmax, (kernel<1, 1>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_log_softmax_backward, log_softmax_backward, (kernel<2, 1>()));

}  // namespace funcnet
