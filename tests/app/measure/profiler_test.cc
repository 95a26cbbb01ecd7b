#include "app/measure/profiler.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <map>
#include <set>

#include "app/measure/layer_bench.h"
#include "core/base/error.h"
#include "engine/device/device.h"
#include "engine/device/memory.h"
#include "engine/models/model.h"
#include "engine/runtime/stage.h"
#include "planning/planner/costs/layer_costs.h"

namespace twobw::measure {
namespace {

constexpr int kContext = 8, kWidth = 32;

ModelConfig small_model(int layers = 3, double dropout = 0.0) {
  return {
      .layers = layers, .width = kWidth, .heads = 2, .vocab = 48, .context = kContext, .dropout = dropout};
}

runtime::Setup setup_of(const ModelConfig& model) {
  device::initialize();
  Config config;
  config.model = model;
  config.pipeline.microbatches = 2;
  return runtime::prepare(config);
}

runtime::Setup small_setup() {
  return setup_of(small_model());
}

ProfileRequest quick(std::vector<int> sizes) {
  return {.sizes = std::move(sizes), .rounds = 2, .link = false};
}

planner::Profile measure(const runtime::Setup& setup, std::vector<int> sizes) {
  return profile(setup, profiled_devices(setup), quick(std::move(sizes)));
}

TEST(Profiler, SaysWhatItHasMeasured) {
  const auto setup = small_setup();
  const planner::Profile measured = measure(setup, {1});
  EXPECT_EQ(measured.model.family, "gpt");
  EXPECT_EQ(measured.model.width, kWidth);
  EXPECT_EQ(measured.precision, "fp32");
  EXPECT_EQ(measured.optimizer, "adamw");
  EXPECT_EQ(measured.device.find("cpu: 1 core"), 0u) << measured.device;
  EXPECT_EQ(measured.tokens_per_sequence_bytes, 8 * kContext);
  for (const planner::LayerShape& layer : planner::shapes_of(setup.model.layers)) {
    EXPECT_EQ(measured.kinds.at(layer.kind).parameters, layer.parameters) << layer.kind;
    EXPECT_EQ(measured.kinds.at(layer.kind).tied, layer.tied) << layer.kind;
  }
  EXPECT_EQ(measured.kinds.at("mlp_down").parameters, 4 * kWidth * kWidth + kWidth);
  EXPECT_EQ(measured.kinds.at("head").tied, 48 * kWidth);
}

TEST(Profiler, LeavesAtZeroWhatItIsNotAskedFor) {
  const auto setup = small_setup();
  const ProfileRequest request{.sizes = {1}, .rounds = 1, .recomputation = false, .link = false};
  const planner::Profile measured = profile(setup, profiled_devices(setup), request);
  for (const auto& [name, kind] : measured.kinds) {
    EXPECT_GT(kind.times.at(0).backward.median, 0) << name;
    EXPECT_EQ(kind.times.at(0).recomputed_backward.median, 0) << name;
  }
  EXPECT_TRUE(measured.links.empty());
}

// Stands still but for the seconds that the layers of the family `timed` say they take.
class FakeClock final : public device::Clock {
 public:
  device::Timestamp now() override {
    ++marks_;
    return {.seconds = seconds_};
  }
  double seconds(const device::Timestamp& mark) const override { return mark.seconds; }
  void advance(double seconds) { seconds_ += seconds; }

  // Makes this the clock of a device that can be held, but gives up the first `failures` times.
  void allow_holding(int failures) {
    can_hold_ = true;
    failures_ = failures;
    held_.clear();
  }
  void forbid_holding() { can_hold_ = false; }
  // Layers that were marked each time that the device was held back.
  const std::vector<int>& held() const { return held_; }

  bool can_hold() const override { return can_hold_; }
  void hold() override {
    is_held_ = true;
    marks_ = 0;
  }
  bool release() override {
    if (!is_held_) return true;
    is_held_ = false;
    held_.push_back(marks_ - 1);
    return failures_-- <= 0;
  }

