#include "train/profiler.h"

#include <fmt/chrono.h>
#include <torch/version.h>

#include <algorithm>
#include <ctime>
#include <future>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "device/available.h"
#include "device/machine.h"
#include "train/chain.h"
#include "train/company.h"
#include "train/link_profile.h"
#include "train/planning.h"
#include "train/samples.h"

namespace twobw::train {
namespace {

using planner::KindTimes;
using planner::LayerKind;
using planner::Profile;

// Times of one kind at one size.
struct KindSamples {
  Samples forward, backward, recomputed;
};

class Profiler {
 public:
  Profiler(const Setup& setup, const ProfiledCores& cores, const ProfileRequest& request,
           const ProfileListener& listener)
      : setup_(setup), cores_(cores), request_(request), listener_(listener) {}

  // On the thread that is bound to the device.
  void run(Profile& profile) {
    const double available = device::available_memory();
    const double state = chain_state_bytes(setup_);
    if (state > available) refuse(state, available);
    device::MemoryPool of_state;
    device::PoolScope scope(of_state);
    device::ThreadClock clock(std::chrono::steady_clock::now());
    Chain chain(setup_, clock);
    chain.set_microbatch(1);
    profile.tokens_per_sequence_bytes = chain.token_bytes();
    const double per_sequence = bytes_of_a_sequence(chain);
    for (const int size : request_.sizes) {
      const double needed = state + size * per_sequence;
      if (needed <= available) {
        measure(chain, size, profile, affordable_company(needed, available));
        continue;
      }
      listener_.on_note(fmt::format("microbatches of {} are left out: they would need {}, {} are free", size,
                                    format_bytes(needed), format_bytes(available)));
      done_ += request_.rounds;
    }
    profile.step_per_parameter = step_.summary();
    if (profile.kinds.begin()->second.times.empty())
      refuse(state + request_.sizes.front() * per_sequence, available);
  }

 private:
  [[noreturn]] static void refuse(double needed, double available) {
    fail_run("the model is too large to be measured here: its layers need {}, {} are free",
             format_bytes(needed), format_bytes(available));
  }

  static double bytes_of_a_sequence(Chain& chain) {
    device::MemoryPool pool;
    device::PoolScope scope(pool);
    chain.time_pass();
    return static_cast<double>(pool.peak_bytes());
  }

  // As many of the other cores as memory suffices for.
  std::vector<device::CoreSet> affordable_company(double needed, double available) {
    const auto others = static_cast<std::size_t>(available / needed) - 1;
    if (others >= cores_.busy.size()) return cores_.busy;
    listener_.on_note(fmt::format(
        "memory suffices to keep only {} of the {} other cores busy meanwhile: times may be too short",
        others, cores_.busy.size()));
    return {cores_.busy.begin(), cores_.busy.begin() + static_cast<std::ptrdiff_t>(others)};
  }

  void measure(Chain& chain, int size, Profile& profile, const std::vector<device::CoreSet>& busy) {
    Company company(setup_, busy, size);
    // Freed with the last round, before the next size.
    device::MemoryPool pool;
    device::PoolScope scope(pool);
    chain.set_microbatch(size);
    std::map<std::string, KindTimes> kinds;
    const std::vector<LayerBytes> bytes = chain.measure_pass(pool);
    for (int layer = 0; layer < chain.size(); ++layer) {
      KindTimes& times = kinds[chain.kind(layer)];
      times.microbatch = size;
      times.stash = std::max(times.stash, bytes[layer].stash);
      times.kept = std::max(times.kept, bytes[layer].kept);
      times.output = std::max(times.output, bytes[layer].output);
      times.working = std::max(times.working, bytes[layer].working);
    }
    std::map<std::string, KindSamples> samples;
    for (int round = 0; round < request_.rounds; ++round) {
      add_round(chain, samples);
      listener_.on_round(++done_, request_.rounds * static_cast<int>(request_.sizes.size()), size);
    }
    company.step_along();
    for (int round = 0; round < request_.rounds; ++round) step_.add(chain.time_step());
    for (auto& [kind, times] : kinds) {
      times.forward = samples[kind].forward.summary();
      times.backward = samples[kind].backward.summary();
      times.recomputed_backward = samples[kind].recomputed.summary();
      profile.kinds[kind].times.push_back(times);
    }
    chain.set_microbatch(1);  // lets go of the tokens before their pool goes
  }

