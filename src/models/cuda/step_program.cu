#include "models/cuda/step_program.h"

#include <algorithm>

#include "models/cuda/early_begin.cuh"
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

// Parts of attention that every block reads to put its product's rows together: up to so many bytes of them.
constexpr std::int64_t kMostParts = 144 << 10;

template <typename T>
class Program final : public StepProgram {
 public:
  // Whether it can be launched.
  bool make(const StepNotes& notes, const StepTuning& tuning) {
    if (!is_for_hopper(reinterpret_cast<const void*>(step_kernel<T>))) return false;
    for (const StepInstruction& instruction : notes.instructions) add(instruction, tuning.joins_in_products);
    if (blocks_ == 0 || !is_one_grid_ || !is_for_teams_ || rows_ > tuning.most_rows) return false;
    return choose_depth(tuning) && upload();
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
  int depth() const override { return arguments_.stages; }
  int barriers() const override { return arguments_.count - 1; }

 private:
  void add(const StepInstruction& instruction, bool joins_in_products) {
    if (instruction.kind == StepKind::Product) {
      const auto product = instruction.as<FewRows<T>>();
      add(product);
      const bool adds_early = product.added != nullptr && !product.gated && !commands_.empty() &&
                              out_of(commands_.back().what) != product.added;
      if (joins_in_products && put_together_in(product)) {
        commands_.back().what = instruction;
      } else {
        commands_.push_back({.what = instruction});
      }
      commands_.back().adds_early = adds_early;
      return;
    } else if (instruction.kind == StepKind::Attend) {
      const auto attention = instruction.as<CachedAttention<T>>();
      is_for_teams_ = is_for_teams_ && attention.rows * attention.queries * attention.splits <= kMostTaken;
      staged_ = std::max(staged_, kScratch);
      partials_ = std::max(partials_, cached_attention_partials(attention.rows, attention.queries,
                                                                attention.size, attention.splits));
      commands_.push_back({.what = instruction});
      if (attention.splits == 1) return;
      commands_.push_back({.what = StepInstruction::of(StepKind::Join, attention, instruction.how)});
      return;
    }
    commands_.push_back({.what = instruction});
  }
  // Where an instruction writes what the next may take.
  static const void* out_of(const StepInstruction& instruction) {
    switch (instruction.kind) {
      case StepKind::Embed:
        return instruction.as<EmbedRows<T>>().out;
      case StepKind::Product:
        return instruction.as<FewRows<T>>().out;
      case StepKind::Attend:
      case StepKind::Join:
        return instruction.as<CachedAttention<T>>().out;
      default:
        return nullptr;
    }
  }
  // Whether the last command puts together what this product takes as its rows, and the product can do that:
  // it is left to it then.
  bool put_together_in(const FewRows<T>& product) {
    if (commands_.empty() || commands_.back().what.kind != StepKind::Join) return false;
    const StepInstruction join = commands_.back().what;
    const auto attention = join.as<CachedAttention<T>>();
    const std::int64_t parts =
        cached_attention_partials(attention.rows, attention.queries, attention.size, attention.splits);
    if ((join.how & kJoinsAsClusters) == 0 || product.x != attention.out || product.gain != nullptr ||
        product.gated || product.rows != attention.rows ||
        product.in != static_cast<std::int64_t>(attention.queries) * attention.size ||
        parts * static_cast<std::int64_t>(sizeof(float)) > kMostParts)
      return false;
    commands_.back().rows_from = join;
    return true;
  }
  void add(const FewRows<T>& product) {
    const auto layout =
        product.gated ? narrow::Layout::of<true>(product.in) : narrow::Layout::of<false>(product.in);
    staged_ = std::max(staged_, static_cast<std::size_t>(product.rows) * layout.stride * sizeof(T));
    sums_ = std::max(sums_, static_cast<std::size_t>(narrow::TileSums::bytes(product.rows)));
    if (product.gain != nullptr) gains_ = std::max(gains_, static_cast<std::size_t>(product.in) * sizeof(T));
    const auto in = static_cast<int>(product.in);
    products_.push_back({.weight = product.weight,
                         .columns = static_cast<int>(product.columns),
                         .in = product.gated ? -in : in});
    is_one_grid_ = is_one_grid_ && (blocks_ == 0 || blocks_ == product.multiprocessors);
    blocks_ = product.multiprocessors;
    rows_ = std::max(rows_, product.rows);
  }

  // As deep as there is room for, with one block a multiprocessor; two stages at least.
  bool choose_depth(const StepTuning& tuning) {
    arguments_.count = static_cast<int>(commands_.size());
    arguments_.product_count = static_cast<int>(products_.size());
    arguments_.staged_bytes = whole_packs(staged_);
    arguments_.sums_bytes = whole_packs(sums_);
    arguments_.gains_bytes = whole_packs(gains_);
    const std::size_t room = most_room(step_kernel<T>);
    for (int stages = tuning.most_depth; stages >= 2; --stages) {
      arguments_.stages = stages;
      arguments_.most_asked = std::min(tuning.most_asked, narrow::kQuarters * stages);
      if (arguments_.room() <= room) return can_run();
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

  bool upload() {
    partial_ = on_gpu(static_cast<std::size_t>(partials_) * sizeof(float));
    const auto use_own_parts = [&](StepInstruction& instruction) {
      if (instruction.kind != StepKind::Attend && instruction.kind != StepKind::Join) return;
      auto attention = instruction.as<CachedAttention<T>>();
      attention.partial = static_cast<float*>(partial_.get());
      instruction = StepInstruction::of(instruction.kind, attention, instruction.how);
    };
    for (Command& command : commands_) {
      use_own_parts(command.what);
      use_own_parts(command.rows_from);
    }
    const auto set_gain = [&](const Command& command, const void*& gain, int& packs) {
      if (command.what.kind != StepKind::Product) return;
      const auto product = command.what.as<FewRows<T>>();
      gain = product.gain;
      packs = product.gain == nullptr ? 0 : static_cast<int>(product.in / narrow::kPack);
    };
    int turn = 0;
    for (Command& command : commands_) {
      command.turn = turn;
      if (command.what.kind != StepKind::Product) continue;
      const auto product = command.what.as<FewRows<T>>();
      turn = (turn + narrow::tiles_of(product.columns, product.gated)) % blocks_;
    }
    set_gain(commands_.front(), arguments_.first_gain, arguments_.first_gains);
    for (std::size_t i = 0; i + 1 < commands_.size(); ++i)
      set_gain(commands_[i + 1], commands_[i].next_gain, commands_[i].next_gains);
    on_gpu_commands_ = on_gpu(commands_.size() * sizeof(Command), commands_.data());
    on_gpu_products_ = on_gpu(products_.size() * sizeof(narrow::Streamed), products_.data());
    barrier_ = on_gpu(sizeof(unsigned));
    arguments_.commands = static_cast<const Command*>(on_gpu_commands_.get());
    arguments_.products = static_cast<const narrow::Streamed*>(on_gpu_products_.get());
    arguments_.barrier = static_cast<unsigned*>(barrier_.get());
    return partial_ && on_gpu_commands_ && on_gpu_products_ && barrier_;
  }
  std::vector<Command> commands_;
  std::vector<narrow::Streamed> products_;
  std::size_t staged_ = 0, sums_ = 0, gains_ = 0;
  std::int64_t partials_ = 0;
  int blocks_ = 0, rows_ = 0;
  bool is_one_grid_ = true, is_for_teams_ = true;
  Arguments arguments_;
  OnGpu on_gpu_commands_, on_gpu_products_, barrier_, partial_;
};

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
