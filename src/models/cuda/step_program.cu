#include "models/cuda/step_program.h"

#include <algorithm>

#include "models/cuda/shared_room.h"
#include "models/cuda/step_kernel.cuh"

namespace twobw::models::cuda {
namespace step {
namespace {

struct FreeOnGpu {
  void operator()(void* memory) const { cudaFree(memory); }
};
using OnGpu = std::unique_ptr<void, FreeOnGpu>;

// Zeros, or what is given; null where there is no memory.
OnGpu on_gpu(std::size_t bytes, const void* from = nullptr) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)) != cudaSuccess) return nullptr;
  OnGpu owned(memory);
  const cudaError_t error = from == nullptr ? cudaMemset(memory, 0, bytes)
                                            : cudaMemcpy(memory, from, bytes, cudaMemcpyHostToDevice);
  return error == cudaSuccess && cudaStreamSynchronize(nullptr) == cudaSuccess ? std::move(owned) : nullptr;
}

int whole_packs(std::size_t bytes) {
  return static_cast<int>((bytes + sizeof(uint4) - 1) / sizeof(uint4) * sizeof(uint4));
}

// Of a team, as with_shape_of() chooses.
template <typename T>
std::size_t scratch_of(const CachedAttention<T>& attention) {
  constexpr int Q = cached::kMostQueries;
  const bool is_small = attention.size <= 64;
  if (attention.queries == attention.key_heads)
    return is_small ? sizeof(cached::Scratch<Shape<8, 1>>) : sizeof(cached::Scratch<Shape<16, 1>>);
  return is_small ? sizeof(cached::Scratch<Shape<8, Q>>) : sizeof(cached::Scratch<Shape<16, Q>>);
}

template <typename T>
class Program final : public StepProgram {
 public:
  // Whether it can be launched.
  bool make(const StepNotes& notes, const StepTuning& tuning) {
    for (const StepInstruction& instruction : notes.instructions) add(instruction);
    if (blocks_ == 0 || !is_one_grid_) return false;
    arguments_.left_out = tuning.left_out;
    return choose_depth(tuning.most_depth) && upload(tuning.times);
  }

  cudaError_t launch(cudaStream_t stream) const override {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(static_cast<unsigned>(blocks_));
    config.blockDim = dim3(kThreads);
    config.dynamicSmemBytes = arguments_.room();
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, step_kernel<T>, arguments_);
  }
  int depth() const override { return arguments_.depth; }
  int barriers() const override { return arguments_.count - 1; }
  std::vector<StepTimes> times() const override;

 private:
  void add(const StepInstruction& instruction) {
    if (instruction.kind == StepKind::Product) {
      add(instruction.as<FewRows<T>>());
    } else if (instruction.kind == StepKind::Attend) {
      const auto attention = instruction.as<CachedAttention<T>>();
      staged_ = std::max(staged_, kTeams * scratch_of(attention));
      partials_ = std::max(partials_, cached_attention_partials(attention.rows, attention.queries,
                                                                attention.size, attention.splits));
      instructions_.push_back(instruction);
      if (attention.splits == 1) return;
      instructions_.push_back(StepInstruction::of(StepKind::Join, attention, instruction.how));
      return;
    }
    instructions_.push_back(instruction);
  }
  void add(const FewRows<T>& product) {
    const auto layout =
        product.gated ? narrow::Layout::of<true>(product.in) : narrow::Layout::of<false>(product.in);
    const int sums =
        product.gated ? narrow::Layout::sums<true>(product.rows) : narrow::Layout::sums<false>(product.rows);
    staged_ = std::max(staged_, static_cast<std::size_t>(product.rows) * layout.stride * sizeof(T));
    sums_ = std::max(sums_, sums * sizeof(float));
    if (product.gain != nullptr) gains_ = std::max(gains_, static_cast<std::size_t>(product.in) * sizeof(T));
    const auto in = static_cast<int>(product.in);
    products_.push_back({.weight = product.weight,
                         .columns = static_cast<int>(product.columns),
                         .in = product.gated ? -in : in});
    is_one_grid_ = is_one_grid_ && (blocks_ == 0 || blocks_ == product.multiprocessors);
    blocks_ = product.multiprocessors;
  }

  // As deep as there is room for, with one block a multiprocessor.
  bool choose_depth(int most) {
    arguments_.count = static_cast<int>(instructions_.size());
    arguments_.product_count = static_cast<int>(products_.size());
    arguments_.staged_bytes = whole_packs(staged_);
    arguments_.sums_bytes = whole_packs(sums_);
    arguments_.gains_bytes = whole_packs(gains_);
    const std::size_t room = most_room(step_kernel<T>);
    for (const int depth : {12, 10, 8, 6, 4}) {
      arguments_.depth = depth;
      if (depth <= most && arguments_.room() <= room) return can_run();
    }
    return false;
  }
  bool can_run() const {
    int gpu = 0, cooperates = 0, multiprocessors = 0, blocks = 0;
    return cudaGetDevice(&gpu) == cudaSuccess &&
           cudaDeviceGetAttribute(&cooperates, cudaDevAttrCooperativeLaunch, gpu) == cudaSuccess &&
           cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, gpu) == cudaSuccess &&
           cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, step_kernel<T>, kThreads,
                                                         arguments_.room()) == cudaSuccess &&
           cooperates != 0 && blocks >= 1 && blocks_ <= multiprocessors;
  }

  bool upload(bool times) {
    partial_ = on_gpu(static_cast<std::size_t>(partials_) * sizeof(float));
    for (StepInstruction& instruction : instructions_) {
      if (instruction.kind != StepKind::Attend && instruction.kind != StepKind::Join) continue;
      auto attention = instruction.as<CachedAttention<T>>();
      attention.partial = static_cast<float*>(partial_.get());
      instruction = StepInstruction::of(instruction.kind, attention, instruction.how);
    }
    on_gpu_instructions_ = on_gpu(instructions_.size() * sizeof(StepInstruction), instructions_.data());
    on_gpu_products_ = on_gpu(products_.size() * sizeof(narrow::Streamed), products_.data());
    barrier_ = on_gpu(sizeof(unsigned));
    if (times) times_ = on_gpu(times_count() * sizeof(long long));
    arguments_.instructions = static_cast<const StepInstruction*>(on_gpu_instructions_.get());
    arguments_.products = static_cast<const narrow::Streamed*>(on_gpu_products_.get());
    arguments_.barrier = static_cast<unsigned*>(barrier_.get());
    arguments_.times = static_cast<long long*>(times_.get());
    return partial_ && on_gpu_instructions_ && on_gpu_products_ && barrier_ && (!times || times_);
  }
  static std::int64_t bytes_of(const StepInstruction& instruction) {
    if (instruction.kind != StepKind::Product) return 0;
    const auto product = instruction.as<FewRows<T>>();
    return (product.gated ? 2 : 1) * product.columns * product.in * static_cast<std::int64_t>(sizeof(T));
  }
  std::size_t times_count() const { return instructions_.size() * static_cast<std::size_t>(blocks_) * 3; }

  std::vector<StepInstruction> instructions_;
  std::vector<narrow::Streamed> products_;
  std::size_t staged_ = 0, sums_ = 0, gains_ = 0;
  std::int64_t partials_ = 0;
  int blocks_ = 0;
  bool is_one_grid_ = true;
  Arguments arguments_;
  OnGpu on_gpu_instructions_, on_gpu_products_, barrier_, partial_, times_;
};

