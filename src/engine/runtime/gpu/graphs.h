// The CUDA graphs of a stage: a microbatch's forward and backward, captured once and replayed.
//
// A pair of graphs belongs to a slot, a weight buffer and a gradient buffer. Forwards of a slot allocate from
// the slot's memory pool, which the graphs of both weight buffers share: a slot holds one microbatch at a
// time. All backwards share one pool, because they run one after the other; so do forwards that save only
// their outputs.
#pragma once

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAFunctions.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/base/memory_terms.h"
#include "engine/device/device.h"
#include "engine/models/layer.h"

namespace twobw::runtime::gpu {

// Graphs are null until captured.
struct GraphPair {
  std::unique_ptr<at::cuda::CUDAGraph> forward, backward;
  models::Tensors outputs;    // of the forward, or the loss; valid until the slot's next forward
  models::Tensors of_inputs;  // gradients by the backward; valid until the next backward
};

// Used by the stage's thread; captures its current stream.
class Graphs {
 public:
  // `recompute`: backwards repeat their forward, so that it saves nothing. Counts the graphs' memory in
  // `footprint`, which outlives this.
  Graphs(int slots, bool recompute, Footprint& footprint);

  // The pair, empty at first. The reference stays valid.
  GraphPair& pair(int slot, int weight_buffer, int gradient_buffer);

  // Queues the work to capture and returns its outputs. May also be called before, uncaptured.
  using Work = std::function<models::Tensors()>;

  // Once for each pair, the forward first, with capture_mutex() held. `work` must have run before: libraries
  // create handles, load kernels and choose algorithms in the first run, which a capture forbids.
  void capture_forward(int slot, GraphPair& pair, const Work& work);
  void capture_backward(GraphPair& pair, const Work& work);

 private:
  struct SlotMemory {
    at::cuda::MempoolId_t pool;
    models::Tensors outputs;  // of forwards that save nothing else
    bool counted = false;     // in the footprint
  };
  void capture_kept(SlotMemory& slot, GraphPair& pair, const Work& work);
  void capture_bare(SlotMemory& slot, GraphPair& pair, const Work& work);
  void count_shared(double peak);

  bool recompute_;
  Footprint& footprint_;
  std::vector<SlotMemory> slots_;
  at::cuda::MempoolId_t shared_pool_;
  double shared_bytes_ = 0;  // needed in the shared pool
  std::map<std::tuple<int, int, int>, GraphPair> pairs_;
};

// Held during a capture, and during allocations of permanent tensors: captures exclude one another, and
// counting memory requires that no other thread allocates.
std::mutex& capture_mutex();

// Bytes allocated on the thread's GPU since its construction. One at a time, with capture_mutex() held.
class Watermark {
 public:
  Watermark() { meter_->reset_peak(); }
  double live() const { return meter_->live() - before_; }
  double peak() const { return meter_->peak() - before_; }

 private:
  std::unique_ptr<device::Meter> meter_ = device::make_gpu_meter({.gpu = c10::cuda::current_device()});
  double before_ = meter_->live();
};

double bytes_of(const models::Tensors& tensors);

}  // namespace twobw::runtime::gpu
