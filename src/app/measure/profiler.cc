// Times and bytes of every kind of layer.
#include "app/measure/profiler.h"

#include <fmt/chrono.h>
#include <torch/version.h>

#include <algorithm>
#include <ctime>
#include <future>
#include <map>
#include <set>

#include "app/measure/layer_bench.h"
#include "app/measure/link_benchmark.h"
#include "core/base/error.h"
#include "core/base/text.h"

namespace twobw::measure {
namespace {

using planner::KindTimes;
using planner::LayerKind;
using planner::Profile;

// Times of a kind at one size.
struct KindSamples {
  Samples forward, backward, recomputed;
};

// All kinds at one size.
struct SizeSamples {
  int size = 0;
  std::map<std::string, KindTimes> bytes;
  std::map<std::string, KindSamples> times;
};

class Profiler {
 public:
  Profiler(const runtime::Setup& setup, const ProfiledDevices& devices, const device::DeviceBinding& binding,
           const ProfileRequest& request, const ProfileObserver& observer)
      : setup_(setup), devices_(devices), binding_(binding), request_(request), observer_(observer) {}

  // Runs on the thread that is bound to the device.
  void run(Profile& profile) {
    const double available = device::free_memory(devices_.measured);
    const double state = layer_bench_bytes(setup_);
    if (state > available) refuse(state, available);
    device::MemoryPool of_state;
    device::PoolScope scope(of_state);
    LayerBench bench(setup_, binding_.clock(), binding_.compute(setup_.config.train.precision));
    bench.set_microbatch(1);
    profile.tokens_per_sequence_bytes = bench.token_bytes();
    const double per_sequence = bytes_of_a_sequence(bench);
    std::vector<SizeSamples> all;
    for (const int size : request_.sizes) {
      const double needed = state + size * per_sequence;
      if (needed <= available) {
        all.push_back({.size = size});
        continue;
      }
      observer_.on_note(fmt::format("microbatches of {} are left out: they would need {}, {} are free", size,
                                    format_bytes(needed), format_bytes(available)));
      done_ += request_.rounds;
    }
    if (all.empty()) refuse(state + request_.sizes.front() * per_sequence, available);
    BackgroundLoad load(setup_, affordable_load(state + all.back().size * per_sequence, available));
    measure_in_turn(bench, load, all);
    for (const SizeSamples& samples : all) add(samples, profile);
    profile.step_per_parameter = step_.summary();
    profile.predict_per_parameter = predict_.summary();
  }

 private:
  [[noreturn]] static void refuse(double needed, double available) {
    fail_run("the model is too large to be measured here: its layers need {}, {} are free",
             format_bytes(needed), format_bytes(available));
  }

  double bytes_of_a_sequence(LayerBench& bench) const {
    device::MemoryPool pool;
    device::PoolScope scope(pool);
    const auto meter = device::make_meter(devices_.measured, pool);
    const double before = meter->live();
    meter->reset_peak();
    bench.time_pass();
    return meter->peak() - before;
  }

  // Limits the other devices to the memory available.
  std::vector<device::Device> affordable_load(double needed, double available) {
    const auto others = static_cast<std::size_t>(available / needed) - 1;
    if (others >= devices_.busy.size()) return devices_.busy;
    observer_.on_note(fmt::format(
        "memory suffices to keep only {} of the {} other devices busy meanwhile: times may be too short",
        others, devices_.busy.size()));
    return {devices_.busy.begin(), devices_.busy.begin() + static_cast<std::ptrdiff_t>(others)};
  }

  // Interleaves the sizes, so that slow phases of a device affect all of them: plans depend on their ratios.
  void measure_in_turn(LayerBench& bench, BackgroundLoad& load, std::vector<SizeSamples>& all) {
    const int turns = all.size() == 1 ? 1 : std::min(kTurns, request_.rounds);
    for (int turn = 0; turn < turns; ++turn) {
      const int rounds = request_.rounds * (turn + 1) / turns - request_.rounds * turn / turns;
      for (SizeSamples& samples : all) measure(bench, load, rounds, samples);
    }
  }

  void measure(LayerBench& bench, BackgroundLoad& load, int rounds, SizeSamples& samples) {
    // Freed before the next size.
    device::MemoryPool pool;
    device::PoolScope scope(pool);
    bench.set_microbatch(samples.size);
    const std::vector<LayerBytes> bytes = bench.measure_pass(*device::make_meter(devices_.measured, pool));
    for (int layer = 0; layer < bench.size(); ++layer) {
      KindTimes& kind = samples.bytes[bench.kind(layer)];
      kind.saved_bytes = std::max(kind.saved_bytes, bytes[layer].saved_bytes);
      kind.kept = std::max(kind.kept, bytes[layer].kept);
      kind.output = std::max(kind.output, bytes[layer].output);
      kind.working = std::max(kind.working, bytes[layer].working);
    }
    load.compute(samples.size);
    for (int round = 0; round < rounds; ++round) {
      add_round(bench, samples.times);
      observer_.on_round(++done_, request_.rounds * static_cast<int>(request_.sizes.size()), samples.size);
    }
    load.step();
    for (int round = 0; round < rounds; ++round) {
      step_.add(bench.time_step());
      predict_.add(bench.time_predict());
    }
    bench.set_microbatch(1);  // frees the tokens before their pool
  }

