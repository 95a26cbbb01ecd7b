#include "core/schedule/spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/base/error.h"

namespace twobw::schedule {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
constexpr int kHidePartialSum = 1;  // microbatches that hide the partial sum over replicas

// The first stage steps late for the tied gradient. With one buffer the others would step before its next
// backward, and wait for its norm.
bool first_waits_for_tie(const Spec& spec) {
  return spec.shape.defer_tied_update && spec.shape.double_buffer_gradients && spec.shape.stages > 1;
}

void require_within(std::string_view key, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least) fail_input("{} is {}; it must be at least {}", key, value, least);
  if (value > most) fail_input("{} is {}; it must be at most {}", key, value, most);
}

}  // namespace

void validate(const Spec& spec) {
  require_within("pipeline.stages", spec.shape.stages, 1, kMostStages);
  require_within("pipeline.replicas", spec.shape.replicas, 1, kNoLimit);
  require_within("pipeline.extra", spec.shape.extra, 0, kMostExtra);
  require_within("pipeline.step_slack", spec.shape.step_slack, 0, kMostMicrobatches);
  require_within("pipeline.microbatches", spec.shape.microbatches, 1, kMostMicrobatches);
  require_within("train.updates", spec.updates, 1, kNoLimit);
  require_within("pipeline.sync_updates", spec.sync_updates, 0, kMostUpdates);
  require_within("train.eval_every", spec.evaluate_every, 0, kMostUpdates);
  require_within("checkpoint.every_updates", spec.save_every, 0, kMostUpdates);
  TWOBW_ASSERT(spec.first_batch >= 0, "a run that begins with batch {}", spec.first_batch);
  if (spec.first_batch > 0) require_within("train.updates", spec.updates, spec.first_batch + 1, kNoLimit);
  if (spec.shape.defer_tied_update && !spec.shape.double_buffer_gradients) {
    fail_input(
        "pipeline.defer_tied_update is true and pipeline.double_buffer_gradients false; the first stage "
        "steps late with a second gradient buffer only");
  }
  if (spec.shape.replicas > 1 && spec.shape.replicas > kMostWorkers / spec.shape.stages) {
    fail_input(
        "pipeline.replicas is {}; with {} stages it must be at most {}, for a run has at most {} workers",
        spec.shape.replicas, spec.shape.stages, std::max(1, kMostWorkers / spec.shape.stages), kMostWorkers);
  }
  if (spec.updates > kNoLimit / spec.shape.microbatches) {
    fail_input("train.updates is {}; with {} microbatches in an update it must be at most {}", spec.updates,
               spec.shape.microbatches, kNoLimit / spec.shape.microbatches);
  }
  if (spec.shape.microbatches >= smallest_microbatches(spec)) return;
  if (spec.shape.predict) {
    fail_input(
        "pipeline.microbatches m = {} is too small for 2bw with prediction, d = {} stages and e = {} extra: "
        "the first stage would have no gradient to predict from; the smallest allowed m is d+e = {}, or "
        "with pipeline.predict: false d-1+e = {}",
        spec.shape.microbatches, spec.shape.stages, spec.shape.extra, smallest_microbatches(spec),
        std::max(1, smallest_microbatches(spec) - 1));
  } else {
    fail_input(
        "pipeline.microbatches m = {} is too small for 2bw with d = {} stages and e = {} extra: weights "
        "would be read before they exist; the smallest allowed m is d-1+e = {}",
        spec.shape.microbatches, spec.shape.stages, spec.shape.extra, smallest_microbatches(spec));
  }
}

Kind parse_kind(std::string_view text) {
  for (Kind kind : all_kinds()) {
    if (name(kind) == text) return kind;
  }
  fail_input("pipeline.schedule is '{}'; allowed: sequential, gpipe, flush, 2bw, stash", text);
}

Spec of_replica(Spec spec, int replica) {
  if (replica > 0 && !spec.shape.shards()) {
    spec.evaluate_every = 0;
    spec.saves = false;
  }
  return spec;
}

std::string worker_name(int replicas, int replica, int stage) {
  return replicas == 1 ? fmt::format("stage {}", stage) : fmt::format("replica {} stage {}", replica, stage);
}

// --- Which weights does a batch or microbatch use? ---