 private:
  double seconds_ = 0;
  bool can_hold_ = false, is_held_ = false;
  int failures_ = 0, marks_ = 0;
  std::vector<int> held_;
};

FakeClock& fake_clock() {
  static FakeClock clock;
  return clock;
}

// Hands x on, and takes that long each way.
struct TakeTime : torch::autograd::Function<TakeTime> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, double forward,
                            double backward) {
    context->saved_data["backward"] = backward;
    fake_clock().advance(forward);
    return x.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list gradients) {
    fake_clock().advance(context->saved_data["backward"].toDouble());
    return {gradients[0], at::Tensor(), at::Tensor()};
  }
};

// Seconds forward and backward.
const std::map<std::string, std::pair<double, double>> kTimed = {
    {"first", {1, 5}}, {"light", {2, 6}}, {"heavy", {30, 70}}, {"last", {4, 8}}};

// A first layer, a light and a heavy one in every block, and a last: each a factor, and some time.
architecture::Model describe_timed(const ModelConfig& config) {
  std::vector<std::string> kinds = {"first"};
  for (int block = 0; block < config.layers; ++block) kinds.insert(kinds.end(), {"light", "heavy"});
  kinds.push_back("last");
  architecture::Model model;
  for (const std::string& kind : kinds) {
    const std::string name = kind + std::to_string(model.size());
    model.push_back({.kind = kind, .parameters = {{.name = name, .shape = {4}, .init_mean = 1}}});
  }
  return model;
}

models::Forward timed_forward(const ModelConfig&, const architecture::Layer& layer) {
  return [kind = layer.kind](std::span<const at::Tensor> parameters, const models::Tensors& inputs,
                             const models::MicrobatchContext&) -> models::Tensors {
    const at::Tensor x = inputs.empty() ? parameters[0] : inputs[0] * parameters[0];
    const auto [forward, backward] = kTimed.at(kind);
    const at::Tensor y = TakeTime::apply(x, forward, backward);
    return {kind == "last" ? y.sum() : y};
  };
}

const std::vector<double> kForward = {1, 2, 30, 2, 30, 4}, kBackward = {5, 6, 70, 6, 70, 8};

runtime::Setup timed_setup() {
  static const bool added = [] {
    models::add_family({.name = "timed", .describe = describe_timed}, timed_forward);
    return true;
  }();
  EXPECT_TRUE(added);
  Config config;
  config.model = {.family = "timed", .layers = 2, .vocab = 48, .context = kContext};
  return runtime::prepare(config);
}

TEST(LayerBench, CountsALayersTimeAsThatLayers) {
  const runtime::Setup setup = timed_setup();
  LayerBench bench(setup, fake_clock(), at::kFloat);
  bench.set_microbatch(1);
  for (const bool recompute : {false, true}) {
    const LayerTimes times = bench.time_pass(recompute);
    EXPECT_EQ(times.forward, kForward);
    EXPECT_EQ(times.backward, kBackward);
    EXPECT_EQ(times.bare, recompute ? kForward : std::vector<double>());
  }
  EXPECT_EQ(bench.time_step(), 0);  // which no layer has a part in
}

// A pass is timed again, with less that is held back, until the device has waited for it.
TEST(LayerBench, HoldsBackWhatTheDeviceWaitsFor) {
  struct Expected {
    int failures, held_layers;
    std::vector<int> held;
  };
  const std::vector<Expected> all = {{0, 8, {6, 6}},
                                     {1, 8, {6, 6, 6}},
                                     {2, 1, {6, 6, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0}},
                                     {3, 1, {6, 6, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 0}},
                                     {4, 0, {6, 6, 1, 1}}};
  const runtime::Setup setup = timed_setup();
  for (const auto& [failures, held_layers, held] : all) {
    fake_clock().allow_holding(failures);
    LayerBench bench(setup, fake_clock(), at::kFloat);
    bench.set_microbatch(1);
    const LayerTimes times = bench.time_pass();
    EXPECT_EQ(times.forward, kForward) << failures;
    EXPECT_EQ(times.backward, kBackward) << failures;
    EXPECT_EQ(fake_clock().held(), held) << failures;
    EXPECT_EQ(bench.held_layers(), held_layers) << failures;
    EXPECT_EQ(bench.time_pass(true).bare, kForward) << failures;
  }
  fake_clock().forbid_holding();
}

