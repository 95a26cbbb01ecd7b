// A tiny pipeline for tests of requests, failures and reports.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "engine/data/sources.h"
#include "engine/device/device.h"
#include "engine/models/model.h"
#include "engine/runtime/pipeline.h"
#include "tests/support/refusal.h"

namespace twobw::runtime {

inline Observer silent() {
  return {.on_update = [](telemetry::StageUpdate) {}, .on_evaluation = [](telemetry::Evaluation) {}};
}

// The error message of a run; empty if it succeeds.
inline std::string message_of(Pipeline& pipeline) {
  return error_of<RunError>([&] { pipeline.run(); });
}

// Two microbatches of one sequence per update, no evaluations. All ranks may share one.
struct Bench {
  Setup setup;
  Config& config = setup.config;
  models::Model& model = setup.model;

  Bench(const Bench&) = delete;
  Bench(int stages, int replicas, std::vector<int> split, std::int64_t updates = 1'000'000) {
    device::initialize();
    config.model = {.layers = 1, .width = 8, .heads = 2, .vocab = 17, .context = 4};
    config.pipeline.stages = stages;
    config.pipeline.replicas = replicas;
    config.pipeline.microbatch = 1;
    config.pipeline.microbatches = 2;
    config.pipeline.timeout = 60;
    config.train.updates = updates;
    config.train.eval_every = 0;
    config.train.eval_microbatches = 1;
    model = models::build(config.model);
    setup.training = setup.validation = data::make_synthetic(config.model.vocab);
    setup.spec = {.shape = {.schedule = schedule::Kind::TwoBW,
                            .stages = stages,
                            .replicas = replicas,
                            .microbatches = 2,
                            .split = std::move(split)},
                  .updates = updates};
    setup.devices = device::deal_devices(stages * replicas);
  }

  std::unique_ptr<Pipeline> pipeline(PipelineOptions options = {},
                                     const Observer& observer = silent()) const {
    return std::make_unique<Pipeline>(setup, std::move(options), observer);
  }

  // A layer without parameters, before the model's third.
  void insert_layer(const std::string& kind, models::Forward forward) {
    model.layers.insert(model.layers.begin() + 2, {.kind = kind});
    model.forwards.insert(model.forwards.begin() + 2, std::move(forward));
  }
};

// Blocks forwards until it is opened.
class Gate {
 public:
  models::Forward forward() {
    return [this](auto, const models::Tensors& x, const auto&) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return open_; });
      return x;
    };
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// Blocks until a worker of a running pipeline has failed and has been reported. Thread-safe.
struct FailureProbe {
  static void await(Pipeline& pipeline) {
    const auto failed = [&] {
      const std::lock_guard lock(pipeline.failure_mutex_);
      return pipeline.failure_.has_value();
    };
    while (!failed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

}  // namespace twobw::runtime
