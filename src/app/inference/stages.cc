#include "app/inference/stages.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>

#include "core/base/error.h"
#include "core/base/failures.h"
#include "core/base/threads.h"
#include "engine/device/device.h"
#include "engine/runtime/setup.h"
#include "engine/transport/wait_hub.h"

namespace twobw::inference {
namespace {

// Layers per stage, at least one each, that minimize the largest stage's bytes of weights: these bound the
// time of a forward of few tokens.
std::vector<int> even_split(const architecture::Model& model, int stages) {
  const std::size_t layers = model.size();
  TWOBW_ASSERT(stages >= 1 && stages <= std::ssize(model), "{} stages of {} layers", stages, layers);
  std::vector<double> before = {0};  // parameters of the layers before each
  for (const architecture::Layer& layer : model)
    before.push_back(before.back() + architecture::parameter_count(layer));
  using Split = std::pair<double, std::vector<int>>;  // the largest stage and all counts
  const Split none = {std::numeric_limits<double>::infinity(), {}};
  std::vector<Split> best(layers + 1, none);  // of the first layers, over the stages so far
  best[0].first = 0;
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<Split> next(layers + 1, none);
    for (std::size_t end = 1; end <= layers; ++end) {
      for (std::size_t first = 0; first < end; ++first) {
        const double most = std::max(best[first].first, before[end] - before[first]);
        if (most >= next[end].first) continue;
        next[end] = {most, best[first].second};
        next[end].second.push_back(static_cast<int>(end - first));
      }
    }
    best = std::move(next);
  }
  return best[layers].second;
}

class StageThreads {
 public:
  StageThreads(const ModelSource& source, const models::Model& model)
      : source_(source),
        model_(model),
        devices_(runtime::devices_for(source.config, source.config.pipeline.stages)),
        hub_(std::chrono::duration<double>(source.config.pipeline.timeout)) {
    runtime::check_split(source.config, model);
    const int count = source.config.pipeline.stages;
    const std::vector<int> split =
        source.config.pipeline.split.empty() ? even_split(model.layers, count) : source.config.pipeline.split;
    int layer = 0;
    for (int index = 0; index < count; ++index) {
      stages_.push_back(
          {.index = index, .count = count, .first_layer = layer, .last_layer = layer + split[index]});
      layer += split[index];
    }
    connect();
  }
  ~StageThreads() {
    stages_.clear();
    links_.clear();
    if (devices_.front().gpu) device::release_unused_gpu_memory();
  }

  void run(const std::function<void(Stage&)>& work) {
    run_on_threads(static_cast<int>(stages_.size()), [&](int i) { run_stage(stages_[i], work); });
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void connect() {
    for (std::size_t i = 0; i + 1 < stages_.size(); ++i) {
      const auto &here = devices_[i].gpu, &there = devices_[i + 1].gpu;
      const bool apart = here && there && here->gpu != there->gpu;
      stages_[i].after = stages_[i + 1].before = add_link(apart);
      stages_[i].from_after = stages_[i + 1].to_before = add_link(false);
      transport::Link* orders = add_link(false);
      stages_[i].orders = {orders};
      stages_.back().orders.push_back(orders);
    }
  }
  transport::Link* add_link(bool apart) {
    return links_.emplace_back(apart ? transport::peer_link(hub_) : transport::local_link(hub_)).get();
  }

  void run_stage(Stage& stage, const std::function<void(Stage&)>& work) {
    try {
      at::NoGradGuard no_grad;
      const device::DeviceBinding binding("stage" + std::to_string(stage.index),
                                          devices_[static_cast<std::size_t>(stage.index)]);
      stage.compute = binding.compute(source_.config.train.precision);
      stage.parameters = read_weights(source_, model_, stage.first_layer, stage.last_layer, stage.compute);
      work(stage);
      stage.parameters.clear();
    } catch (const transport::Cancelled&) {
    } catch (...) {
      fail(stage.index);
    }
  }

  // Called in an exception handler.
  void fail(int stage) {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = explained(stage);
    hub_.cancel();
  }
  static std::exception_ptr explained(int stage) {
    try {
      throw;
    } catch (const InputError&) {
      return std::current_exception();
    } catch (const RunError&) {
      return std::current_exception();
    } catch (const std::exception& error) {
      return std::make_exception_ptr(RunError(fmt::format("stage {}: {}", stage, describe_failure(error))));
    }
  }

  const ModelSource& source_;
  const models::Model& model_;
  std::vector<device::Device> devices_;
  transport::WaitHub hub_;
  std::vector<std::unique_ptr<transport::Link>> links_;
  std::vector<Stage> stages_;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

void run_stages(const ModelSource& source, const models::Model& model,
                const std::function<void(Stage&)>& work) {
  StageThreads(source, model).run(work);
}

void await(const models::Tensors& tensors) {
  // Reading a number waits for its stream.
  if (!tensors.empty() && tensors.front().is_cuda()) tensors.front().flatten()[0].item<double>();
}

}  // namespace twobw::inference