bool is_delayed(Kind kind) {
  return kind == Kind::TwoBW || kind == Kind::Stash;
}

std::int64_t synchronous_batches(const Spec& spec) {
  return is_delayed(spec.shape.schedule) ? spec.sync_updates : 0;
}

bool is_synchronous(const Spec& spec, std::int64_t batch) {
  return batch < synchronous_batches(spec);
}

bool resumes_drained(const Spec& spec, std::int64_t batch) {
  return spec.begins_drained && spec.first_batch > 0 && batch == spec.first_batch;
}

bool is_predicted(const Spec& spec, std::int64_t batch) {
  return spec.shape.predicts() && batch > 0 && !is_synchronous(spec, batch) &&
         !is_synchronous(spec, batch - 1) && !resumes_drained(spec, batch);
}

bool runs_on_prediction(const Spec& spec, std::int64_t microbatch) {
  const std::int64_t m = spec.shape.microbatches;
  return is_predicted(spec, microbatch / m) && microbatch % m < predicted_microbatches(spec);
}

int predicted_microbatches(const Spec& spec) {
  if (!spec.shape.predicts()) return 0;
  // W(j) is needed step_slack microbatches after stage 0, the last stage to do so, ends batch j-1.
  const std::int64_t in_flight = in_flight_bound(spec, 0), m = spec.shape.microbatches;
  const std::int64_t first_true = std::max<std::int64_t>(1, in_flight - 1 + spec.shape.step_slack);
  const bool has_room = first_true <= m - in_flight + 1 && first_true < m &&
                        spec.shape.double_buffer_gradients && spec.shape.workers() > 1;
  return static_cast<int>(has_room ? first_true : m);
}

bool switches_to_true_weights(const Spec& spec) {
  return spec.shape.predicts() && predicted_microbatches(spec) < spec.shape.microbatches;
}

std::int64_t version_of(const Spec& spec, int stage, std::int64_t microbatch) {
  const std::int64_t batch = microbatch / spec.shape.microbatches;
  const bool is_current = is_synchronous(spec, batch) || batch == 0 || is_synchronous(spec, batch - 1) ||
                          resumes_drained(spec, batch);
  switch (spec.shape.schedule) {
    case Kind::Sequential:
    case Kind::GPipe:
    case Kind::Flush:
      return batch;
    case Kind::TwoBW:
      return spec.shape.predict || is_current ? batch : batch - 1;
    case Kind::Stash: {
      if (is_synchronous(spec, batch)) return batch;
      // The updates that stage r has made at that point: it runs forward k right after the backward of k -
      // n_r, counted from the batch in which stash takes over.
      const std::int64_t start =
          std::max(synchronous_batches(spec), spec.begins_drained ? spec.first_batch : 0);
      const std::int64_t since = microbatch - start * spec.shape.microbatches;
      const std::int64_t finished = std::max<std::int64_t>(0, since - in_flight_bound(spec, stage) + 1);
      return start + finished / spec.shape.microbatches;
    }
  }
  return batch;
}

// --- Which gradients does a prediction use? ---

int gradients_at_predict(const Spec& spec, int stage) {
  return spec.shape.microbatches - in_flight_bound(spec, stage) + 1;
}

int predicted_from(const Spec& spec, int stage) {
  const int in = gradients_at_predict(spec, stage);
  return spec.shape.replicas > 1 ? std::max(1, in - kHidePartialSum) : in;
}

bool predicts_well(const Spec& spec) {
  return !spec.shape.predicts() || 2 * predicted_from(spec, 0) >= spec.shape.microbatches;
}

std::string describe_prediction(const Spec& spec) {
  std::string text;
  for (int stage = 0; stage < spec.shape.stages; ++stage)
    text += fmt::format("{}{}", stage > 0 ? ", " : "", predicted_from(spec, stage));
  text += fmt::format(" of {} microbatches of the batch before", spec.shape.microbatches);
  if (switches_to_true_weights(spec))
    text += fmt::format(", for the first {} of a batch; the others run on true weights",
                        predicted_microbatches(spec));
  return text;
}

// --- What does a stage hold? ---

int smallest_microbatches(const Spec& spec) {
  if (spec.shape.schedule != Kind::TwoBW) return 1;
  return std::max(1, spec.shape.stages + spec.shape.extra - (spec.shape.predict ? 0 : 1));
}

