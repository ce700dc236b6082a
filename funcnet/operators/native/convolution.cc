// Convolutions in one, two and three dimensions by oneDNN, with plain (…, channels, positions) arrays at the border.
//
// oneDNN has threads of its own, which would compete with those of XLA. It therefore runs on one thread at a time, and
// XLA's threads each compute a part of the images, or of the channels. The parts depend on the shapes only, so the
// results do not depend on the threads.
#include <map>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>

#include "depthwise.h"
#include "kernels.h"

// Of OpenMP, which oneDNN is linked with.
extern "C" void omp_set_num_threads(int);
extern "C" int omp_get_max_threads(void);

namespace funcnet {
namespace {

using dnnl::memory;
using Sizes = ffi::Span<const int64_t>;
using Dims = memory::dims;

enum Kind { kForward, kInput, kWeight };  // the result: of the convolution, or a gradient

// Lets oneDNN use this thread only.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }

 private:
  const int before_;
};

dnnl::engine& processor() {
  static dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}

// A convolution of x (images, groups · in, *from) and w (groups · out, in, *kernel) to y (images, groups · out, *to).
struct Convolution {
  int64_t images, groups, in, out;
  Dims from, kernel, to, strides, dilations, low, high;

  int64_t positions() const { return product(from); }
  int64_t results() const { return product(to); }
  int64_t taps() const { return product(kernel); }

  static int64_t product(const Dims& sizes) {
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    return count;
  }
};

// The part of the arrays that one thread computes.
struct Part {
  int64_t image, images, group, groups, in_begin, in, out_begin, out;
};

memory::desc strided(const Dims& sizes, const Dims& steps) { return {sizes, memory::data_type::f32, steps}; }

// Channels [begin, begin + count) of an array with `channels` channels.
memory::desc images_of(int64_t images, int64_t count, int64_t channels, const Dims& sizes) {
  Dims all{images, count}, steps(sizes.size() + 2);
  all.insert(all.end(), sizes.begin(), sizes.end());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) steps[i + 2] = step, step *= sizes[i];
  steps[1] = step;
  steps[0] = step * channels;
  return strided(all, steps);
}

memory::desc kernel_of(const Convolution& c, const Part& part) {
  Dims all, steps;
  const int64_t taps = c.taps();
  if (part.groups > 1) all = {part.groups, part.out, part.in}, steps = {c.out * c.in * taps, c.in * taps, taps};
  else all = {part.out, part.in}, steps = {c.in * taps, taps};
  int64_t step = taps;
  for (const int64_t size : c.kernel) step /= size, all.push_back(size), steps.push_back(step);
  return strided(all, steps);
}

memory::desc any(const memory::desc& plain) {
  return {plain.get_dims(), memory::data_type::f32, memory::format_tag::any};
}

// A convolution of plain arrays: in oneDNN's formats, with reorders before and after it.
struct Plan {
  dnnl::primitive main;
  memory::desc plain[3], own[3], scratch;  // x, w, y
  dnnl::reorder change[3];                 // to oneDNN's format; for the result, from it
  bool changes[3];
};

