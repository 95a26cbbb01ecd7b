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
#include "device/meter.h"
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

// All kinds at one size.
struct SizeSamples {
  int size = 0;
  std::map<std::string, KindTimes> bytes;
  std::map<std::string, KindSamples> times;
};

class Profiler {
 public:
  Profiler(const Setup& setup, const ProfiledPlaces& places, const device::Seat& seat,
           const ProfileRequest& request, const ProfileListener& listener)
      : setup_(setup), places_(places), seat_(seat), request_(request), listener_(listener) {}

  // On the thread that is bound to the device.
  void run(Profile& profile) {
    const double available = device::free_memory(places_.measured);
    const double state = chain_state_bytes(setup_);
    if (state > available) refuse(state, available);
    device::MemoryPool of_state;
    device::PoolScope scope(of_state);
    Chain chain(setup_, seat_);
    chain.set_microbatch(1);
    profile.tokens_per_sequence_bytes = chain.token_bytes();
    const double per_sequence = bytes_of_a_sequence(chain);
    std::vector<SizeSamples> all;
    for (const int size : request_.sizes) {
      const double needed = state + size * per_sequence;
      if (needed <= available) {
        all.push_back({.size = size});
        continue;
      }
      listener_.on_note(fmt::format("microbatches of {} are left out: they would need {}, {} are free", size,
                                    format_bytes(needed), format_bytes(available)));
      done_ += request_.rounds;
    }
    if (all.empty()) refuse(state + request_.sizes.front() * per_sequence, available);
    Company company(setup_, affordable_company(state + all.back().size * per_sequence, available));
    measure_in_turn(chain, company, all);
    for (const SizeSamples& samples : all) add(samples, profile);
    profile.step_per_parameter = step_.summary();
  }

 private:
  [[noreturn]] static void refuse(double needed, double available) {
    fail_run("the model is too large to be measured here: its layers need {}, {} are free",
             format_bytes(needed), format_bytes(available));
  }

  double bytes_of_a_sequence(Chain& chain) const {
    device::MemoryPool pool;
    device::PoolScope scope(pool);
    const auto meter = device::make_meter(places_.measured, pool);
    const double before = meter->live();
    meter->reset_peak();
    chain.time_pass();
    return meter->peak() - before;
  }

  // As many of the other cores as memory suffices for.
  std::vector<device::Place> affordable_company(double needed, double available) {
    const auto others = static_cast<std::size_t>(available / needed) - 1;
    if (others >= places_.busy.size()) return places_.busy;
    listener_.on_note(fmt::format(
        "memory suffices to keep only {} of the {} other devices busy meanwhile: times may be too short",
        others, places_.busy.size()));
    return {places_.busy.begin(), places_.busy.begin() + static_cast<std::ptrdiff_t>(others)};
  }

  // Some rounds of each size and then of each again, so that a device which is slower for a while is so for
  // all of them: it is their ratios that a plan goes by.
  void measure_in_turn(Chain& chain, Company& company, std::vector<SizeSamples>& all) {
    const int turns = all.size() == 1 ? 1 : std::min(kTurns, request_.rounds);
    for (int turn = 0; turn < turns; ++turn) {
      const int rounds = request_.rounds * (turn + 1) / turns - request_.rounds * turn / turns;
      for (SizeSamples& samples : all) measure(chain, company, rounds, samples);
    }
  }