int extra_at(const Spec& spec, int stage) {
  const int after = spec.shape.stages - 1 - stage, boundaries = spec.shape.stages - 1;
  const std::int64_t share = std::int64_t{spec.shape.extra} * after + boundaries - 1;
  return after == 0 ? 0 : static_cast<int>(share / boundaries);
}

int in_flight_bound(const Spec& spec, int stage) {
  switch (spec.shape.schedule) {
    case Kind::Sequential:
      return 1;
    case Kind::GPipe:
      return spec.shape.microbatches;
    case Kind::Flush:
      return std::min(spec.shape.stages - stage + extra_at(spec, stage), spec.shape.microbatches);
    case Kind::TwoBW:
    case Kind::Stash:
      return spec.shape.stages - stage + extra_at(spec, stage);
  }
  return 0;
}

int versions_kept(const Spec& spec, int stage) {
  const int in_flight = in_flight_bound(spec, stage);
  switch (spec.shape.schedule) {
    case Kind::Sequential:
    case Kind::GPipe:
    case Kind::Flush:
      return 1;
    case Kind::TwoBW:
      // The last stage has no microbatch in flight when it predicts, nor when it steps late: it writes in
      // place. Without prediction it steps late only with a second gradient buffer.
      return in_flight == 1 && (spec.shape.predict || gradient_buffers(spec, stage) == 2) ? 1 : 2;
    case Kind::Stash:
      // Right after an update the n-1 microbatches still in flight began on ceil((n-1)/m) versions.
      return 1 + (in_flight - 1 + spec.shape.microbatches - 1) / spec.shape.microbatches;
  }
  return 0;
}

int gradient_buffers(const Spec& spec, int stage) {
  const bool alone = spec.shape.workers() == 1;  // waits for nobody
  return spec.shape.double_buffer_gradients && !alone && steps_late(spec, stage) ? 2 : 1;
}

bool has_second_gradient(const Spec& spec) {
  // The last stage ends a batch first: if any stage waits, it does.
  return gradient_buffers(spec, spec.shape.stages - 1) == 2;
}

std::int64_t generation_of(const Spec& spec, std::int64_t version, bool predicted) {
  if (!switches_to_true_weights(spec)) return version;
  // Every W(t), and a P(t) for every predicted batch: those after the first that is not synchronous.
  const std::int64_t predictions = version - std::min(version, synchronous_batches(spec));
  return version + predictions - (predicted ? 1 : 0);
}

std::vector<std::int64_t> older_generations(const Spec& spec, int stage, std::int64_t batch) {
  const std::int64_t first = batch * spec.shape.microbatches;
  if (runs_on_prediction(spec, first)) return {generation_of(spec, batch, /*predicted=*/true)};
  std::vector<std::int64_t> older;
  for (std::int64_t version = version_of(spec, stage, first); version < batch; ++version)
    older.push_back(generation_of(spec, version, /*predicted=*/false));
  return older;
}

std::int64_t first_generation(const Spec& spec) {
  const std::int64_t batch = spec.first_batch;
  if (batch == 0) return 0;
  return is_predicted(spec, batch) ? generation_of(spec, batch, /*predicted=*/true)
                                   : generation_of(spec, batch, /*predicted=*/false) - 1;
}

// --- When does a stage step? ---

int update_slack(const Spec& spec, int stage) {
  const int needed_at = spec.shape.predict ? predicted_microbatches(spec) : spec.shape.microbatches;
  return needed_at - in_flight_bound(spec, stage) + 1;
}

bool steps_late(const Spec& spec, int stage) {
  const bool waits = stage > 0 || spec.shape.replicas > 1 || first_waits_for_tie(spec);
  const bool predicts_first = spec.shape.predict && in_flight_bound(spec, stage) == 1;
  return spec.shape.schedule == Kind::TwoBW && (waits || predicts_first) && update_slack(spec, stage) > 0;
}

std::optional<SteadyState> steady_state(const Spec& spec, std::int64_t updates) {
  // A worker may step as late as the beginning of the batch after the next, and the last batches have none.
  const SteadyState state = {.first = synchronous_batches(spec) + 1, .last = updates - 3};
  return state.last > state.first ? std::optional(state) : std::nullopt;
}

}  // namespace twobw::schedule