Plan make(Kind kind, const Convolution& c, const Part& part) {
  Plan plan;
  plan.plain[0] = images_of(part.images, part.groups * part.in, c.groups * c.in, c.from);
  plan.plain[1] = kernel_of(c, part);
  plan.plain[2] = images_of(part.images, part.groups * part.out, c.groups * c.out, c.to);
  const memory::desc x = any(plan.plain[0]), w = any(plan.plain[1]), y = any(plan.plain[2]);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  Dims gaps = c.dilations;
  for (int64_t& gap : gaps) gap -= 1;
  const auto direct = dnnl::algorithm::convolution_direct;
  const dnnl::convolution_forward::primitive_desc forward(
      processor(), kind == kForward ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training, direct, x,
      w, y, c.strides, gaps, c.low, c.high, attr);
  auto formats = [&](const memory::desc& x, const memory::desc& w, const memory::desc& y, const memory::desc& scratch) {
    plan.own[0] = x, plan.own[1] = w, plan.own[2] = y, plan.scratch = scratch;
  };
  if (kind == kForward) {
    formats(forward.src_desc(), forward.weights_desc(), forward.dst_desc(), forward.scratchpad_desc());
    plan.main = dnnl::convolution_forward(forward);
  } else if (kind == kInput) {
    const dnnl::convolution_backward_data::primitive_desc backward(processor(), direct, x, w, y, c.strides, gaps, c.low,
                                                                   c.high, forward, attr);
    formats(backward.diff_src_desc(), backward.weights_desc(), backward.diff_dst_desc(), backward.scratchpad_desc());
    plan.main = dnnl::convolution_backward_data(backward);
  } else {
    const dnnl::convolution_backward_weights::primitive_desc backward(processor(), direct, x, w, y, c.strides, gaps,
                                                                      c.low, c.high, forward, attr);
    formats(backward.src_desc(), backward.diff_weights_desc(), backward.diff_dst_desc(), backward.scratchpad_desc());
    plan.main = dnnl::convolution_backward_weights(backward);
  }
  const int result = kind == kForward ? 2 : kind == kInput ? 0 : 1;
  for (int i = 0; i < 3; ++i) {
    if (!(plan.changes[i] = plan.own[i] != plan.plain[i])) continue;
    const auto &from = i == result ? plan.own[i] : plan.plain[i], &to = i == result ? plan.plain[i] : plan.own[i];
    plan.change[i] = dnnl::reorder(dnnl::reorder::primitive_desc(processor(), from, processor(), to));
  }
  return plan;
}

// The plan of a convolution, which is made once a process.
std::shared_ptr<const Plan> plan_of(Kind kind, const Convolution& c, const Part& part) {
  static std::mutex guard;
  static std::map<Dims, std::shared_ptr<const Plan>> plans;
  Dims key{kind, c.groups, c.in, c.out, part.images, part.groups, part.in, part.out};
  for (const Dims* one : {&c.from, &c.kernel, &c.to, &c.strides, &c.dilations, &c.low, &c.high})
    key.insert(key.end(), one->begin(), one->end());
  {
    const std::lock_guard<std::mutex> lock(guard);
    if (const auto found = plans.find(key); found != plans.end()) return found->second;
  }
  auto made = std::make_shared<const Plan>(make(kind, c, part));
  const std::lock_guard<std::mutex> lock(guard);
  return plans.emplace(key, made).first->second;
}

// Memory of a thread, which is kept for its next call: fresh memory would cost a page fault every 4 kB.
class Arena {
 public:
  float* take(int which, size_t bytes) {
    auto& block = blocks_[which];
    if (block.size < bytes) {
      std::free(block.data);
      block.size = (bytes + 4095) / 4096 * 4096;
      block.data = static_cast<float*>(std::aligned_alloc(4096, block.size));
    }
    return block.data;
  }
  ~Arena() {
    for (auto& block : blocks_) std::free(block.data);
  }

 private:
  struct Block {
    float* data = nullptr;
    size_t size = 0;
  } blocks_[5];
};

// An array in oneDNN's format that several parts read: its number, format and place.
struct Shared {
  int which = -1;
  memory::desc format;
  float* data = nullptr;
};

Arena& arena_of_thread() {
  thread_local Arena arena;
  return arena;
}

dnnl::stream& stream_of_thread() {
  thread_local dnnl::stream stream(processor());
  return stream;
}

// Brings the array `which` of a part into oneDNN's format. It is the same array for all parts.
Shared share(Kind kind, const Convolution& c, const Part& part, int which, float* data) {
  const OneThread guard;
  const auto plan = plan_of(kind, c, part);
  if (!plan->changes[which]) return {};
  float* own = arena_of_thread().take(4, plan->own[which].get_size());
  memory from(plan->plain[which], processor(), data), to(plan->own[which], processor(), own);
  plan->change[which].execute(stream_of_thread(), from, to);
  return {which, plan->own[which], own};
}

