// A few layers of every kind in a row, run as a stage runs them and watched layer by layer: one graph over
// all of them, weights and gradients in flat buffers, memory from the calling thread's pool.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/measure/layer_marks.h"
#include "engine/device/device.h"
#include "engine/models/model.h"
#include "engine/optim/serial.h"
#include "engine/runtime/setup.h"
#include "engine/weights/double_buffer.h"
#include "engine/weights/layout.h"

namespace twobw::measure {

// Seconds, by layer of the bench.
struct LayerTimes {
  std::vector<double> forward, backward;
  std::vector<double> bare;  // forward without a graph, of a recomputed pass
};

// Bytes, as planner::LayerCost has them.
struct LayerBytes {
  double saved_bytes = 0, kept = 0, output = 0, working = 0;
};

class LayerBench {
 public:
  // The model with as few blocks as have every kind of layer, and together more weights than caches
  // hold, so that a layer finds them as cold as in a run.
  // On the calling thread's device: `clock` is its, and `compute` makes tensors there.
  LayerBench(const runtime::Setup& setup, device::Clock& clock, const at::TensorOptions& compute);

  int size() const { return model_.size(); }
  std::string kind(int layer) const { return model_.layers[layer].kind; }

  // From now on microbatches of so many sequences.
  void set_microbatch(int sequences);
  double token_bytes() const;

  // One microbatch, forward and backward. Recomputed: after a first forward without a graph.
  void run_pass(bool recompute = false);
  LayerTimes time_pass(bool recompute = false);
  // The same for memory.
  std::vector<LayerBytes> measure_pass(device::Meter& meter);
  // What an update adds to its microbatches: norm of the gradient and optimizer, in seconds a parameter.
  double time_step();
  // What a prediction of its own adds; 0 where the configuration has none.
  double time_predict();

  // So many layers at once are held back on a GPU to be timed (layer_marks.h); 0: none.
  int held_layers() const { return clock_.can_hold() ? kHeldLayers[gave_up_] : 0; }

 private:
  // Before the device gave up waiting for the first time, the second, ...: a layer may launch more than can
  // wait in its queue, or wait for it, though that may also have come from elsewhere.
  static constexpr std::array kHeldLayers = {8, 8, 1, 1, 0};

  using BeforeBackward = std::function<void(int layer)>;  // -1: all backwards are done
  void walk(const models::AfterLayer& after_forward, const BeforeBackward& before_backward);
  models::Tensors forward(const models::AfterLayer& after_layer) const;
  void mark_pass(bool recompute, LayerMarks& marks, LayerTimes& times);

  const runtime::Setup& setup_;
  device::Clock& clock_;
  at::TensorOptions compute_;
  models::Model model_;
  weights::Layout layout_;
  weights::Versions versions_;
  weights::Gradients gradients_;
  std::unique_ptr<optim::SerialOptimizer> optimizer_;
  models::MicrobatchContext pass_;
  int microbatch_ = 0;
  std::int64_t updates_ = 0;
  std::size_t gave_up_ = 0;  // times
  // Microbatches that were run, recomputed and not: what they need has been loaded and allocated.
  std::set<std::pair<int, bool>> known_;
};

// The state that the bench for this setup would allocate.
double layer_bench_bytes(const runtime::Setup& setup);

}  // namespace twobw::measure
