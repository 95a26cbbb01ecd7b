// The graphs of a stage: what it computes for a microbatch, captured once and launched from then on.
//
// A pair of graphs belongs to a slot, a weight buffer and a gradient buffer. Forwards of a slot take their
// memory from a pool of the slot's own, which the graphs of both weight buffers share, since a slot holds one
// microbatch at a time. All backwards share one pool, since they run one after the other, and so do forwards
// of which nothing is kept but what goes to the next stage.
#pragma once

#include <ATen/cuda/CUDAGraph.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/base/memory_terms.h"
#include "engine/models/layer.h"

namespace twobw::runtime::gpu {

// Each is null until it is captured.
struct GraphPair {
  std::unique_ptr<at::cuda::CUDAGraph> forward, backward;
  models::Tensors outputs;    // of the forward, or the loss: memory that the slot's next forward uses again
  models::Tensors of_inputs;  // of the backward: memory that the next backward uses again
};

// Used by the stage's thread; graphs are captured from its current stream.
class Graphs {
 public:
  // `recompute`: backwards make again what they need of their forward, so that nothing of it is kept. Counts
  // what the graphs' memory is used for in `footprint`, which outlives this.
  Graphs(int slots, bool recompute, Footprint& footprint);

  // Empty at first. The reference stays valid.
  GraphPair& pair(int slot, int weight_buffer, int gradient_buffer);

  // Queues what is to be captured and gives what comes out of it. May be called once more before, uncaptured.
  using Work = std::function<models::Tensors()>;

  // Once for a pair, the forward first. Everything that `work` uses has been used before, since libraries
  // make handles, load kernels and choose algorithms then, which must not happen in a capture; and the caller
  // holds capture_mutex().
  void capture_forward(int slot, GraphPair& pair, const Work& work);
  void capture_backward(GraphPair& pair, const Work& work);

 private:
  struct SlotMemory {
    at::cuda::MempoolId_t pool;
    models::Tensors outputs;  // where forwards leave them, if nothing else is kept
    bool counted = false;     // its memory
  };
  void capture_kept(SlotMemory& slot, GraphPair& pair, const Work& work);
  void capture_bare(SlotMemory& slot, GraphPair& pair, const Work& work);
  void count_shared(double peak);

  bool recompute_;
  Footprint& footprint_;
  std::vector<SlotMemory> slots_;
  at::cuda::MempoolId_t shared_pool_;
  double shared_bytes_ = 0;  // that it needs
  std::map<std::tuple<int, int, int>, GraphPair> pairs_;
};

// Held by whoever captures a graph, or makes tensors that stay: captures exclude one another, and while
// memory is counted nobody else may take any.
std::mutex& capture_mutex();

// Bytes that tensors on the thread's GPU take beyond those that were there when this was made. Needs
// capture_mutex() for as long as it is asked; one at a time.
class Watermark {
 public:
  Watermark();
  double live() const;
  double peak() const;

 private:
  std::int64_t before_;
};

double bytes_of(const models::Tensors& tensors);

}  // namespace twobw::runtime::gpu
