// A few layers of every kind in a row, run as a stage runs them and watched layer by layer: one graph over
// all of them, weights and gradients in flat buffers, memory from the calling thread's pool.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/meter.h"
#include "device/place.h"
#include "models/layer.h"
#include "optim/serial.h"
#include "train/setup.h"
#include "weights/gradients.h"
#include "weights/layout.h"
#include "weights/versions.h"

namespace twobw::train {

// Seconds, by layer of the chain.
struct LayerTimes {
  std::vector<double> forward, backward;
  std::vector<double> bare;  // forward without a graph, of a recomputed pass
};

// Bytes, as planner::LayerCost has them.
struct LayerBytes {
  double stash = 0, kept = 0, output = 0, working = 0;
};

class Chain {
 public:
  // The model with as few blocks as have every kind of layer, and together more weights than caches
  // hold, so that a layer finds them as cold as in a run.
  // On the calling thread's seat.
  Chain(const Setup& setup, const device::Seat& seat);

  int size() const { return static_cast<int>(layers_.size()); }
  std::string kind(int layer) const { return layers_[layer]->kind(); }

  // From now on microbatches of so many sequences.
  void set_microbatch(int sequences);
  double token_bytes() const;

  // One microbatch, forward and backward. Recomputed: after a first forward without a graph.
  LayerTimes time_pass(bool recompute = false);
  // The same for memory.
  std::vector<LayerBytes> measure_pass(device::Meter& meter);
  // What an update adds to its microbatches: norm of the gradient and optimizer, in seconds a parameter.
  double time_step();

 private:
  using AfterForward = std::function<void(int layer, const models::Tensors& outputs)>;
  using BeforeBackward = std::function<void(int layer)>;  // -1: all backwards are done
  void walk(const AfterForward& after_forward, const BeforeBackward& before_backward);
  models::Tensors forward(int layer, const models::Tensors& inputs);

  const Setup& setup_;
  device::Clock& clock_;
  at::TensorOptions compute_;
  models::LayerList layers_;
  weights::Layout layout_;
  weights::Versions versions_;
  weights::Gradients gradients_;
  std::unique_ptr<optim::SerialOptimizer> optimizer_;
  models::Pass pass_;
  std::int64_t updates_ = 0;
};

// The state that the chain for this setup would allocate.
double chain_state_bytes(const Setup& setup);

}  // namespace twobw::train
