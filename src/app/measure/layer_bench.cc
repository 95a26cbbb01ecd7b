#include "app/measure/layer_bench.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <new>
#include <system_error>

#include "engine/device/memory.h"
#include "engine/runtime/backward.h"
#include "engine/runtime/microbatches.h"
#include "planning/planner/costs/state_bytes.h"

namespace twobw::measure {

namespace {

using models::Tensors;

constexpr double kColdBytes = 64 << 20;  // weights and gradients: exceeds most caches

std::set<std::string> distinct_kinds(const models::Model& model) {
  const std::vector<std::string> kinds = architecture::kinds_of(model.layers);
  return {kinds.begin(), kinds.end()};
}

// At least two blocks if possible: the tensors that a layer saves depend on the next one.
models::Model shortened(const runtime::Setup& setup) {
  const std::set<std::string> kinds = distinct_kinds(setup.model);
  ModelConfig config = setup.config.model;
  for (config.layers = std::min(2, config.layers);; ++config.layers) {
    models::Model model = models::build(config);
    const bool cold = 8.0 * static_cast<double>(architecture::parameter_count(model.layers)) >= kColdBytes;
    if (config.layers == setup.config.model.layers || (cold && distinct_kinds(model) == kinds)) return model;
  }
}

// Whether this tensor is the only user of its memory: no graph has saved it.
bool is_loose(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1;
}

// Outputs used only by the next layer. If they outlive it, it has saved them.
class Loose {
 public:
  explicit Loose(const Tensors& outputs) {
    for (const at::Tensor& output : outputs) {
      if (is_loose(output)) storages_.push_back(output.storage().getWeakStorageImpl());
    }
  }
  double bytes() const {
    double sum = 0;
    for (const auto& storage : storages_) sum += size(storage);
    return sum;
  }
  // Bytes still in use, except as loose outputs of the next layer.
  double bytes_kept(const Loose& next) const {
    double sum = 0;
    for (const auto& storage : storages_) {
      if (std::find(next.storages_.begin(), next.storages_.end(), storage) == next.storages_.end())
        sum += size(storage);
    }
    return sum;
  }

