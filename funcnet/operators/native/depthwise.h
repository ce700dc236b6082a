// Gradients of the kernels of depthwise convolutions, each channel with one kernel, in one and two dimensions. Those of
// oneDNN are slow for kernels with more than 3 columns: for 5 x 5 they take 7 to 16 times as long.
#pragma once

#include "kernels.h"

namespace funcnet {

struct Depthwise {
  int64_t images, channels, height, width, rows, columns;  // of the input, and of the result
  int64_t kernel_rows, kernel_columns, down, step;         // strides
  int64_t above, left;                                     // zeros before the first row and column

  int64_t plane() const { return height * width; }
  int64_t result() const { return rows * columns; }
  int64_t taps() const { return kernel_rows * kernel_columns; }
};

// Copies `count` planes of `rows` rows to vectors, one for each position, with the planes as lanes. Rows become `wide`
// vectors long, with zeros before and after their entries.
inline void interleave(const float* planes, int64_t count, int64_t rows, int64_t columns, int64_t before, int64_t wide,
                       Eight* out) {
  const int64_t size = rows * columns, end = std::max(before, std::min(wide, before + columns));
  for (int64_t r = 0; r < rows; ++r, out += wide) {
    std::fill(out, out + before, Eight{});
    for (int64_t i = before; i < end; ++i) {
      const float* in = planes + r * columns + i - before;
      Eight lanes{};
      if (count == 8)
        for (int64_t lane = 0; lane < 8; ++lane) lanes[lane] = in[lane * size];
      else
        for (int64_t lane = 0; lane < count; ++lane) lanes[lane] = in[lane * size];
      out[i] = lanes;
    }
    std::fill(out + end, out + wide, Eight{});
  }
}

// sums[j] += Σ gradient[i] · row[i · step + j] over all i in [0, size).
template <int kTaps>
void add_products(const Eight* row, int64_t step, const Eight* gradient, int64_t size, Eight* sums) {
  Eight own[kTaps];
  for (int j = 0; j < kTaps; ++j) own[j] = sums[j];
  for (int64_t i = 0; i < size; ++i)
    for (int j = 0; j < kTaps; ++j) own[j] += gradient[i] * row[i * step + j];
  for (int j = 0; j < kTaps; ++j) sums[j] = own[j];
}

// The gradient w (channels, taps) from x (images, channels, plane) and the gradient y (images, channels, result).
inline void depthwise_weight(ffi::ThreadPool& pool, const Depthwise& d, const float* x, const float* y, float* w) {
  using Add = void (*)(const Eight*, int64_t, const Eight*, int64_t, Eight*);
  static const Add kAdd[] = {add_products<1>, add_products<2>, add_products<3>, add_products<4>,
                             add_products<5>, add_products<6>, add_products<7>, add_products<8>};
  parallel(pool, (d.channels + 7) / 8, [=](int64_t group) {
    const int64_t channel = 8 * group, count = std::min<int64_t>(8, d.channels - channel);
    const int64_t wide = (d.columns - 1) * d.step + d.kernel_columns;
    thread_local std::vector<Eight> memory;  // kept, because fresh memory costs a page fault every 4 kB
    memory.resize(std::max<size_t>(memory.size(), d.height * wide + d.result()));
    Eight *inputs = memory.data(), *gradients = inputs + d.height * wide;
    std::vector<Eight> total(d.taps(), Eight{}), sums(d.taps());
    for (int64_t image = 0; image < d.images; ++image) {
      const int64_t place = image * d.channels + channel;
      interleave(x + place * d.plane(), count, d.height, d.width, d.left, wide, inputs);
      interleave(y + place * d.result(), count, d.rows, d.columns, 0, d.columns, gradients);
      std::fill(sums.begin(), sums.end(), Eight{});
      for (int64_t r = 0; r < d.rows; ++r)
        for (int64_t i = 0; i < d.kernel_rows; ++i) {
          const int64_t row = r * d.down + i - d.above;
          if (row < 0 || row >= d.height) continue;
          for (int64_t j = 0; j < d.kernel_columns; j += 8)
            kAdd[std::min<int64_t>(8, d.kernel_columns - j) - 1](inputs + row * wide + j, d.step,
                                                                 gradients + r * d.columns, d.columns,
                                                                 &sums[i * d.kernel_columns + j]);
        }
      for (int64_t t = 0; t < d.taps(); ++t) total[t] += sums[t];
    }
    for (int64_t lane = 0; lane < count; ++lane)
      for (int64_t t = 0; t < d.taps(); ++t) w[(channel + lane) * d.taps() + t] = total[t][lane];
  });
}

}  // namespace funcnet
