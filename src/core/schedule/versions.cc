// Which weights a microbatch runs on and how many of them there are: W(t), P(t), and the buffers for them and
// for gradients.
#include <algorithm>

#include "core/schedule/spec.h"

namespace twobw::schedule {

int versions_kept(const Spec& spec, int stage) {
  switch (spec.shape.schedule) {
    case Kind::Sequential:
    case Kind::GPipe:
    case Kind::Flush:
      return 1;
    case Kind::TwoBW:
      // P(j) is written where batch j begins, when the last stage has none in flight, and W(j) where it steps
      // late, likewise.
      if (spec.shape.predict) return in_flight_bound(spec, stage) == 1 ? 1 : 2;
      // With a second gradient buffer the last stage has none in flight when it steps, late as it does: it
      // updates in place, which pays for that buffer.
      return gradient_buffers(spec, stage) == 2 && in_flight_bound(spec, stage) == 1 ? 1 : 2;
    case Kind::Stash: {
      // Right after an update the n-1 microbatches still in flight began on ceil((n-1)/m) versions.
      const int others = in_flight_bound(spec, stage) - 1;
      return 1 + (others + spec.shape.microbatches - 1) / spec.shape.microbatches;
    }
  }
  return 0;
}

int gradient_buffers(const Spec& spec, int stage) {
  const bool alone = spec.shape.stages == 1 && spec.shape.replicas == 1;  // nothing to wait for
  return spec.shape.double_buffer_gradients && !alone && steps_late(spec, stage) ? 2 : 1;
}

bool has_second_gradient(const Spec& spec) {
  // The last stage ends a batch first: if any waits, it does.
  return gradient_buffers(spec, spec.shape.stages - 1) == 2;
}

std::int64_t updates_before(const Spec& spec, int stage, std::int64_t microbatch) {
  const std::int64_t batch = microbatch / spec.shape.microbatches;
  return runs_predicted(spec, microbatch) ? batch - 1 : version_of(spec, stage, microbatch);
}

std::vector<std::int64_t> older_generations(const Spec& spec, int stage, std::int64_t batch) {
  const std::int64_t first = batch * spec.shape.microbatches;
  if (runs_predicted(spec, first)) return {generation_of(spec, batch, /*predicted=*/true)};
  std::vector<std::int64_t> older;
  // Those before sync_updates are never read later, and there are none before W(0).
  for (std::int64_t version = version_of(spec, stage, first); version < batch; ++version)
    older.push_back(generation_of(spec, version, /*predicted=*/false));
  return older;
}

std::int64_t first_generation(const Spec& spec) {
  const std::int64_t batch = spec.first_batch;
  if (batch == 0) return 0;
  return predicts(spec, batch) ? generation_of(spec, batch, /*predicted=*/true)
                               : generation_of(spec, batch, /*predicted=*/false) - 1;
}

std::int64_t generation_of(const Spec& spec, std::int64_t version, bool predicted) {
  if (!switches_to_true_weights(spec)) return version;
  // Every W(t), and a P(t) for every predicted batch: those after the first that is not synchronous.
  const std::int64_t predictions = version - std::min(version, synchronous_batches(spec));
  return version + predictions - (predicted ? 1 : 0);
}

std::int64_t version_of(const Spec& spec, int stage, std::int64_t microbatch) {
  const std::int64_t batch = microbatch / spec.shape.microbatches;
  // Under stash, where it takes over.
  const std::int64_t synchronous =
      std::max(synchronous_batches(spec), spec.begins_drained ? spec.first_batch : 0);
  if (is_synchronous(spec, batch)) return batch;
  switch (spec.shape.schedule) {
    case Kind::Sequential:
    case Kind::GPipe:
    case Kind::Flush:
      return batch;
    case Kind::TwoBW:
      if (spec.shape.predict || batch == 0 || is_synchronous(spec, batch - 1) || resumes_drained(spec, batch))
        return batch;
      return batch - 1;
    case Kind::Stash: {
      // As many updates as stage r has made when its turn comes: it forwards k right after the
      // backward of k-n, n being its bound in flight, counted from where the schedule takes over.
      const std::int64_t since = microbatch - synchronous * spec.shape.microbatches;
      const std::int64_t finished = std::max<std::int64_t>(0, since - in_flight_bound(spec, stage) + 1);
      return synchronous + finished / spec.shape.microbatches;
    }
  }
  return batch;
}

}  // namespace twobw::schedule
