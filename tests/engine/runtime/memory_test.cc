// A stage's memory, counted by purpose, equals the planner's formulas.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <numeric>

#include "core/schedule/schedule_rule.h"
#include "engine/data/sources.h"
#include "engine/device/device.h"
#include "engine/device/memory.h"
#include "engine/models/model.h"
#include "engine/runtime/pipeline.h"
#include "engine/runtime/stage.h"
#include "engine/transport/link.h"
#include "tests/support/covering.h"

namespace twobw::runtime {
namespace {

using schedule::Kind;
using schedule::Op;

constexpr int kBatch = 2, kContext = 8, kWidth = 32, kHeads = 2, kVocab = 48, kMicrobatches = 4;
constexpr double kStream = 4.0 * kBatch * kContext * kWidth;  // bytes of the hidden states
constexpr double kStatistics = 2 * 4.0 * kBatch * kContext;   // of a layer norm

// Bytes of the microbatch's tensors that layers [first, last) read.
double taken_bytes(const models::Model& model, int first, int last) {
  return 8.0 * static_cast<double>(architecture::taken_by(model.layers, first, last).count(kBatch, kContext));
}

// embedding, 3 x (attention_in, attention_out, mlp_up, mlp_activation, mlp_down), head.
Config small_config() {
  Config config;
  config.model = {
      .layers = 3, .width = kWidth, .heads = kHeads, .vocab = kVocab, .context = kContext, .tied = false};
  config.pipeline.microbatch = kBatch;
  config.pipeline.microbatches = kMicrobatches;
  config.train.updates = 4;
  config.train.eval_every = 0;
  return config;
}

// Bytes that each layer saves for its backward: inside the layer, and the part of its output that the next
// layer keeps as its input.
struct Kept {
  double inside, output;
};
Kept kept_by(const std::string& kind) {
  const std::map<std::string, Kept> all = {
      {"embedding", {8.0 * kContext, kStream}},                                  // positions
      {"attention_in", {kStatistics + kStream, 3 * kStream}},                    // normed; q, k, v
      {"attention_out", {kStream + 4.0 * kBatch * kHeads * kContext, kStream}},  // mixed, log of sums
      {"mlp_up", {kStatistics + kStream, 4 * kStream}},                          // normed; GELU's input
      {"mlp_activation", {0, 4 * kStream}},
      {"mlp_down", {0, kStream}},
      {"head", {kStatistics + kStream + 4.0 * kBatch * kContext * kVocab, 0}}};  // normed, logits
  return all.at(kind);
}

// The last layer's output belongs to the next stage.
double saved_bytes_of(const models::Model& model, int first, int last) {
  double bytes = 0;
  for (int layer = first; layer < last; ++layer) {
    const Kept kept = kept_by(model.layers[layer].kind);
    bytes += kept.inside + (layer + 1 < last ? kept.output : 0);
  }
  return bytes;
}

// The tensors between layer - 1 and layer.
Tensors between(const models::Model& model, int layer) {
  if (layer == 0 || layer == static_cast<int>(model.size())) return {};
  const std::string before = model.layers[layer - 1].kind;
  Tensors tensors;
  if (before == "attention_in") tensors.push_back(at::ones({kBatch, kContext, 3 * kWidth}));
  if (before == "mlp_up" || before == "mlp_activation")
    tensors.push_back(at::ones({kBatch, kContext, 4 * kWidth}));
  tensors.push_back(at::ones({kBatch, kContext, kWidth}));
  return tensors;
}

double bytes_of(const Tensors& tensors) {
  double bytes = 0;
  for (const at::Tensor& tensor : tensors) bytes += static_cast<double>(tensor.nbytes());
  return bytes;
}

struct Case {
  Kind kind;
  std::vector<int> split;
  bool recompute;
  bool double_buffer_gradients = true;
  bool predict = false;
};

class StageMemory : public testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() { device::initialize(); }

