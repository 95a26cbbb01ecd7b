#include "engine/runtime/gpu/graphs.h"

#include <algorithm>
#include <utility>

namespace twobw::runtime::gpu {
namespace {

using at::Tensor;
using models::Tensors;

template <typename Queue>
std::unique_ptr<at::cuda::CUDAGraph> capture(at::cuda::MempoolId_t pool, const Queue& queue) {
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  graph->capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  queue();
  graph->capture_end();
  return graph;
}

// The tensor's memory, without keeping other captures from it.
Tensor place_of(const Tensor& tensor) {
  return at::for_blob(tensor.mutable_data_ptr(), tensor.sizes())
      .strides(tensor.strides())
      .options(tensor.options())
      .target_device(tensor.device())
      .make_tensor();
}

}  // namespace

Graphs::Graphs(int slots, bool recompute, Footprint& footprint)
    : recompute_(recompute),
      footprint_(footprint),
      slots_(slots),
      shared_pool_(at::cuda::graph_pool_handle()) {
  for (SlotMemory& slot : slots_) slot.pool = at::cuda::graph_pool_handle();
}

GraphPair& Graphs::pair(int slot, int weight_buffer, int gradient_buffer) {
  return pairs_[{slot, weight_buffer, gradient_buffer}];
}

void Graphs::capture_forward(int slot, GraphPair& pair, const Work& work) {
  if (recompute_) {
    capture_bare(slots_[slot], pair, work);
  } else {
    capture_kept(slots_[slot], pair, work);
  }
}

void Graphs::capture_kept(SlotMemory& slot, GraphPair& pair, const Work& work) {
  const Watermark memory;
  Tensors outputs;
  pair.forward = capture(slot.pool, [&] { outputs = work(); });
  const double held = memory.live(), highest = memory.peak();
  for (const Tensor& output : outputs) pair.outputs.push_back(place_of(output));
  outputs.clear();
  // Both weight buffers' graphs use the slot's memory in turn, so that of the first is all there is.
  if (std::exchange(slot.counted, true)) return;
  footprint_[Term::Activations] += memory.live();
  footprint_[Term::Transfer] += held - memory.live();
  footprint_[Term::Working] += highest - held;
}

void Graphs::capture_bare(SlotMemory& slot, GraphPair& pair, const Work& work) {
  if (slot.outputs.empty()) {
    for (const Tensor& output : work()) slot.outputs.push_back(at::empty_like(output));
    footprint_[Term::Transfer] += bytes_of(slot.outputs);
  }
  const Watermark memory;
  pair.forward = capture(shared_pool_, [&] {
    const Tensors outputs = work();
    for (std::size_t i = 0; i < outputs.size(); ++i) slot.outputs[i].copy_(outputs[i]);
  });
  pair.outputs = slot.outputs;
  count_shared(memory.peak());
}

void Graphs::capture_backward(GraphPair& pair, const Work& work) {
  const Watermark memory;
  pair.backward = capture(shared_pool_, [&] {
    for (const Tensor& gradient : work()) pair.of_inputs.push_back(place_of(gradient));
  });
  count_shared(memory.peak());
}

void Graphs::count_shared(double peak) {
  const double highest = std::max(shared_bytes_, peak);
  footprint_[Term::Working] += highest - std::exchange(shared_bytes_, highest);
}

std::mutex& capture_mutex() {
  static std::mutex mutex;
  return mutex;
}

double bytes_of(const models::Tensors& tensors) {
  double sum = 0;
  for (const at::Tensor& tensor : tensors) sum += static_cast<double>(tensor.nbytes());
  return sum;
}

}  // namespace twobw::runtime::gpu
