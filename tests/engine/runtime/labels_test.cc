// Microbatches with different numbers of labels weigh by them, whatever the schedule and the replicas.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <thread>

#include "core/base/random.h"
#include "engine/data/sources.h"
#include "engine/device/cpu.h"
#include "engine/device/device.h"
#include "engine/models/model.h"
#include "engine/runtime/oracle.h"
#include "engine/runtime/pipeline.h"

namespace twobw::runtime {
namespace {
namespace sparse {

using data::Batch;
using data::BatchFields;
using data::Field;

constexpr int kVocab = 48, kContext = 8, kUpdates = 4;

// Of every sequence some targets count, of some microbatches very few, of one in five none.
class Sparse final : public data::Source {
 public:
  Batch random(const data::Draw& draw, int b, int length, BatchFields fields) const override {
    return thinned(text_->random(draw, b, length, fields), draw.key);
  }
  Batch sequential(std::int64_t index, int b, int length, BatchFields fields) const override {
    return thinned(text_->sequential(index, b, length, fields), static_cast<std::uint64_t>(index));
  }
  bool is_dense() const override { return false; }
  std::string describe() const override { return "sparse"; }

 private:
  static Batch thinned(Batch batch, std::uint64_t key) {
    if (!batch[Field::Targets].defined()) return batch;
    const std::uint64_t keep = random_key(key, 1) % 5;  // of five
    auto* targets = batch[Field::Targets].mutable_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < batch[Field::Targets].numel(); ++i) {
      if (random_key(key, 2, i) % 5 >= keep) targets[i] = -100;
    }
    return batch;
  }
  std::unique_ptr<data::Source> text_ = data::make_synthetic(kVocab);
};

struct Case {
  ScheduleKind schedule;
  int stages;
  int replicas;
  bool predict;
};

Config config_of(const Case& c) {
  Config config;
  config.model = {.layers = 2, .width = 16, .heads = 2, .vocab = kVocab, .context = kContext, .tied = true};
  config.pipeline.schedule = c.schedule;
  config.pipeline.stages = c.stages;
  config.pipeline.replicas = c.replicas;
  config.pipeline.microbatch = 2;
  config.pipeline.microbatches = 4;
  config.pipeline.predict = c.predict;
  config.pipeline.sync_updates = 0;
  config.optimizer.lr = 1e-2;
  config.train.updates = kUpdates;
  config.train.eval_every = 2;
  config.train.eval_microbatches = 3;
  return config;
}

schedule::Spec spec_of(const Config& config) {
  schedule::Spec spec{.shape = config.pipeline, .updates = config.train.updates};
  spec.shape.split = config.pipeline.stages == 2 ? std::vector{5, 7} : std::vector{1, 6, 5};
  spec.evaluate_every = config.train.eval_every;
  return spec;
}

class Labels : public testing::TestWithParam<Case> {};

TEST_P(Labels, WeighAlikeInEveryMicrobatch) {
  device::initialize();
  const Config config = config_of(GetParam());
  const models::Model model = models::build(config.model);
  const Sparse source;
  const schedule::Spec spec = spec_of(config);
  std::mutex mutex;
  std::map<std::int64_t, double> losses, evaluations;
  std::map<std::int64_t, std::vector<std::uint64_t>> checksums;  // of replica 0
  const Observer observer{.on_update =
                              [&](const telemetry::StageUpdate& update) {
                                const std::lock_guard lock(mutex);
                                losses[update.update] += update.loss.value_or(0);
                                if (update.replica == 0 && update.stage + 1 == spec.shape.stages)
                                  checksums[update.update] = update.checksums;
                              },
                          .on_evaluation =
                              [&](const telemetry::Evaluation& evaluation) {
                                const std::lock_guard lock(mutex);
                                evaluations[evaluation.update] = evaluation.loss;
                              }};
  const auto devices = device::deal_devices(spec.shape.workers());
  const std::shared_ptr<const data::Source> shared(std::shared_ptr<void>(), &source);
  const runtime::Setup setup{.config = config,
                             .spec = spec,
                             .model = model,
                             .training = shared,
                             .validation = shared,
                             .devices = devices};
  Pipeline pipeline(setup, {.checksums = true}, observer);
  pipeline.run();

  // With as many threads as a stage has.
  std::thread([&] {
    const device::DeviceBinding binding("oracle", devices.front());
    Oracle oracle(config, model, source, spec);
    for (int update = 0; update < kUpdates; ++update) {
      SCOPED_TRACE(update);
      const OracleUpdate expected = oracle.next_update();
      EXPECT_EQ(losses.at(update), expected.loss);
      const auto count = static_cast<std::ptrdiff_t>(checksums.at(update).size());
      EXPECT_EQ(checksums.at(update),
                std::vector(expected.checksums.end() - count, expected.checksums.end()));
      if (!evaluations.contains(update)) continue;
      EXPECT_EQ(evaluations.at(update), oracle.evaluate(source));
    }
  }).join();
  EXPECT_FALSE(evaluations.empty());
}

INSTANTIATE_TEST_SUITE_P(All, Labels,
                         testing::Values(Case{ScheduleKind::GPipe, 2, 1, false},
                                         Case{ScheduleKind::Flush, 3, 2, false},
                                         Case{ScheduleKind::TwoBW, 3, 2, true}),
                         [](const auto& info) {
                           return fmt::format("{}_d{}_w{}", info.index, info.param.stages,
                                              info.param.replicas);
                         });

TEST(LabelsOfAnUpdate, AreCountedOverAllItsMicrobatches) {
  const Config config = config_of({ScheduleKind::Flush, 2, 2, false});
  const models::Model model = models::build(config.model);
  const Sparse source;
  const auto fields = architecture::taken_by(model.layers, 0, model.size());
  MicrobatchSource microbatches(config, source, source, fields);
  std::int64_t labels = 0;
  double scale = 0;
  for (int replica = 0; replica < 2; ++replica) {
    for (int k = 0; k < 4; ++k) {
      const models::MicrobatchContext pass = microbatches.training(replica, k);
      labels += data::count_labels(pass.batch);
      scale = pass.batch[Field::LossScale].item<double>();
    }
  }
  EXPECT_GT(labels, 0);
  EXPECT_LT(labels, 8 * 2 * kContext);
  EXPECT_EQ(scale, 1.0 / static_cast<double>(labels));
  // A stage that takes nothing is given nothing.
  MicrobatchSource nothing(config, source, source, {});
  for (const Field field : architecture::kFields) EXPECT_FALSE(nothing.training(0, 0).batch[field].defined());
}

}  // namespace sparse
}  // namespace
}  // namespace twobw::runtime