void run(Kind kind, const Convolution& c, const Part& part, float* arrays[3], const Shared& shared) {
  static const int kArguments[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                       {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                       {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
  const OneThread guard;
  Arena& arena = arena_of_thread();
  dnnl::stream& stream = stream_of_thread();
  const auto plan = plan_of(kind, c, part);
  float* const begins[3] = {
      arrays[0] + ((part.image * c.groups + part.group) * c.in + part.in_begin) * c.positions(),
      arrays[1] + ((part.group * c.out + part.out_begin) * c.in + part.in_begin) * c.taps(),
      arrays[2] + ((part.image * c.groups + part.group) * c.out + part.out_begin) * c.results()};
  const int result = kind == kForward ? 2 : kind == kInput ? 0 : 1;
  std::unordered_map<int, memory> arguments;
  memory plain[3], own[3];
  for (int i = 0; i < 3; ++i) {
    plain[i] = memory(plan->plain[i], processor(), begins[i]);
    if (i == shared.which && plan->own[i] == shared.format) {
      own[i] = memory(plan->own[i], processor(), shared.data);
    } else if (plan->changes[i]) {
      own[i] = memory(plan->own[i], processor(), arena.take(i, plan->own[i].get_size()));
      if (i != result) plan->change[i].execute(stream, plain[i], own[i]);
    } else {
      own[i] = plain[i];
    }
    arguments.emplace(kArguments[kind][i], own[i]);
  }
  if (const size_t bytes = plan->scratch.get_size())
    arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(plan->scratch, processor(), arena.take(3, bytes)));
  plan->main.execute(stream, arguments);
  if (plan->changes[result]) plan->change[result].execute(stream, own[result], plain[result]);
  stream.wait();
}

// Divides a convolution into parts for threads: by images, or by channels if the weights are the larger array.
void divide(ffi::ThreadPool& pool, Kind kind, const Convolution& c, float* x, float* w, float* y) {
  const int64_t weights = c.groups * c.out * c.in * c.taps();
  const int64_t inputs = c.images * c.groups * c.in * c.positions(), outputs = c.images * c.groups * c.out * c.results();
  const int64_t channels = c.groups > 1 ? c.groups : kind == kInput ? c.in : c.out;
  const int64_t grain = c.groups > 1 ? 16 : 32;  // fewer channels would not fill oneDNN's loops
  const int64_t most = std::min<int64_t>(8, (channels + grain - 1) / grain);
  const int64_t worth = std::max<int64_t>(1, weights * c.images * c.results() >> 18);  // parts of some 50 microseconds
  const bool by_image = c.images > 1 && (most == 1 || (c.groups == 1 && weights <= (kind == kInput ? outputs : inputs)));
  // Each part of a gradient of the weights has a sum of its own.
  const int64_t count = std::min(worth, !by_image ? most : kind == kWeight ? std::min<int64_t>(8, c.images) : c.images);
  auto part_of = [&](int64_t piece) {
    Part part{0, c.images, 0, c.groups, 0, c.in, 0, c.out};
    if (by_image) {
      part.image = c.images * piece / count;
      part.images = c.images * (piece + 1) / count - part.image;
      return part;
    }
    const int64_t blocks = (channels + grain - 1) / grain;
    const int64_t begin = std::min(channels, blocks * piece / count * grain);
    const int64_t size = std::min(channels, blocks * (piece + 1) / count * grain) - begin;
    if (c.groups > 1) part.group = begin, part.groups = size;
    else if (kind == kInput) part.in_begin = begin, part.in = size;
    else part.out_begin = begin, part.out = size;
    return part;
  };
  float* const whole[3] = {x, w, y};
  Shared shared;
  const int which = by_image ? (kind == kWeight ? -1 : 1) : c.groups > 1 ? -1 : kind == kInput ? 2 : 0;
  if (count > 1 && which >= 0) shared = share(kind, c, part_of(0), which, whole[which]);
  std::vector<float> sums(kind == kWeight && by_image ? (count - 1) * weights : 0);
  float* extra = sums.data();
  std::exception_ptr failure;  // of any part: an exception must not leave a thread of XLA
  std::mutex guard;
  parallel(pool, count, [&, extra](int64_t piece) {
    float* arrays[3] = {x, w, y};
    if (kind == kWeight && by_image && piece) arrays[1] = extra + (piece - 1) * weights;
    try {
      run(kind, c, part_of(piece), arrays, shared);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(guard);
      failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
  if (!sums.empty())
    for (int64_t piece = 0; piece + 1 < count; ++piece)
      each(weights, [&](auto t, int64_t i) {
        using T = decltype(t);
        store(w + i, load<T>(w + i) + load<T>(extra + piece * weights + i));
      });
}

// Computes the gradient of the kernel of a depthwise convolution where oneDNN is slow, or returns false.
bool divide_depthwise(ffi::ThreadPool& pool, Kind kind, const Convolution& c, float* x, float* w, float* y) {
  const size_t rank = c.from.size();
  const bool is_dense = std::all_of(c.dilations.begin(), c.dilations.end(), [](int64_t one) { return one == 1; });
  if (kind != kWeight || c.groups == 1 || c.in != 1 || c.out != 1 || rank > 2 || !is_dense) return false;
  if (c.kernel.back() <= 3) return false;
  auto first = [rank](const Dims& sizes, int64_t without) { return rank == 2 ? sizes[0] : without; };
  const Depthwise d{c.images, c.groups, first(c.from, 1), c.from.back(), first(c.to, 1), c.to.back(),
                    first(c.kernel, 1), c.kernel.back(), first(c.strides, 1), c.strides.back(), first(c.low, 0),
                    c.low.back()};
  depthwise_weight(pool, d, x, y, w);
  return true;
}

ffi::Error call(ffi::ThreadPool& pool, Kind kind, const ffi::AnyBuffer& x, const ffi::AnyBuffer& w,
                const ffi::AnyBuffer& y, Sizes strides, Sizes low, Sizes high, Sizes dilations, int64_t groups) {
  const auto xs = x.dimensions(), ws = w.dimensions(), ys = y.dimensions();
  const size_t rank = strides.size();
  auto tail = [rank](auto sizes) { return Dims(sizes.end() - rank, sizes.end()); };
  auto whole = [](Sizes sizes) { return Dims(sizes.begin(), sizes.end()); };
  const int64_t in = xs[xs.size() - rank - 1], out = ys[ys.size() - rank - 1];
  Convolution c{0, groups, in / groups, out / groups, tail(xs), tail(ws), tail(ys), whole(strides), whole(dilations),
                whole(low), whole(high)};
  const int64_t images = static_cast<int64_t>(x.element_count()) / std::max<int64_t>(1, in * c.positions());
  const int64_t weights = out * c.in * c.taps();
  // The gradient of the weights has a sum for each of the dimensions that devices share.
  const int64_t blocks = kind == kWeight ? static_cast<int64_t>(w.element_count()) / std::max<int64_t>(1, weights) : 1;
  c.images = images / std::max<int64_t>(1, blocks);
  try {
    for (int64_t block = 0; block < blocks; ++block) {
      float* const own[3] = {static_cast<float*>(x.untyped_data()) + block * c.images * in * c.positions(),
                             static_cast<float*>(w.untyped_data()) + block * weights,
                             static_cast<float*>(y.untyped_data()) + block * c.images * out * c.results()};
      if (!divide_depthwise(pool, kind, c, own[0], own[1], own[2])) divide(pool, kind, c, own[0], own[1], own[2]);
    }
  } catch (const dnnl::error& error) {
    return ffi::Error::Internal(std::string("oneDNN cannot compute a convolution: ") + error.what());
  }
  return ffi::Error::Success();
}

template <Kind kind>
ffi::Error convolution(ffi::ThreadPool pool, ffi::AnyBuffer first, ffi::AnyBuffer second, ffi::Result<ffi::AnyBuffer> to,
                       Sizes strides, Sizes low, Sizes high, Sizes dilations, int64_t groups, Sizes) {
  if constexpr (kind == kForward)
    return call(pool, kind, first, second, *to, strides, low, high, dilations, groups);
  else if constexpr (kind == kInput)  // of the kernel and the gradient of the result
    return call(pool, kind, *to, first, second, strides, low, high, dilations, groups);
  else  // of the input and the gradient of the result
    return call(pool, kind, first, *to, second, strides, low, high, dilations, groups);
}

auto signature() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()
      .Arg<ffi::AnyBuffer>()
      .Ret<ffi::AnyBuffer>()
      .Attr<Sizes>("strides")
      .Attr<Sizes>("low")
      .Attr<Sizes>("high")
      .Attr<Sizes>("dilations")
      .Attr<int64_t>("groups")
      .Attr<Sizes>("sizes");
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_convolution, convolution<kForward>, signature());
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_convolution_input, convolution<kInput>, signature());
XLA_FFI_DEFINE_HANDLER_SYMBOL(funcnet_convolution_weight, convolution<kWeight>, signature());

}  // namespace funcnet
