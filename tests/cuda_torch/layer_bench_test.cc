// Layers that run faster on a GPU than a thread queues them have the times that they have in a run.
#include "app/measure/layer_bench.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <map>

#include "app/measure/link_benchmark.h"
#include "core/base/config.h"
#include "engine/device/device.h"

namespace twobw::measure {
namespace {

constexpr int kPasses = 15, kMicrobatch = 4;

using Settings = std::vector<std::string>;

runtime::Setup small_layers(const Settings& more) {
  device::initialize();
  Settings settings = {"model.layers=6",    "model.width=256",         "model.heads=4",
                       "model.vocab=512",   "model.context=128",       "pipeline.schedule=flush",
                       "pipeline.stages=4", "pipeline.microbatches=4", "devices=[cuda:0/4]"};
  settings.insert(settings.end(), more.begin(), more.end());
  return runtime::prepare(load_config("", settings));
}

// A clock whose queue cannot be held.
class UnheldClock final : public device::Clock {
 public:
  explicit UnheldClock(device::Clock& clock) : clock_(clock) {}
  device::Timestamp now() override { return clock_.now(); }
  void await(const device::Timestamp& mark) override { clock_.await(mark); }
  double seconds(const device::Timestamp& mark) const override { return clock_.seconds(mark); }
  double between(const device::Timestamp& from, const device::Timestamp& to) const override {
    return clock_.between(from, to);
  }

 private:
  device::Clock& clock_;
};

// Seconds of every layer, forward and backward: the median of some passes.
std::vector<double> time_layers(LayerBench& bench, bool recompute = false) {
  std::vector<Samples> samples(bench.size());
  for (int pass = 0; pass < kPasses; ++pass) {
    const LayerTimes times = bench.time_pass(recompute);
    for (int layer = 0; layer < bench.size(); ++layer)
      samples[layer].add(times.forward[layer] + times.backward[layer]);
    bench.time_step();
  }
  std::vector<double> medians;
  for (const Samples& of_layer : samples) medians.push_back(of_layer.summary().median);
  return medians;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

class LayerBenchOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (device::gpu_count() == 0) GTEST_SKIP() << "no GPU here";
    at::globalContext().setDeterministicAlgorithms(false, false);
  }

  // On a thread of its own, which takes its binding and leaves it.
  template <typename Work>
  static void on_the_device(const runtime::Setup& setup, const Work& work) {
    std::async(std::launch::async, [&] {
      const device::DeviceBinding binding("bench", setup.devices.front());
      work(binding);
    }).get();
    device::release_unused_gpu_memory();
  }

  static std::unique_ptr<LayerBench> make_bench(const runtime::Setup& setup, device::Clock& clock,
                                                const device::DeviceBinding& binding) {
    auto bench = std::make_unique<LayerBench>(setup, clock, binding.compute(setup.config.train.precision));
    bench->set_microbatch(kMicrobatch);
    return bench;
  }
};

// Within a quarter, and the resolution of events.
TEST_F(LayerBenchOnGpu, LayersOfAKindTakeTheSame) {
  const runtime::Setup setup = small_layers({"train.precision=bf16"});
  struct Range {
    double least = 1, most = 0;
  };
  std::map<std::string, Range> kinds;
  for (int run = 0; run < 3; ++run) {
    on_the_device(setup, [&](const device::DeviceBinding& binding) {
      const auto bench = make_bench(setup, binding.clock(), binding);
      const std::vector<double> times = time_layers(*bench);
      EXPECT_EQ(bench->held_layers(), 8);
      for (int layer = 0; layer < bench->size(); ++layer) {
        Range& kind = kinds[bench->kind(layer)];
        kind.least = std::min(kind.least, times[layer]);
        kind.most = std::max(kind.most, times[layer]);
      }
    });
  }
  for (const auto& [name, kind] : kinds) {
    EXPECT_GT(kind.least, 1e-6) << name;
    EXPECT_LT(kind.most, 1.25 * kind.least + 2e-6) << name;
  }
}

TEST_F(LayerBenchOnGpu, QueueingIsNoPartOfTheTimes) {
  const runtime::Setup setup = small_layers({"train.precision=bf16"});
  on_the_device(setup, [&](const device::DeviceBinding& binding) {
    UnheldClock unheld(binding.clock());
    const double held = sum_of(time_layers(*make_bench(setup, binding.clock(), binding)));
    const double queued = sum_of(time_layers(*make_bench(setup, unheld, binding)));
    EXPECT_LT(held, 0.8 * queued);
  });
}

TEST_F(LayerBenchOnGpu, NeighboursKeepNobodyFromQueueing) {
  const runtime::Setup setup = small_layers({"train.precision=bf16"});
  on_the_device(setup, [&](const device::DeviceBinding& binding) {
    const auto bench = make_bench(setup, binding.clock(), binding);
    BackgroundLoad load(setup, {setup.devices.begin() + 1, setup.devices.end()});
    load.compute(kMicrobatch);
    time_layers(*bench);
    EXPECT_EQ(bench->held_layers(), 8);
  });
}

// Otherwise the GPU would give up waiting to be let go.
TEST_F(LayerBenchOnGpu, NoPassWaitsForTheGpu) {
  const std::vector<Settings> all = {{"train.precision=bf16"},
                                     {"train.precision=fp32"},
                                     {"train.precision=bf16", "model.dropout=0.1"},
                                     {"train.precision=bf16", "model.reset_documents=true"},
                                     {"train.precision=bf16", "model.family=llama", "model.kv_heads=2"},
                                     {"train.precision=bf16", "model.family=bert"},
                                     {"train.precision=bf16", "model.family=bert", "model.dropout=0.1"},
                                     {"train.precision=bf16", "devices=[cuda:0]", "pipeline.stages=1"}};
  for (const Settings& settings : all) {
    const runtime::Setup setup = small_layers(settings);
    on_the_device(setup, [&](const device::DeviceBinding& binding) {
      const auto bench = make_bench(setup, binding.clock(), binding);
      for (const bool recompute : {false, true}) time_layers(*bench, recompute);
      EXPECT_EQ(bench->held_layers(), 8) << testing::PrintToString(settings);
    });
  }
}

}  // namespace
}  // namespace twobw::measure