  // Executes a stage's list with constant inputs and gradients; returns the peak between instructions, by
  // purpose.
  Footprint drive(int r, int first, int last) const {
    const schedule::Spec spec = this->spec();
    device::PoolScope scope(pool_);
    Stage stage(config_, model_, *source_, *source_,
                {.first_layer = first,
                 .last_layer = last,
                 .recompute = GetParam().recompute,
                 .slots = schedule::in_flight_bound(spec, r),
                 .versions = schedule::versions_kept(spec, r),
                 .gradient_buffers = schedule::gradient_buffers(spec, r),
                 .predicts = spec.shape.predict},
                at::kFloat, pool_);
    Footprint most;
    for (const auto& i : schedule::instructions(spec, r)) {
      if (i.op == Op::Forward) {
        device::PurposeScope purpose(Term::Inputs);
        stage.forward(i.microbatch, i.slot, i.version, between(model_, first));
      } else if (i.op == Op::Backward) {
        stage.backward(i.microbatch, i.slot, i.version, between(model_, last));
      } else if (i.op == Op::Step) {
        stage.step(i.batch, 1e-3, {}, i.generation >= 0);
      } else if (i.op == Op::Predict) {
        stage.predict({.batch = i.batch, .learning_rate = 1e-3});
      }
      for (int term = 0; term < kTerms; ++term) {
        const auto live = static_cast<double>(pool_.live_bytes(static_cast<Term>(term)));
        most.bytes[term] = std::max(most.bytes[term], live);
      }
    }
    return most;
  }

  schedule::Spec spec() const {
    return {.shape = {.schedule = GetParam().kind,
                      .stages = static_cast<int>(GetParam().split.size()),
                      .microbatches = kMicrobatches,
                      .double_buffer_gradients = GetParam().double_buffer_gradients,
                      .predict = GetParam().predict},
            .updates = config_.train.updates};
  }