  static void add(const SizeSamples& samples, Profile& profile) {
    for (const auto& [kind, bytes] : samples.bytes) {
      const KindSamples& measured = samples.times.at(kind);
      KindTimes times = bytes;
      times.microbatch = samples.size;
      times.forward = measured.forward.summary();
      times.backward = measured.backward.summary();
      times.recomputed_backward = measured.recomputed.summary();
      profile.kinds[kind].times.push_back(times);
    }
  }

  void add_round(LayerBench& bench, std::map<std::string, KindSamples>& samples) {
    const LayerTimes times = bench.time_pass();
    LayerTimes again{.bare = times.forward};
    if (request_.recomputation) {
      again = bench.time_pass(/*recompute=*/true);
      for (int layer = 0; layer < bench.size(); ++layer)
        samples[bench.kind(layer)].recomputed.add(again.forward[layer] + again.backward[layer]);
    }
    // Work of a forward for the backward (the head on a GPU) counts as the backward's: a recomputed stage's
    // first forward omits it.
    for (int layer = 0; layer < bench.size(); ++layer) {
      const double bare = std::min(again.bare[layer], times.forward[layer]);  // longer only by noise
      samples[bench.kind(layer)].forward.add(bare);
      samples[bench.kind(layer)].backward.add(times.forward[layer] - bare + times.backward[layer]);
    }
    bench.time_step();  // keeps gradients from growing, as in a run
  }

  static constexpr int kTurns = 4;

  const runtime::Setup& setup_;
  const ProfiledDevices& devices_;
  const device::DeviceBinding& binding_;
  const ProfileRequest& request_;
  const ProfileObserver& observer_;
  Samples step_, predict_;
  int done_ = 0;
};

Profile describe(const runtime::Setup& setup, const device::Device& device) {
  Profile profile{.device = device::describe_hardware(device),
                  .device_memory = device::total_memory(device),
                  .libtorch = TORCH_VERSION,
                  .created = fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr))),
                  .model = setup.config.model,
                  .precision = setup.config.train.precision,
                  .optimizer = setup.config.optimizer.name,
                  .layers = architecture::kinds_of(setup.model.layers)};
  for (const planner::LayerShape& shape : planner::shapes_of(setup.model.layers))
    profile.kinds[shape.kind] = {.parameters = shape.parameters, .tied = shape.tied};
  return profile;
}

double largest_output(const Profile& profile) {
  double largest = 0;
  for (const auto& [name, kind] : profile.kinds) {
    for (const KindTimes& times : kind.times) largest = std::max(largest, times.output);
  }
  return largest;
}

}  // namespace

ProfiledDevices profiled_among(const std::vector<device::Device>& devices) {
  ProfiledDevices result{.measured = devices.front()};
  if (result.measured.gpu) {  // slices are disjoint; names of other hosts' devices repeat
    std::set<std::string> names = {describe(*result.measured.gpu)};
    for (const device::Device& device : devices) {
      if (device.gpu->gpu < device::gpu_count() && names.insert(describe(*device.gpu)).second)
        result.busy.push_back(device);
    }
    return result;
  }
  std::set<int> taken(result.measured.cores.cores.begin(), result.measured.cores.cores.end());
  const std::vector<int> available = device::available_cores();
  const auto is_free = [&](int core) {
    return !taken.contains(core) && std::find(available.begin(), available.end(), core) != available.end();
  };
  for (const device::Device& device : devices) {
    const std::vector<int>& cores = device.cores.cores;
    if (!std::all_of(cores.begin(), cores.end(), is_free)) continue;
    taken.insert(cores.begin(), cores.end());
    result.busy.push_back(device);
  }
  return result;
}

ProfiledDevices profiled_devices(const runtime::Setup& setup) {
  if (!setup.config.devices.empty()) return profiled_among(setup.devices);
  std::vector<device::Device> devices;
  for (const int core : device::available_cores()) devices.push_back({.cores = {{core}}});
  return profiled_among(devices);
}

Profile profile(const runtime::Setup& setup, const ProfiledDevices& devices, const ProfileRequest& request,
                const ProfileObserver& observer) {
  Profile profile = describe(setup, devices.measured);
  // A new thread leaves the caller's device binding alone.
  auto measured = std::async(std::launch::async, [&] {
    const device::DeviceBinding binding("profile", devices.measured);
    Profiler(setup, devices, binding, request, observer).run(profile);
  });
  try {
    measured.get();
  } catch (const std::bad_alloc&) {
    fail_run("the model is too large to be measured here: out of memory");
  }
  if (devices.measured.gpu) device::release_unused_gpu_memory();
  if (!request.link) return profile;
  if (const auto link = measure_local_link(devices.measured, largest_output(profile))) {
    profile.links["local"] = *link;
  } else {
    observer.on_note("the link between two workers is not measured: there is but one core");
  }
  return profile;
}

}  // namespace twobw::measure