  void measure(Chain& chain, Company& company, int rounds, SizeSamples& samples) {
    // Freed with the last round, before the next size.
    device::MemoryPool pool;
    device::PoolScope scope(pool);
    chain.set_microbatch(samples.size);
    const std::vector<LayerBytes> bytes = chain.measure_pass(*device::make_meter(places_.measured, pool));
    for (int layer = 0; layer < chain.size(); ++layer) {
      KindTimes& kind = samples.bytes[chain.kind(layer)];
      kind.stash = std::max(kind.stash, bytes[layer].stash);
      kind.kept = std::max(kind.kept, bytes[layer].kept);
      kind.output = std::max(kind.output, bytes[layer].output);
      kind.working = std::max(kind.working, bytes[layer].working);
    }
    company.compute(samples.size);
    for (int round = 0; round < rounds; ++round) {
      add_round(chain, samples.times);
      listener_.on_round(++done_, request_.rounds * static_cast<int>(request_.sizes.size()), samples.size);
    }
    company.step();
    for (int round = 0; round < rounds; ++round) step_.add(chain.time_step());
    chain.set_microbatch(1);  // lets go of the tokens before their pool goes
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

  void add_round(Chain& chain, std::map<std::string, KindSamples>& samples) {
    const LayerTimes times = chain.time_pass();
    LayerTimes again{.bare = times.forward};
    if (request_.recomputation) {
      again = chain.time_pass(/*recompute=*/true);
      for (int layer = 0; layer < chain.size(); ++layer)
        samples[chain.kind(layer)].recomputed.add(again.forward[layer] + again.backward[layer]);
    }
    // What a forward does for the backward, as the head does on a GPU, counts as the backward's: where it is
    // recomputed, the first forward is spared it.
    for (int layer = 0; layer < chain.size(); ++layer) {
      const double bare = std::min(again.bare[layer], times.forward[layer]);  // longer only by chance
      samples[chain.kind(layer)].forward.add(bare);
      samples[chain.kind(layer)].backward.add(times.forward[layer] - bare + times.backward[layer]);
    }
    chain.time_step();  // as in a run, so that gradients do not grow
  }

  static constexpr int kTurns = 4;

  const Setup& setup_;
  const ProfiledPlaces& places_;
  const device::Seat& seat_;
  const ProfileRequest& request_;
  const ProfileListener& listener_;
  Samples step_;
  int done_ = 0;
};

Profile describe(const Setup& setup, const device::Place& place) {
  Profile profile{.device = device::describe_hardware(place),
                  .device_memory = device::total_memory(place),
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

ProfiledPlaces profiled_among(const std::vector<device::Place>& places) {
  ProfiledPlaces result{.measured = places.front()};
  if (result.measured.gpu) {  // slices share no multiprocessor
    result.busy.assign(places.begin() + 1, places.end());
    return result;
  }
  std::set<int> taken(result.measured.cores.cores.begin(), result.measured.cores.cores.end());
  for (const device::Place& place : places) {
    const std::vector<int>& cores = place.cores.cores;
    if (std::any_of(cores.begin(), cores.end(), [&](int core) { return taken.contains(core); })) continue;
    taken.insert(cores.begin(), cores.end());
    result.busy.push_back(place);
  }
  return result;
}

ProfiledPlaces profiled_places(const Setup& setup) {
  if (!setup.config.devices.empty()) return profiled_among(setup.places);
  std::vector<device::Place> places;
  for (const int core : device::available_cores()) places.push_back({.cores = {{core}}});
  return profiled_among(places);
}

Profile profile(const Setup& setup, const ProfiledPlaces& places, const ProfileRequest& request,
                const ProfileListener& listener) {
  Profile profile = describe(setup, places.measured);
  // On a thread of its own, which takes its seat and leaves it.
  auto measured = std::async(std::launch::async, [&] {
    const device::Seat seat("profile", places.measured);
    Profiler(setup, places, seat, request, listener).run(profile);
  });
  try {
    measured.get();
  } catch (const std::bad_alloc&) {
    fail_run("the model is too large to be measured here: out of memory");
  }
  if (places.measured.gpu) device::release_unused_gpu_memory();
  if (!request.link) return profile;
  if (const auto link = measure_local_link(places.measured, largest_output(profile))) {
    profile.links["local"] = *link;
  } else {
    listener.on_note("the link between two workers is not measured: there is but one core");
  }
  return profile;
}

}  // namespace twobw::train