template <typename T>
std::vector<StepTimes> Program<T>::times() const {
  std::vector<StepTimes> all;
  std::vector<long long> at(times_ ? times_count() : 0);
  if (!times_ || cudaMemcpy(at.data(), times_.get(), at.size() * sizeof(long long), cudaMemcpyDeviceToHost) !=
                     cudaSuccess)
    return all;
  const std::size_t count = instructions_.size(), blocks = static_cast<std::size_t>(blocks_);
  const auto time = [&](std::size_t block, std::size_t i, std::size_t what) {
    return static_cast<double>(at[(block * count + i) * 3 + what]);
  };
  // The first has nothing before it, and the last is done when nobody waits.
  for (std::size_t i = 1; i + 1 < count; ++i) {
    StepTimes& of = all.emplace_back(StepTimes{.kind = instructions_[i].kind,
                                               .bytes = bytes_of(instructions_[i]),
                                               .least_wait = 1e18,
                                               .wait = 0,
                                               .staging = 0,
                                               .rest = 0,
                                               .most_rest = 0});
    for (std::size_t block = 0; block < blocks; ++block) {
      const double let_go = time(block, i, 0), wait = let_go - time(block, i - 1, 2);
      const double staged =
          of.kind == StepKind::Product && time(block, i, 1) > let_go ? time(block, i, 1) : let_go;
      const double rest = time(block, i, 2) - staged, share = 1.0 / static_cast<double>(blocks);
      of.least_wait = std::min(of.least_wait, wait);
      of.wait += share * wait;
      of.staging += share * (staged - let_go);
      of.rest += share * rest;
      of.most_rest = std::max(of.most_rest, rest);
    }
  }
  return all;
}

template <typename T>
std::unique_ptr<StepProgram> program_of(const StepNotes& notes, const StepTuning& tuning) {
  auto program = std::make_unique<Program<T>>();
  if (program->make(notes, tuning)) return program;
  cudaGetLastError();
  return nullptr;
}

}  // namespace
}  // namespace step

std::unique_ptr<StepProgram> StepProgram::of(const StepNotes& notes, const StepTuning& tuning) {
  if (notes.bf16 > 0 && notes.half > 0) return nullptr;
  return notes.bf16 > 0 ? step::program_of<__nv_bfloat16>(notes, tuning)
                        : step::program_of<__half>(notes, tuning);
}

}  // namespace twobw::models::cuda