  void add_round(Chain& chain, std::map<std::string, KindSamples>& samples) {
    const LayerTimes times = chain.time_pass();
    for (int layer = 0; layer < chain.size(); ++layer) {
      samples[chain.kind(layer)].forward.add(times.forward[layer]);
      samples[chain.kind(layer)].backward.add(times.backward[layer]);
    }
    if (request_.recomputation) {
      const LayerTimes again = chain.time_pass(/*recompute=*/true);
      for (int layer = 0; layer < chain.size(); ++layer)
        samples[chain.kind(layer)].recomputed.add(again.forward[layer] + again.backward[layer]);
    }
    chain.time_step();  // as in a run, so that gradients do not grow
  }

  const Setup& setup_;
  const ProfiledCores& cores_;
  const ProfileRequest& request_;
  const ProfileListener& listener_;
  Samples step_;
  int done_ = 0;
};

std::string describe_device(const device::CoreSet& cores) {
  const std::string processor = device::processor_name();
  const std::size_t count = cores.cores.size();
  return fmt::format("cpu: {} core{} of {}", count, count == 1 ? "" : "s",
                     processor.empty() ? "an unnamed processor" : processor);
}

Profile describe(const Setup& setup, const device::CoreSet& cores) {
  const auto share =
      static_cast<double>(cores.cores.size()) / static_cast<double>(device::available_cores().size());
  Profile profile{.device = describe_device(cores),
                  .device_memory = device::system_memory() * share,
                  .libtorch = TORCH_VERSION,
                  .created = fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr))),
                  .model = setup.config.model,
                  .precision = setup.config.train.precision,
                  .optimizer = setup.config.optimizer.name,
                  .layers = layer_kinds(setup.model)};
  for (const planner::LayerShape& shape : layer_shapes(setup.model))
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

ProfiledCores profiled_among(const std::vector<device::CoreSet>& devices) {
  ProfiledCores result{.measured = devices.front()};
  std::set<int> taken(result.measured.cores.begin(), result.measured.cores.end());
  for (const device::CoreSet& device : devices) {
    const auto is_taken = [&](int core) { return taken.contains(core); };
    if (std::any_of(device.cores.begin(), device.cores.end(), is_taken)) continue;
    taken.insert(device.cores.begin(), device.cores.end());
    result.busy.push_back(device);
  }
  return result;
}

ProfiledCores profiled_cores(const Setup& setup) {
  refuse_gpus(setup, "measuring layers for the planner");
  if (!setup.config.devices.empty()) return profiled_among(setup.cores);
  std::vector<device::CoreSet> cores;
  for (const int core : device::available_cores()) cores.push_back({.cores = {core}});
  return profiled_among(cores);
}

Profile profile(const Setup& setup, const ProfiledCores& cores, const ProfileRequest& request,
                const ProfileListener& listener) {
  Profile profile = describe(setup, cores.measured);
  // On a thread of its own: the binding to cores and the count of intra-op threads stay with it.
  auto measured = std::async(std::launch::async, [&] {
    device::bind_thread("profile", cores.measured);
    Profiler(setup, cores, request, listener).run(profile);
  });
  try {
    measured.get();
  } catch (const std::bad_alloc&) {
    fail_run("the model is too large to be measured here: out of memory");
  }
  if (!request.link) return profile;
  if (const auto link = measure_local_link(cores.measured, largest_output(profile))) {
    profile.links["local"] = *link;
  } else {
    listener.on_note("the link between two workers is not measured: there is but one core");
  }
  return profile;
}

}  // namespace twobw::train