  Config config_ = small_config();
  models::Model model_ = models::build(config_.model);
  std::unique_ptr<data::Source> source_ = data::make_synthetic(kVocab);
  mutable device::MemoryPool pool_;
};

TEST_P(StageMemory, IsWhatTheFormulasSay) {
  const Case& c = GetParam();
  int first = 0;
  for (int r = 0; r < static_cast<int>(c.split.size()); ++r) {
    SCOPED_TRACE(fmt::format("stage {}", r));
    const int last = first + c.split[r];
    const auto parameters = static_cast<double>(weights::Layout(model_.layers, first, last).size());
    const double in_flight = schedule::in_flight_bound(spec(), r);
    const Footprint counted = drive(r, first, last);
    EXPECT_EQ(counted[Term::Weights], schedule::versions_kept(spec(), r) * 4 * parameters);
    EXPECT_EQ(counted[Term::Master], c.predict ? 4 * parameters : 0);
    EXPECT_EQ(counted[Term::Gradients], schedule::gradient_buffers(spec(), r) * 4 * parameters);
    EXPECT_EQ(counted[Term::Optimizer], 8 * parameters);
    EXPECT_EQ(counted[Term::Inputs],
              in_flight * (bytes_of(between(model_, first)) + taken_bytes(model_, first, last)));
    EXPECT_EQ(counted[Term::Activations], c.recompute ? 0 : in_flight * saved_bytes_of(model_, first, last));
    EXPECT_EQ(counted[Term::Working], 0);  // no scratch memory outlives an instruction
    EXPECT_EQ(counted[Term::Transfer], 0);
    first = last;
  }
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  bool recompute = false;
  for (const Kind kind : {Kind::TwoBW, Kind::Flush, Kind::GPipe}) {
    for (const auto& split :
         std::vector<std::vector<int>>{{6, 11}, {6, 5, 6}, {2, 7, 8}, {4, 3, 10}, {5, 6, 6}}) {
      cases.push_back({kind, split, recompute = !recompute});
      if (full_sweeps()) cases.push_back({kind, split, !recompute});
    }
  }
  for (const bool predict : {false, true})
    cases.push_back({Kind::TwoBW, {6, 5, 6}, false, /*double_buffer_gradients=*/false, predict});
  cases.push_back({Kind::TwoBW, {6, 5, 6}, false, /*double_buffer_gradients=*/true, /*predict=*/true});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Schedules, StageMemory, testing::ValuesIn(all_cases()), [](const auto& info) {
  const Case& c = info.param;
  return fmt::format("{}_d{}_{}{}{}", c.kind == Kind::TwoBW ? "twobw" : std::string(name(c.kind)),
                     c.split.size(), info.index, c.predict ? "_predicted" : "",
                     c.recompute                 ? "_recomputed"
                     : c.double_buffer_gradients ? ""
                                                 : "_one_gradient");
});

// The peaks that a run reports.
std::vector<int> all_stages(int stages) {
  std::vector<int> all(static_cast<std::size_t>(stages));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class PipelineMemory : public testing::Test {
 protected:
  static std::vector<Footprint> peaks(const Config& config, std::vector<int> split, bool recompute) {
    device::initialize();
    const int stages = static_cast<int>(split.size());
    const std::shared_ptr<const data::Source> source = data::make_synthetic(kVocab);
    std::mutex mutex;
    std::vector<Footprint> peaks(stages);
    Observer observer{.on_update =
                          [&](const telemetry::StageUpdate& update) {
                            const std::lock_guard lock(mutex);
                            peaks[update.stage] = update.peak;
                          },
                      .on_evaluation = [](telemetry::Evaluation) {}};
    const runtime::Setup setup{
        .config = config,
        .spec = {.shape = {.schedule = config.pipeline.schedule,
                           .stages = stages,
                           .microbatches = kMicrobatches,
                           .split = split,
                           .recompute = recompute ? all_stages(stages) : std::vector<int>(),
                           .double_buffer_gradients = config.pipeline.double_buffer_gradients,
                           .predict = config.pipeline.predict},
                 .updates = config.train.updates,
                 .evaluate_every = config.train.eval_every},
        .model = models::build(config.model),
        .training = source,
        .validation = source,
        .devices = device::deal_devices(stages)};
    Pipeline pipeline(setup, {}, observer);
    pipeline.run();
    return peaks;
  }
};

// 20 bytes per parameter with prediction, for two versions and one gradient: 2 + 2 + 4 + 4 + 8.
TEST_F(PipelineMemory, OfTheStateIn16BitsIsExact) {
  Config config = small_config();
  config.pipeline.stages = 2;
  config.train.precision = "bf16";
  const std::vector<int> split = {6, 11};
  const models::Model model = models::build(config.model);
  for (const bool predict : {true, false}) {
    for (const ScheduleKind schedule : {ScheduleKind::TwoBW, ScheduleKind::Flush}) {
      config.pipeline.predict = predict;
      config.pipeline.schedule = schedule;
      const Footprint first = peaks(config, split, false)[0];
      const auto p = static_cast<double>(weights::Layout(model.layers, 0, split[0]).size());
      EXPECT_EQ(first[Term::Weights], (schedule == ScheduleKind::TwoBW ? 2 : 1) * 2 * p);
      EXPECT_EQ(first[Term::Gradients], 4 * p);
      EXPECT_EQ(first[Term::Master], 4 * p);
      EXPECT_EQ(first[Term::Optimizer], 8 * p);
    }
  }
}

// Received tensors count where they arrived, though they were allocated elsewhere; and once, except for
// the residual stream of a cut behind attention_in, which both sides need.
TEST_F(PipelineMemory, OfReceivedInputsBelongsToTheReceiver) {
  Config config = small_config();
  config.pipeline.stages = 2;
  config.pipeline.schedule = ScheduleKind::GPipe;  // all microbatches are in flight at the peak
  const models::Model model = models::build(config.model);
  for (const std::vector<int>& split : {std::vector<int>{6, 11}, std::vector<int>{7, 10}}) {
    for (const bool recompute : {false, true}) {
      const auto counted = peaks(config, split, recompute);
      EXPECT_EQ(counted[0][Term::Inputs], kMicrobatches * taken_bytes(model, 0, split[0]));
      EXPECT_EQ(counted[1][Term::Inputs], kMicrobatches * (bytes_of(between(model, split[0])) +
                                                           taken_bytes(model, split[0], model.size())));
    }
  }
}

// The first stage is at most kEvaluatedAhead microbatches ahead, however many an evaluation has.
TEST_F(PipelineMemory, OfAnEvaluationDoesNotGrowWithItsMicrobatches) {
  Config config = small_config();
  config.pipeline.stages = 2;
  config.pipeline.schedule = ScheduleKind::Flush;
  config.train.updates = 2;  // peaks are reported with the updates
  config.train.eval_every = 1;
  const std::vector<int> split = {1, 16};  // so that it could be far ahead
  const auto of = [&](int microbatches) {
    config.train.eval_microbatches = microbatches;
    return peaks(config, split, false)[0].total();
  };
  EXPECT_LE(of(100), of(1) + transport::kEvaluatedAhead * kStream);
}

}  // namespace
}  // namespace twobw::runtime