 private:
  using Weak = c10::weak_intrusive_ptr<c10::StorageImpl>;
  static double size(const Weak& weak) {
    const auto storage = weak.lock();
    return storage ? static_cast<double>(storage->nbytes()) : 0;
  }
  std::vector<Weak> storages_;
};

}  // namespace

double layer_bench_bytes(const runtime::Setup& setup) {
  const models::Model model = shortened(setup);
  const weights::Layout layout(model.layers, 0, model.size());
  const planner::StateBytes bytes = planner::state_bytes(setup.config);
  const auto parameters = static_cast<double>(layout.size());
  return parameters *
             (schedule::versions_kept(setup.spec, 0) * bytes.weights + bytes.master + bytes.optimizer) +
         static_cast<double>(layout.gradient_size()) * bytes.gradients;
}

LayerBench::LayerBench(const runtime::Setup& setup, device::Clock& clock, const at::TensorOptions& compute)
    : setup_(setup),
      clock_(clock),
      compute_(compute),
      model_(shortened(setup)),
      layout_(model_.layers, 0, size()),
      versions_(layout_, schedule::versions_kept(setup.spec, 0), setup.config.train.seed, compute_),
      gradients_(layout_, 1, compute_) {
  const at::Tensor& weights = versions_.flat(0);
  at::Tensor initial = weights;
  if (!weights.is_cpu() || weights.scalar_type() != at::kFloat) {
    initial = at::zeros({layout_.size()}, at::kFloat);
    weights::initialize(layout_, initial, setup.config.train.seed);
    weights.copy_(initial);
  }
  optimizer_ = optim::make_optimizer(setup.config, layout_, initial, weights, setup.config.pipeline.predict);
}

void LayerBench::set_microbatch(int sequences) {
  microbatch_ = sequences;
  Config config = setup_.config;
  config.pipeline.microbatch = sequences;
  runtime::MicrobatchSource microbatches(config, *setup_.training, *setup_.training,
                                         architecture::taken_by(model_.layers, 0, size()));
  microbatches.keep_padding();  // memory must suffice for the longest
  pass_ = microbatches.training(0, 0).to(compute_.device());
}

double LayerBench::token_bytes() const {
  return static_cast<double>(pass_.batch[data::Field::Tokens].nbytes());
}

Tensors LayerBench::forward(const models::AfterLayer& after_layer) const {
  return models::run_layers(model_, 0, size(), versions_.parameters(versions_.newest()), {}, pass_,
                            after_layer);
}

// Autograd runs layers in reverse: a hook on a layer's output fires when its backward begins.
void LayerBench::walk(const models::AfterLayer& after_forward, const BeforeBackward& before_backward) {
  gradients_.attach(updates_, versions_.parameters(versions_.newest()));
  int turn = size() - 1;
  const auto begin_turn = [&](int layer) {
    if (layer >= turn) return;
    turn = layer;
    before_backward(layer);
  };
  torch::autograd::edge_list roots;
  at::Tensor one;
  {
    const Tensors x = forward([&](int layer, const Tensors& outputs) {
      // The first output is the layer's own; others pass through it.
      if (outputs.front().requires_grad())
        outputs.front().register_hook([&begin_turn, layer](const at::Tensor&) { begin_turn(layer); });
      after_forward(layer, outputs);
    });
    roots = runtime::roots_of(x);
    one = at::ones_like(x.front());
  }
  before_backward(size() - 1);
  const runtime::BackwardHere here;
  runtime::run_backward(roots, {one});
  before_backward(-1);
}

void LayerBench::run_pass(bool recompute) {
  if (recompute) {
    at::NoGradGuard no_graph;
    forward({});
  }
  walk([](int, const Tensors&) {}, [](int) {});
  known_.emplace(microbatch_, recompute);
}

// While the GPU is held nothing may wait for it, so a first pass allocates memory and loads kernels.
LayerTimes LayerBench::time_pass(bool recompute) {
  while (true) {
    if (held_layers() > 0 && !known_.contains({microbatch_, recompute})) run_pass(recompute);
    LayerTimes times{.forward = std::vector<double>(size()),
                     .backward = std::vector<double>(size()),
                     .bare = std::vector<double>(recompute ? size() : 0)};
    LayerMarks marks(clock_, held_layers());
    mark_pass(recompute, marks, times);
    if (marks.read()) return times;
    ++gave_up_;
  }
}

void LayerBench::mark_pass(bool recompute, LayerMarks& marks, LayerTimes& times) {
  if (recompute) {
    at::NoGradGuard no_graph;
    marks.begin();
    forward([&](int layer, const Tensors&) { marks.end(times.bare[layer]); });
    marks.finish();
  }
  int running = -1;  // the layer whose backward has begun
  marks.begin();
  walk(
      [&](int layer, const Tensors&) {
        marks.end(times.forward[layer]);
        if (layer + 1 == size()) marks.finish();
      },
      [&](int layer) {
        if (running >= 0) marks.end(times.backward[running]);
        if (running < 0) marks.begin();
        running = layer;
      });
  marks.finish();
}

std::vector<LayerBytes> LayerBench::measure_pass(device::Meter& meter) {
  // A layer saves `inside` in any case, and the part of its output that the next layer saves.
  std::vector<double> inside(size());
  std::vector<LayerBytes> bytes(size());
  double settled = meter.live();
  Loose waiting{Tensors{}};
  meter.reset_peak();
  const auto after_forward = [&](int layer, const Tensors& outputs) {
    Loose loose(outputs);
    double kept = 0;
    if (layer > 0) kept = bytes[layer - 1].kept = waiting.bytes_kept(loose);
    inside[layer] = meter.live() - loose.bytes() - settled - kept;
    settled += inside[layer] + kept;
    bytes[layer].working = meter.peak() - settled;
    if (layer + 1 < size()) {
      for (const at::Tensor& tensor : outputs) bytes[layer].output += static_cast<double>(tensor.nbytes());
    }
    waiting = std::move(loose);
    meter.reset_peak();
  };
  // A backward begins once the next layer has freed its output; memory beyond what this layer and those
  // before it have saved is working memory.
  int running = -1;
  walk(after_forward, [&](int layer) {
    if (running >= 0) {
      bytes[running].working = std::max(bytes[running].working, meter.peak() - settled);
      settled -= inside[running] + (running > 0 ? bytes[running - 1].kept : 0);
    }
    running = layer;
    meter.reset_peak();
  });
  for (int layer = 0; layer < size(); ++layer) bytes[layer].saved_bytes = inside[layer] + bytes[layer].kept;
  known_.emplace(microbatch_, false);
  return bytes;
}

double LayerBench::time_step() {
  const at::Tensor source = versions_.flat(versions_.newest());
  const at::Tensor target = versions_.begin_write();
  const device::Timestamp begin = clock_.now();
  // A learning rate of 0 keeps the weights, at the same cost.
  const at::Tensor norms = optimizer_->squared_norms(updates_, gradients_.flat(updates_));
  optimizer_->apply(0, {&norms, 1}, gradients_.flat(updates_), source, target);
  const device::Timestamp end = clock_.now();
  versions_.publish();
  ++updates_;
  clock_.await(end);
  return clock_.between(begin, end) / static_cast<double>(layout_.size());
}

double LayerBench::time_predict() {
  if (!setup_.config.pipeline.predict) return 0;
  const device::Timestamp begin = clock_.now();
  optimizer_->predict({.gradient = gradients_.flat(updates_), .target = versions_.flat(versions_.newest())});
  const device::Timestamp end = clock_.now();
  clock_.await(end);
  return clock_.between(begin, end) / static_cast<double>(layout_.size());
}

void LayerMarks::begin() {
  if (held_ > 0) clock_.hold();
  queued_ = 0;
  from_ = clock_.now();
}

void LayerMarks::end(double& seconds) {
  const device::Timestamp now = clock_.now();
  spans_.push_back({.seconds = &seconds, .from = from_, .to = now});
  from_ = now;
  if (held_ == 0 || ++queued_ < held_) return;
  finish();
  begin();
}

void LayerMarks::finish() {
  if (held_ == 0 || clock_.release()) return;
  held_ = 0;
  gave_up_ = true;
}

bool LayerMarks::read() {
  if (!spans_.empty()) clock_.await(spans_.back().to);
  for (const Span& span : spans_) *span.seconds = clock_.between(span.from, span.to);
  return !gave_up_;
}

BackgroundLoad::BackgroundLoad(const runtime::Setup& setup, const std::vector<device::Device>& devices) {
  try {
    for (const device::Device& device : devices) workers_.emplace_back([&, device] { work(setup, device); });
  } catch (const std::system_error&) {  // fewer workers
  }
}

BackgroundLoad::~BackgroundLoad() {
  assign(kLeave);
  for (std::thread& worker : workers_) worker.join();
}

void BackgroundLoad::assign(int task) {
  begun_ = 0;
  task_ = task;
  ++tasks_;
  tasks_.notify_all();
  const int all = static_cast<int>(workers_.size());
  for (int now = begun_; now < all; now = begun_) begun_.wait(now);
}

void BackgroundLoad::work(const runtime::Setup& setup, const device::Device& device) {
  device::MemoryPool of_state;
  device::PoolScope scope(of_state);
  const device::DeviceBinding binding("background", device);
  std::unique_ptr<LayerBench> bench;
  for (int done = 0, task = kStep; task != kLeave;) {
    tasks_.wait(done);
    done = tasks_;  // every worker starts a task before the next one
    task = task_;
    bool counted = false;
    const auto count = [&] {
      if (std::exchange(counted, true)) return;
      ++begun_;
      begun_.notify_all();
    };
    try {
      if (!bench && task != kLeave)
        bench = std::make_unique<LayerBench>(setup, binding.clock(),
                                             binding.compute(setup.config.train.precision));
      device::MemoryPool pool;
      device::PoolScope inner(pool);
      if (task > kStep) bench->set_microbatch(task);
      while (task != kLeave && tasks_ == done) {
        if (task > kStep) bench->run_pass();
        bench->time_step();
        count();
      }
    } catch (const std::bad_alloc&) {  // fewer workers
    }
    count();
  }
}

}  // namespace twobw::measure