TEST(LayerMarks, ReleaseTheDeviceWhenASequenceBreaksOff) {
  FakeClock clock;
  clock.allow_holding(0);
  double seconds = 0;
  {
    LayerMarks marks(clock, 4);
    marks.begin();
    marks.end(seconds);
  }
  EXPECT_EQ(clock.held(), std::vector<int>{1});
}

// A device that is slow for a while must not be so for one size alone.
TEST(Profiler, SizesAreMeasuredInTurn) {
  std::vector<int> order, done;
  ProfileObserver observer;
  observer.on_round = [&](int round, int all, int size) {
    EXPECT_EQ(all, 12);
    done.push_back(round);
    order.push_back(size);
  };
  const auto setup = small_setup();
  profile(setup, profiled_devices(setup), {.sizes = {1, 2}, .rounds = 6, .link = false}, observer);
  EXPECT_EQ(order, (std::vector<int>{1, 2, 1, 1, 2, 2, 1, 2, 1, 1, 2, 2}));
  EXPECT_EQ(done, (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
}

// Bytes that a real stage holds for its backward after one forward.
double kept_by_a_stage(const runtime::Setup& setup, int first, int last, int size) {
  Config config = setup.config;
  config.pipeline.microbatch = size;
  device::MemoryPool pool;
  device::PoolScope scope(pool);
  runtime::Stage stage(config, setup.model, *setup.training, *setup.validation,
                       {.first_layer = first, .last_layer = last}, at::kFloat, pool);
  runtime::Tensors inputs;
  if (first > 0) inputs.push_back(at::ones({size, kContext, kWidth}));
  stage.forward(0, 0, 0, inputs);
  return static_cast<double>(pool.live_bytes(Term::Activations));
}

TEST(Profiler, TheLayersSavedBytesAddUpToTheStages) {
  ModelConfig llama = small_model(), bert = small_model(), dropping_bert = small_model(3, 0.1);
  llama.family = "llama";
  llama.kv_heads = 1;
  bert.family = dropping_bert.family = "bert";
  for (const ModelConfig& model : {small_model(), small_model(3, 0.1), llama, bert, dropping_bert}) {
    const auto setup = setup_of(model);
    const planner::Profile measured = measure(setup, {2});
    const int layers = setup.model.size();
    for (const auto& [first, last] :
         {std::pair{0, layers}, {0, 6}, {6, 11}, {6, layers}, {0, 2}, {0, 4}, {0, 5}}) {
      double sum = 0;
      for (int layer = first; layer < last; ++layer)
        sum += measured.kinds.at(measured.layers[layer]).times[0].saved_bytes;
      // The last layer's output goes to the next stage.
      sum -= measured.kinds.at(measured.layers[last - 1]).times[0].kept;
      EXPECT_EQ(kept_by_a_stage(setup, first, last, 2), sum) << first << " to " << last;
    }
  }
}

// Large enough that a handful of bytes here and there (a loss, a seed) does not count.
std::vector<ModelConfig> described_models() {
  const ModelConfig gpt{.layers = 2, .width = 192, .heads = 4, .vocab = 500, .context = 64};
  ModelConfig dropping = gpt, llama = gpt, qwen3;
  dropping.dropout = 0.1;
  llama.family = "llama";
  qwen3 = llama;
  qwen3.kv_heads = 2;
  qwen3.head_size = 64;
  qwen3.hidden = 320;
  qwen3.qkv_bias = qwen3.qk_norm = true;
  ModelConfig bert = gpt, dropping_bert = dropping, whole_bert, classifier, regression, judging_gpt = gpt,
              judging_llama = llama;
  bert.family = dropping_bert.family = "bert";
  whole_bert = bert;
  whole_bert.padding = false;
  whole_bert.hidden = 320;
  classifier = dropping_bert;
  judging_llama.head = judging_gpt.head = classifier.head = ModelHead::Classification;
  judging_llama.num_labels = judging_gpt.num_labels = classifier.num_labels = 30;
  regression = bert;
  regression.head = ModelHead::Regression;
  ModelConfig pairs = bert;
  pairs.next_sentence = true;
  return {gpt,        dropping,   llama,      qwen3,       bert,          dropping_bert,
          whole_bert, classifier, regression, judging_gpt, judging_llama, pairs};
}

// Kept, output and working bytes as in the description of the layers.
TEST(Profiler, MeasuresTheBytesThatAreDescribed) {
  device::initialize();
  constexpr int kSize = 3;
  for (const ModelConfig& model : described_models()) {
    Config config;
    config.model = model;
    const planner::Profile measured = measure(runtime::prepare(config), {kSize});
    for (const architecture::Layer& layer : architecture::model_of(model)) {
      SCOPED_TRACE(model.family + ", " + std::string(name(model.head)) + ": " + layer.kind);
      const planner::KindTimes& times = measured.kinds.at(layer.kind).times[0];
      const architecture::Work work = layer.work({.sequences = kSize, .context = 64, .element = 4});
      EXPECT_EQ(times.output, work.output);
      EXPECT_EQ(times.kept, work.kept);
      EXPECT_NEAR(times.saved_bytes, work.saved_bytes, 0.01 * work.saved_bytes);
      EXPECT_GT(times.working / work.working, 0.6);
      EXPECT_LT(times.working / work.working, 1.05);
    }
  }
}

TEST(Profiler, ADeepModelTakesNoMoreThanAShallowOne) {
  Config config;
  config.model = {.layers = 12, .width = 1024, .heads = 8};
  const double shallow = layer_bench_bytes(runtime::prepare(config));
  config.model.layers = 96;
  EXPECT_EQ(layer_bench_bytes(runtime::prepare(config)), shallow);
}

TEST(Profiler, LeavesOutWhatDoesNotFit) {
  const auto setup = small_setup();
  std::vector<std::string> notes;
  ProfileObserver observer;
  observer.on_note = [&](const std::string& line) { notes.push_back(line); };
  const planner::Profile measured =
      profile(setup, profiled_devices(setup), quick({1, 2'000'000'000}), observer);
  for (const auto& [name, kind] : measured.kinds) {
    ASSERT_EQ(kind.times.size(), 1u) << name;
    EXPECT_EQ(kind.times[0].microbatch, 1);
  }
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("microbatches of 2000000000 are left out"), std::string::npos) << notes[0];
  EXPECT_THROW(measure(setup, {2'000'000'000}), RunError);
}

TEST(Profiler, MeasuresOneCoreAndKeepsTheOthersBusy) {
  auto setup = small_setup();
  const std::vector<int> available = device::available_cores();
  const int first = available.front(), last = available.back(), of_another_host = available.back() + 1;
  const auto cores_of = [](std::vector<int> cores) { return device::Device{.cores = {std::move(cores)}}; };
  setup.devices = {cores_of({first}), cores_of({last}), cores_of({first, last}), cores_of({of_another_host})};
  EXPECT_EQ(profiled_devices(setup).measured.cores.cores, (std::vector<int>{first}));
  EXPECT_EQ(profiled_devices(setup).busy.size(), available.size() - 1);
  std::swap(setup.devices[0], setup.devices[1]);
  setup.config.devices = {"named", "named", "named", "named"};
  EXPECT_EQ(profiled_devices(setup).measured.cores.cores, (std::vector<int>{last}));
  if (available.size() == 1) return;
  ASSERT_EQ(profiled_devices(setup).busy.size(), 1u);
  EXPECT_EQ(profiled_devices(setup).busy[0].cores.cores, (std::vector<int>{first}));
}

}  // namespace
}  // namespace twobw::measure
