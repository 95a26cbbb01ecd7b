// Instructions of all stages together: all-reduces, ends of a tied gradient, norms.
#include <algorithm>

#include "core/base/error.h"
#include "core/simulator/discrete_events.h"

namespace twobw::simulator {

using schedule::Op;

// The all-reduce runs beside the compute. Then the ends of a tie exchange their sums. The primary contributes
// the norm of the whole gradient, so its contribution includes the copy's part.
bool DiscreteEvents::reduce(int r) {
  Stage& stage = stages_[r];
  if (recording_.batch_ends) stage.batch_ends.push_back({stage.clock, stage.use});
  enter(r, {.batch = stage.next.batch, .ready = stage.clock});
  if (r == 0) ++batches_ended_;
  return true;
}

// All replicas take the same times: when one begins its sum, all do.
bool DiscreteEvents::reduce_partial(int r) {
  Stage& stage = stages_[r];
  stage.sums_partial = true;
  enter(r, {.batch = stage.next.batch, .partial = true, .ready = stage.clock});
  return true;
}

bool DiscreteEvents::predict(int r) {
  Stage& stage = stages_[r];
  if (stage.sums_partial) return false;
  wait_until(stage, stage.partial_end, &StageUse::wait_reduce);
  return work(stage, system_.stages[r].predict, &StageUse::step);
}

void DiscreteEvents::summed(int r, const Sum& sum, double time) {
  Stage& stage = stages_[r];
  if (sum.partial) {
    stage.sums_partial = false;
    stage.partial_end = time;
    wake(r, Op::Predict, stage.next.batch, time);
    return;
  }
  if (tied() && r == 0) enter(tie_flow(0), {.batch = sum.batch, .ready = time});
  if (tied() && r + 1 == stages()) enter(tie_flow(1), {.batch = sum.batch, .ready = time});
  if (!takes_tie_in_step(r)) contribute(sum.batch, time);
}

DiscreteEvents::Update& DiscreteEvents::update_of(std::int64_t batch) {
  Update& update = updates_[static_cast<std::size_t>(batch % kUpdates)];
  if (update.batch != batch) {
    TWOBW_ASSERT(update.missing == 0 && batch > update.batch, "update {} is asked for while {} lacks {}",
                 batch, update.batch, update.missing);
    const bool in_reduce = tied() && !takes_tie_in_step(0);  // as a contribution of its own
    update = {.batch = batch,
              .missing = stages() + (in_reduce ? 1 : 0),
              .at_copy = tied() ? kNever : 0,
              .at_primary = takes_tie_in_step(0) ? kNever : 0,
              .primary_contributed = !takes_tie_in_step(0)};
  }
  return update;
}

void DiscreteEvents::contribute(std::int64_t batch, double time) {
  Update& update = update_of(batch);
  update.complete = std::max(update.complete, time);
  if (--update.missing > 0) return;
  for (int r = 0; r < stages(); ++r) wake(r, Op::Step, batch, update.complete);
}

bool DiscreteEvents::step(int r) {
  Stage& stage = stages_[r];
  Update& update = update_of(stage.next.batch);
  if (r == 0 && !update.primary_contributed) {
    if (update.at_primary == kNever) return false;
    wait_until(stage, update.at_primary, &StageUse::wait_reduce);
    update.primary_contributed = true;
    contribute(stage.next.batch, stage.clock);
  }
  const bool is_copy = r > 0 && r + 1 == stages();
  if (update.missing > 0 || (is_copy && update.at_copy == kNever)) return false;
  const double ready = update.complete + system_.agree;
  wait_until(stage, is_copy ? std::max(ready, update.at_copy) : ready, &StageUse::wait_reduce);
  return work(stage, system_.stages[r].step, &StageUse::step);
}

// The copy's part has reached the primary (end 1), or the primary's part the copy (end 0).
void DiscreteEvents::exchanged(int end, std::int64_t batch, double time) {
  if (end == 1 && !takes_tie_in_step(0)) return contribute(batch, time);
  Update& update = update_of(batch);
  (end == 1 ? update.at_primary : update.at_copy) = time;
  wake(end == 1 ? 0 : stages() - 1, Op::Step, batch, time);
}

void DiscreteEvents::enter(int index, const Sum& sum) {
  Flow& flow = flows_[index];
  flow.sums.push_back(sum);
  if (flow.sums.size() > 1) return;  // waits for those before it
  flow.left = flow.bytes;
  queue(std::max(flow.free, sum.ready), stages() + index);
}

void DiscreteEvents::advance_flow(int index, double time) {
  Flow& flow = flows_[index];
  const double piece = std::min(flow.left, flow.piece);
  const double passed = piece > 0 ? occupy(flow.channel, time, piece) : time;
  flow.left -= piece;
  if (flow.left > 0) return queue(passed, stages() + index);

  const Sum sum = flow.sums.front();
  flow.sums.pop_front();
  flow.free = passed + flow.after;
  if (!flow.sums.empty()) {
    flow.left = flow.bytes;
    queue(std::max(flow.free, flow.sums.front().ready), stages() + index);
  }
  if (index < stages()) {
    summed(index, sum, flow.free);
  } else {
    exchanged(index - stages(), sum.batch, passed + latency(flow.channel));
  }
}

}  // namespace twobw::simulator
