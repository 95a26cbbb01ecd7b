// Runs with recorded reports and snapshots, for comparisons.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/config.h"
#include "engine/device/device.h"
#include "engine/runtime/pipeline.h"
#include "engine/runtime/setup.h"

namespace twobw::runtime {

// All that a run reports.
class Recorder {
 public:
  Observer observer() {
    return {.on_update =
                [this](telemetry::StageUpdate update) {
                  std::lock_guard lock(mutex_);
                  updates[{update.update, update.replica, update.stage}] = std::move(update);
                },
            .on_evaluation =
                [this](telemetry::Evaluation evaluation) {
                  std::lock_guard lock(mutex_);
                  evaluations[evaluation.update] = evaluation.loss;
                },
            .on_snapshot =
                [this](Snapshot snapshot) {
                  std::lock_guard lock(mutex_);
                  parts_[snapshot.update].push_back(std::move(snapshot));
                }};
  }

  void finish() {
    for (auto& [update, parts] : parts_) {
      for (Snapshot& part : parts) {
        if (part.await) part.await(part);
      }
      for (Snapshot& snapshot : of_whole_stages(std::move(parts))) {
        const std::pair key(update, snapshot.stage);
        snapshots.emplace(key, std::move(snapshot));
      }
    }
  }

  std::map<std::tuple<std::int64_t, int, int>, telemetry::StageUpdate> updates;
  std::map<std::int64_t, double> evaluations;
  std::map<std::pair<std::int64_t, int>, Snapshot> snapshots;

 private:
  std::mutex mutex_;
  std::map<std::int64_t, std::vector<Snapshot>> parts_;  // by update
};

inline std::shared_ptr<Restored> restored_at(const Recorder& recorder, std::int64_t cut) {
  auto restored = std::make_shared<Restored>();
  restored->update = cut;
  for (const auto& [key, snapshot] : recorder.snapshots) {
    if (key.first != cut) continue;
    restored->counters = snapshot.counters;
    for (const auto& [buffer, flat] : snapshot.buffers) {
      for (const weights::Parameter& parameter : snapshot.layout.parameters()) {
        if (!parameter.alias)
          restored->buffers[buffer][parameter.spec.name] = flat.narrow(0, parameter.offset, parameter.count);
      }
    }
  }
  return restored;
}

inline void run_recorded(const Config& config, std::shared_ptr<const Restored> restored, Recorder& recorder) {
  device::initialize();
  Setup setup = prepare(config);
  setup.spec.save_every = 1;
  if (restored) setup.spec.first_batch = restored->update;
  Pipeline pipeline(setup, {.checksums = true, .restored = std::move(restored)}, recorder.observer());
  pipeline.run();
  recorder.finish();
}

inline std::uint64_t bits(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

inline void expect_same_tail(const Recorder& whole, const Recorder& tail, std::int64_t cut) {
  std::size_t updates = 0;
  for (const auto& [key, expected] : whole.updates) {
    if (expected.update < cut) continue;
    ++updates;
    ASSERT_TRUE(tail.updates.contains(key)) << "update " << expected.update;
    const telemetry::StageUpdate& seen = tail.updates.at(key);
    EXPECT_EQ(bits(seen.loss.value_or(0)), bits(expected.loss.value_or(0))) << "update " << expected.update;
    EXPECT_EQ(bits(seen.gradient_norm), bits(expected.gradient_norm)) << "update " << expected.update;
    EXPECT_EQ(seen.checksums, expected.checksums) << "update " << expected.update;
    EXPECT_EQ(seen.loss_scale, expected.loss_scale) << "update " << expected.update;
    EXPECT_EQ(seen.skipped, expected.skipped) << "update " << expected.update;
  }
  EXPECT_EQ(tail.updates.size(), updates);
  for (const auto& [update, loss] : whole.evaluations) {
    if (update + 1 < cut) continue;
    ASSERT_TRUE(tail.evaluations.contains(update)) << "evaluation after update " << update;
    EXPECT_EQ(bits(tail.evaluations.at(update)), bits(loss)) << "evaluation after update " << update;
  }
}

// Compares the snapshots that the resumed run saves.
inline void expect_same_snapshots(const Recorder& whole, const Recorder& tail, std::int64_t cut) {
  for (const auto& [key, expected] : whole.snapshots) {
    if (key.first <= cut) continue;
    ASSERT_TRUE(tail.snapshots.contains(key));
    const Snapshot& seen = tail.snapshots.at(key);
    EXPECT_EQ(seen.counters.applied, expected.counters.applied);
    EXPECT_EQ(seen.counters.last_scale, expected.counters.last_scale);
    EXPECT_EQ(seen.counters.scaling, expected.counters.scaling);
    ASSERT_EQ(seen.buffers.size(), expected.buffers.size());
    for (std::size_t i = 0; i < seen.buffers.size(); ++i) {
      EXPECT_EQ(seen.buffers[i].first, expected.buffers[i].first);
      EXPECT_TRUE(seen.buffers[i].second.equal(expected.buffers[i].second))
          << seen.buffers[i].first << " after " << key.first << " updates on stage " << key.second;
    }
  }
}

// Expects that the configuration, resumed from the cut of `saved`, continues like the uninterrupted run
// `whole`.
inline void expect_continues(const Config& config, const Recorder& saved, std::int64_t cut,
                             const Recorder& whole) {
  SCOPED_TRACE(fmt::format("from the cut after {} updates", cut));
  Recorder tail;
  run_recorded(config, restored_at(saved, cut), tail);
  expect_same_tail(whole, tail, cut);
  expect_same_snapshots(whole, tail, cut);
}

// Expects that runs with and without pipeline.shard_state save the same, and that each resumes from the
// other's checkpoints.
inline void expect_kinds_continue_each_other(const Config& config, const std::vector<std::int64_t>& cuts) {
  Config sharded = config;
  sharded.pipeline.shard_state = true;
  Recorder whole, shared;
  run_recorded(config, nullptr, whole);
  run_recorded(sharded, nullptr, shared);
  ASSERT_FALSE(whole.snapshots.empty());
  expect_same_tail(whole, shared, 0);
  expect_same_snapshots(whole, shared, 0);
  EXPECT_EQ(whole.snapshots.size(), shared.snapshots.size());
  for (const std::int64_t cut : cuts) {
    expect_continues(sharded, whole, cut, whole);
    expect_continues(config, shared, cut, whole);
  }
}

}  // namespace twobw::runtime
