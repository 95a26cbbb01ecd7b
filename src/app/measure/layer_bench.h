// Times and bytes of layers, run as a stage runs them: a few layers of every kind in one graph, with flat
// weights and gradients, and memory from the calling thread's pool.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/device/clock.h"
#include "engine/device/device.h"
#include "engine/models/model.h"
#include "engine/optim/optimizer.h"
#include "engine/runtime/setup.h"
#include "engine/weights/double_buffer.h"
#include "engine/weights/layout.h"

namespace twobw::measure {

// Timestamps around consecutive layers. A GPU is held until several layers are queued: a run launches them as
// a graph, and small layers take longer to queue than to run.
class LayerMarks {
 public:
  // `held`: layers per hold; 0: none. Once the device gives up waiting, it is not held again.
  LayerMarks(device::Clock& clock, int held) : clock_(clock), held_(held) {}
  ~LayerMarks() {
    if (held_ > 0) clock_.release();
  }
  LayerMarks(const LayerMarks&) = delete;
  LayerMarks& operator=(const LayerMarks&) = delete;

  // Starts a sequence of layers.
  void begin();
  // A layer is queued; read() stores its time in `seconds`.
  void end(double& seconds);
  // Ends the sequence.
  void finish();

  // Waits for the device. False if it gave up waiting during a hold.
  bool read();

 private:
  struct Span {
    double* seconds;
    device::Timestamp from, to;
  };

  device::Clock& clock_;
  int held_;
  int queued_ = 0;  // layers in the current hold
  bool gave_up_ = false;
  device::Timestamp from_;
  std::vector<Span> spans_;
};

// Seconds by layer.
struct LayerTimes {
  std::vector<double> forward, backward;
  std::vector<double> bare;  // forward without autograd, if recomputed
};

// Bytes, as in planner::LayerCost.
struct LayerBytes {
  double saved_bytes = 0, kept = 0, output = 0, working = 0;
};

class LayerBench {
 public:
  // The model shortened to the fewest blocks that have every kind of layer and exceed the caches, so that
  // weights are cold as in a run. `clock` and `compute` belong to the calling thread's device.
  LayerBench(const runtime::Setup& setup, device::Clock& clock, const at::TensorOptions& compute);

  int size() const { return model_.size(); }
  std::string kind(int layer) const { return model_.layers[layer].kind; }

  // Sets the sequences per microbatch.
  void set_microbatch(int sequences);
  double token_bytes() const;

  // Forward and backward of a microbatch; `recompute` adds a first forward without autograd.
  void run_pass(bool recompute = false);
  LayerTimes time_pass(bool recompute = false);
  std::vector<LayerBytes> measure_pass(device::Meter& meter);
  // Seconds per parameter of gradient norm and optimizer step.
  double time_step();
  // Seconds per parameter of a prediction; 0 without pipeline.predict.
  double time_predict();

  // Layers per hold of a GPU (LayerMarks).
  int held_layers() const { return clock_.can_hold() ? kHeldLayers[gave_up_] : 0; }

 private:
  // By the number of times that the device gave up: a layer may overflow the queue or synchronize.
  static constexpr std::array kHeldLayers = {8, 8, 1, 1, 0};

  using BeforeBackward = std::function<void(int layer)>;  // -1: after the last backward
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
  std::unique_ptr<optim::StageOptimizer> optimizer_;
  models::MicrobatchContext pass_;
  int microbatch_ = 0;
  std::int64_t updates_ = 0;
  std::size_t gave_up_ = 0;  // times
  // Microbatch sizes that have run, with and without recomputation: their kernels and memory are ready.
  std::set<std::pair<int, bool>> known_;
};

// Bytes of state that the bench for this setup allocates.
double layer_bench_bytes(const runtime::Setup& setup);

// Contention as in a run: keeps other devices busy with the same work while one is measured. Alone, it would
// look faster, since devices share caches and memory.
class BackgroundLoad {
 public:
  // One idle worker per device.
  BackgroundLoad(const runtime::Setup& setup, const std::vector<device::Device>& devices);
  ~BackgroundLoad();  // joins them
  BackgroundLoad(const BackgroundLoad&) = delete;
  BackgroundLoad& operator=(const BackgroundLoad&) = delete;

  // Switches to microbatches of this size, each with an optimizer step. Returns once all have started.
  void compute(int sequences) { assign(sequences); }
  // Switches to steps only, which need more bandwidth than layers: synchronous schedules step everywhere
  // at once.
  void step() { assign(kStep); }

 private:
  static constexpr int kStep = 0, kLeave = -1;

  void assign(int task);
  void work(const runtime::Setup& setup, const device::Device& device);

  std::atomic<int> task_ = kStep, tasks_ = 0;  // the current one, and their number
  std::atomic<int> begun_ = 0;                 // workers that have started it or failed to
  std::vector<std::thread> workers_;
};

}  // namespace twobw::measure
