// What all kernels share: vectors, sums, and loops over the threads that XLA already has.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "xla/ffi/api/ffi.h"

#if !defined(__AVX2__) && !defined(__ARM_NEON)
#error "the kernels need a processor with AVX2 or NEON"
#endif

namespace funcnet {

namespace ffi = xla::ffi;
using Input = ffi::Buffer<ffi::F32>;
using Output = ffi::Result<ffi::Buffer<ffi::F32>>;

using Eight = float __attribute__((vector_size(32)));  // compilers divide it where registers are smaller

// T is Eight or float, so that one lambda has the body of a loop and of its remainder.
template <typename T>
inline T load(const float* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

template <typename T>
inline void store(float* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}

using Ints = int32_t __attribute__((vector_size(32)));

// exp(x) for x <= 0, to 2 units in the last place: 2^n · exp(r) with |r| <= ln(2) / 2, by a polynomial of degree 6 from
// Cephes. Below -87.3, where a float would lose digits, it is 0. NaN stays.
inline Eight exponential(Eight x) {
  const Eight shifted = x * 1.44269504f + 12582912.0f;  // 1.5 · 2^23: the sum is rounded to an integer
  const Eight n = shifted - 12582912.0f;
  const Eight r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  Eight y = r * 1.9875691500e-4f + 1.3981999507e-3f;
  y = y * r + 8.3334519073e-3f;
  y = y * r + 4.1665795894e-2f;
  y = y * r + 1.6666665459e-1f;
  y = y * r + 5.0000001201e-1f;
  y = (y * r * r + r) + 1.0f;
  Ints bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits - 0x4b400000 + 127) << 23;  // the bits of 12582912 are 0x4b400000
  Eight power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87.3f ? Eight{} : y * power;
}

inline float exponential(float x) { return exponential(Eight{} + x)[0]; }

// Calls body(T(), i) for all i in [0, size) in steps of the size of T.
template <typename F>
inline void each(int64_t size, F body) {
  int64_t i = 0;
  for (; i + 8 <= size; i += 8) body(Eight{}, i);
  for (; i < size; ++i) body(0.0f, i);
}

// Adds terms[0 … K) over all i in [0, size), where body(T(), i, terms) computes them. The order depends on `size` only.
// Four vectors for each sum hide the latency of additions. Blocks are added in double, so long rows stay exact.
template <int K, typename F>
inline void sums(int64_t size, double (&total)[K], F body) {
  constexpr int64_t kBlock = 4096;
  for (int k = 0; k < K; ++k) total[k] = 0;
  for (int64_t begin = 0; begin < size; begin += kBlock) {
    const int64_t end = std::min(size, begin + kBlock);
    Eight part[4][K] = {};
    float rest[K] = {};
    int64_t i = begin;
    for (; i + 32 <= end; i += 32)
      for (int j = 0; j < 4; ++j) {
        Eight terms[K];
        body(Eight{}, i + 8 * j, terms);
        for (int k = 0; k < K; ++k) part[j][k] += terms[k];
      }
    for (; i + 8 <= end; i += 8) {
      Eight terms[K];
      body(Eight{}, i, terms);
      for (int k = 0; k < K; ++k) part[0][k] += terms[k];
    }
    for (; i < end; ++i) {
      float terms[K];
      body(0.0f, i, terms);
      for (int k = 0; k < K; ++k) rest[k] += terms[k];
    }
    for (int k = 0; k < K; ++k) {
      const Eight all = (part[0][k] + part[1][k]) + (part[2][k] + part[3][k]);
      double sum = rest[k];
      for (int lane = 0; lane < 8; ++lane) sum += all[lane];
      total[k] += sum;
    }
  }
}

// Calls body(i) for all i in [0, count) on XLA's threads and on this one.
//
// This thread takes indices like all others, and in the end waits only for indices that another thread is computing. It
// therefore never waits for a thread that XLA keeps busy otherwise. A task that starts late finds no index left; it
// touches nothing but the counters, which it owns with the others.
template <typename F>
void parallel(ffi::ThreadPool& pool, int64_t count, F body) {
  const int64_t threads = std::min<int64_t>(pool.num_threads(), count);
  if (threads <= 1) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  struct Counters {
    std::atomic<int64_t> next{0}, done{0};
  };
  auto counters = std::make_shared<Counters>();
  auto work = [counters, count, body] {
    for (int64_t i; (i = counters->next.fetch_add(1)) < count;) {
      body(i);
      if (counters->done.fetch_add(1) + 1 == count) counters->done.notify_all();
    }
  };
  for (int64_t t = 1; t < threads; ++t) pool.Schedule(decltype(work)(work));
  work();
  for (int64_t done; (done = counters->done.load()) < count;) counters->done.wait(done);
}

// The number of pieces of about `grain` entries into which rows are divided. It does not depend on the threads, so
// neither do the results.
inline int64_t pieces(int64_t rows, int64_t row_size, int64_t grain = 32768) {
  const int64_t per_piece = std::max<int64_t>(1, grain / std::max<int64_t>(1, row_size));
  return (rows + per_piece - 1) / per_piece;
}

inline int64_t last(const Input& array, int from_end = 1) {
  const auto sizes = array.dimensions();
  return sizes[sizes.size() - from_end];
}

// The signature of a kernel: XLA's threads, its arrays, and its results.
template <int kInputs, int kOutputs, typename Binding>
auto arrays(Binding&& binding) {
  if constexpr (kInputs > 0) {
    return arrays<kInputs - 1, kOutputs>(std::move(binding).template Arg<Input>());
  } else if constexpr (kOutputs > 1) {
    return arrays<0, kOutputs - 1>(std::move(binding).template Ret<ffi::Buffer<ffi::F32>>());
  } else {
    return std::move(binding).template Ret<ffi::Buffer<ffi::F32>>();
  }
}

template <int kInputs, int kOutputs>
auto kernel() {
  return arrays<kInputs, kOutputs>(ffi::Ffi::Bind().Ctx<ffi::ThreadPool>());
}

}  // namespace funcnet
