// One event loop: whose turn it is, what a stage then does, what all stages do together.
#include "core/simulator/discrete_events.h"

#include <algorithm>
#include <bit>

#include "core/base/error.h"

namespace twobw::simulator {

using schedule::Op;
using schedule::Spec;

namespace {

std::size_t ring_size(std::int64_t least) {
  return std::bit_ceil(static_cast<std::size_t>(least));
}

}  // namespace

DiscreteEvents::DiscreteEvents(const Spec& spec, const System& system, Recording recording)
    : spec_(spec),
      system_(system),
      recording_(recording),
      channel_free_(system.channels.size(), 0.0),
      users_(system.channels.size(), 0) {
  const auto use = [this](int channel) {
    if (channel >= 0) ++users_[channel];
  };
  activations_.resize(spec.shape.stages);
  gradients_.resize(spec.shape.stages);
  const auto join = [this](Mailbox& mailbox, int capacity, double bytes, int channel) {
    const std::size_t size = ring_size(capacity);
    mailbox = {.first = arrivals_.size(),
               .mask = static_cast<std::int64_t>(size) - 1,
               .bytes = bytes,
               .channel = channel};
    arrivals_.resize(arrivals_.size() + size);
  };
  for (int r = 0; r + 1 < spec.shape.stages; ++r) {
    const Boundary& boundary = system.boundaries[r];
    // What is under way in either direction is in flight at r.
    const int capacity = schedule::in_flight_bound(spec, r);
    join(activations_[r + 1], capacity, boundary.activation_bytes, boundary.forward_channel);
    join(gradients_[r], capacity, boundary.gradient_bytes, boundary.backward_channel);
    use(boundary.forward_channel);
    use(boundary.backward_channel);
  }
  // Stage 0 is ahead of the last by what it holds in flight, counted in batches.
  begun_.resize(ring_size(schedule::in_flight_bound(spec, 0) / spec.shape.microbatches + 3));

  stages_.reserve(spec.shape.stages);
  for (int r = 0; r < spec.shape.stages; ++r) {
    stages_.emplace_back(spec, r);
    fetch(stages_.back());
  }
  for (const StageTimes& times : system.stages) {
    flows_.push_back({.channel = times.reduce_channel, .bytes = times.reduce_bytes, .after = times.reduce});
  }
  if (tied()) {
    flows_.push_back({.channel = system.tie_forward_channel, .bytes = system.tie_bytes});
    flows_.push_back({.channel = system.tie_backward_channel, .bytes = system.tie_bytes});
  }
  for (Flow& flow : flows_) {
    if (flow.bytes > 0) use(flow.channel);
  }
  for (Flow& flow : flows_) flow.piece = piece_of(flow.channel, flow.bytes);
  in_order_ = std::any_of(users_.begin(), users_.end(), [](int users) { return users > 1; });
  for (int r = 0; r < spec.shape.stages; ++r) queue(0, r);
}

// As large as what it shares the channel with, and never so small that there are very many.
double DiscreteEvents::piece_of(int channel, double bytes) const {
  if (!is_shared(channel)) return bytes;
  double largest = 0;
  for (const Boundary& boundary : system_.boundaries) {
    if (boundary.forward_channel == channel) largest = std::max(largest, boundary.activation_bytes);
    if (boundary.backward_channel == channel) largest = std::max(largest, boundary.gradient_bytes);
  }
  return std::max(largest, bytes / (largest > 0 ? 256 : 16));
}

void DiscreteEvents::run_batch() {
  const std::int64_t target = batches_ended_ + 1;
  while (batches_ended_ < target) take_turn();
}

void DiscreteEvents::run() {
  const auto all_ended = [this] {
    return std::all_of(stages_.begin(), stages_.end(), [](const Stage& stage) { return stage.ended; });
  };
  while (!turns_.empty() || !all_ended()) take_turn();
}

double DiscreteEvents::time() const {
  double latest = 0;
  for (const Stage& stage : stages_) latest = std::max(latest, stage.clock);
  return latest;
}

const BatchEnd& DiscreteEvents::batch_end(int stage, std::int64_t batch) const {
  return stages_[stage].batch_ends[static_cast<std::size_t>(batch)];
}

std::vector<schedule::Event> DiscreteEvents::take_events() {
  std::vector<schedule::Event> all;
  for (Stage& stage : stages_) {
    all.insert(all.end(), stage.events.begin(), stage.events.end());
    stage.events.clear();
  }
  return all;
}

// --- whose turn it is -------------------------------------------------------------------------

namespace {

// The heap keeps its largest on top.
constexpr auto later = [](const auto& a, const auto& b) {
  return a.time != b.time ? a.time > b.time : a.who > b.who;
};

}  // namespace

void DiscreteEvents::queue(double time, int who) {
  turns_.push_back({time, who});
  if (in_order_) std::push_heap(turns_.begin(), turns_.end(), later);
}

void DiscreteEvents::take_turn() {
  TWOBW_ASSERT(!turns_.empty(), "deadlock: {}", describe_waiting());
  if (in_order_) std::pop_heap(turns_.begin(), turns_.end(), later);
  const Turn turn = turns_.back();
  turns_.pop_back();
  if (turn.who < stages()) {
    advance(turn.who);
  } else {
    advance_flow(turn.who - stages(), turn.time);
  }
}

std::string DiscreteEvents::describe_waiting() const {
  std::string text;
  for (int r = 0; r < stages(); ++r) {
    if (stages_[r].ended) continue;
    text += fmt::format("{}stage {} waits for ever at {}", text.empty() ? "" : "; ", r,
                        schedule::describe(stages_[r].next));
  }
  return text;
}

void DiscreteEvents::fetch(Stage& stage) {
  if (const auto instruction = stage.stream.next()) {
    stage.next = *instruction;
  } else {
    stage.ended = true;
  }
}

void DiscreteEvents::advance(int r) {
  Stage& stage = stages_[r];
  stage.waiting = false;
  while (!stage.ended) {
    if (in_order_ && must_let_others_pass(r)) return queue(stage.clock, r);
    const double begin = stage.clock;
    stage.waiting = !carry_out(r);
    if (stage.waiting) return;
    if (recording_.events) stage.events.push_back({r, stage.next, begin, stage.clock});
    const bool ended_batch = stage.next.op == Op::ReduceGradients;
    fetch(stage);
    if (ended_batch) return queue(stage.clock, r);  // run_batch() may stop here
  }
}

bool DiscreteEvents::must_let_others_pass(int r) const {
  const Stage& stage = stages_[r];
  const bool asks = (stage.next.op == Op::SendActivation && is_shared(activations_[r + 1].channel)) ||
                    (stage.next.op == Op::SendGradient && is_shared(gradients_[r - 1].channel));
  return asks && !turns_.empty() && later(Turn{stage.clock, r}, turns_.front());
}

// Whether the stage waited for it; if so it goes on where it stands.
void DiscreteEvents::wake(int r, Op awaited, std::int64_t batch, double time) {
  Stage& stage = stages_[r];
  if (!stage.waiting || stage.next.op != awaited || stage.next.batch != batch) return;
  stage.waiting = false;
  queue(std::max(stage.clock, time), r);
}

// --- what a stage does ------------------------------------------------------------------------

// False where it has to wait for something that has not happened yet: it is asked again then.
bool DiscreteEvents::carry_out(int r) {
  Stage& stage = stages_[r];
  const StageTimes& times = system_.stages[r];
  switch (stage.next.op) {
    case Op::BeginBatch:
      return begin_batch(r);
    case Op::RecvActivation:
      return receive(r, activations_[r], &StageUse::wait_activation);
    case Op::Forward:
      work(stage, times.forward, &StageUse::forward);
      return true;
    case Op::SendActivation:
      send(r, activations_[r + 1], r + 1, Op::RecvActivation);
      return true;
    case Op::RecvGradient:
      return receive(r, gradients_[r], &StageUse::wait_gradient);
    case Op::Backward:
      work(stage, times.backward, &StageUse::backward);
      return true;
    case Op::SendGradient:
      send(r, gradients_[r - 1], r - 1, Op::RecvGradient);
      return true;
    case Op::ReducePartial:
      reduce_partly(r);
      return true;
    case Op::ReduceGradients:
      reduce(r);
      return true;
    case Op::Step:
      return step(r);
    case Op::Predict:
      return predict(r);
    case Op::SaveCompute:
    case Op::Save:
    case Op::Restore:
      return true;  // copies in memory
    case Op::Evaluate:
      return evaluate(r);
  }
  return true;
}

void DiscreteEvents::work(Stage& stage, double seconds, double StageUse::*use) {
  stage.clock += seconds;
  stage.use.*use += seconds;
}

void DiscreteEvents::wait_until(Stage& stage, double time, double StageUse::*wait) {
  if (time <= stage.clock) return;
  stage.use.*wait += time - stage.clock;
  stage.clock = time;
}

bool DiscreteEvents::begin_batch(int r) {
  Stage& stage = stages_[r];
  const std::int64_t batch = stage.next.batch;
  double& begun = begun_[static_cast<std::size_t>(batch) & (begun_.size() - 1)];
  if (r > 0) {
    if (batch >= batches_begun_) return false;
    wait_until(stage, begun, &StageUse::wait_other);
    return true;
  }
  begun = stage.clock;
  ++batches_begun_;
  for (int other = 1; other < stages(); ++other) wake(other, Op::BeginBatch, batch, stage.clock);
  return true;
}

bool DiscreteEvents::receive(int r, const Mailbox& mailbox, double StageUse::*wait) {
  Stage& stage = stages_[r];
  const std::int64_t k = stage.next.microbatch;
  if (k >= mailbox.sent) return false;
  wait_until(stage, arrivals_[mailbox.first + static_cast<std::size_t>(k & mailbox.mask)], wait);
  work(stage, system_.stages[r].working_overhead, &StageUse::handing_over);
  return true;
}

void DiscreteEvents::send(int r, Mailbox& mailbox, int to, Op awaited) {
  Stage& stage = stages_[r];
  const std::int64_t k = stage.next.microbatch;
  work(stage, system_.stages[r].working_overhead, &StageUse::handing_over);
  const double arrival = occupy(mailbox.channel, stage.clock, mailbox.bytes) + latency(mailbox.channel);
  arrivals_[mailbox.first + static_cast<std::size_t>(k & mailbox.mask)] = arrival;
  mailbox.sent = k + 1;
  wake(to, awaited, stage.next.batch, arrival);
}

double DiscreteEvents::occupy(int channel, double time, double bytes) {
  if (channel < 0) return time;
  double& free = channel_free_[channel];
  free = std::max(free, time) + bytes / system_.channels[channel].bandwidth;
  return free;
}

bool DiscreteEvents::evaluate(int r) {
  Stage& stage = stages_[r];
  const std::int64_t index = stage.evaluations;
  const auto slot = static_cast<std::size_t>(index % kUpdates);
  if (r > 0) {
    if (stages_[r - 1].evaluations <= index) return false;
    wait_until(stage, stages_[r - 1].evaluation_end[slot], &StageUse::wait_other);
  }
  stage.clock += system_.stages[r].evaluate;
  stage.evaluation_end[slot] = stage.clock;
  ++stage.evaluations;
  if (r + 1 < stages()) wake(r + 1, Op::Evaluate, stage.next.batch, stage.clock);
  return true;
}

// --- what all stages do together --------------------------------------------------------------

// The all-reduce runs beside the compute. The ends of a tie then exchange their sums: the primary answers for
// the norm of the whole, so its contribution takes the copy's part too.
void DiscreteEvents::reduce(int r) {
  Stage& stage = stages_[r];
  if (recording_.batch_ends) stage.batch_ends.push_back({stage.clock, stage.use});
  enter(r, {.batch = stage.next.batch, .ready = stage.clock});
  if (r == 0) ++batches_ended_;
}

// The replicas are alike: when one begins its sum, all do.
void DiscreteEvents::reduce_partly(int r) {
  Stage& stage = stages_[r];
  stage.sums = true;
  enter(r, {.batch = stage.next.batch, .partial = true, .ready = stage.clock});
}

bool DiscreteEvents::predict(int r) {
  Stage& stage = stages_[r];
  if (stage.sums) return false;
  wait_until(stage, stage.partly, &StageUse::wait_reduce);
  work(stage, system_.stages[r].predict, &StageUse::step);
  return true;
}

void DiscreteEvents::summed(int r, const Parcel& parcel, double time) {
  Stage& stage = stages_[r];
  if (parcel.partial) {
    stage.sums = false;
    stage.partly = time;
    wake(r, Op::Predict, stage.next.batch, time);
    return;
  }
  if (tied() && r == 0) enter(tie_flow(0), {.batch = parcel.batch, .ready = time});
  if (tied() && r + 1 == stages()) enter(tie_flow(1), {.batch = parcel.batch, .ready = time});
  if (!takes_tie_in_step(r)) contribute(parcel.batch, time);
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
  work(stage, system_.stages[r].step, &StageUse::step);
  return true;
}

// The copy's part has come to the primary, or the primary's to the copy.
void DiscreteEvents::exchanged(int end, std::int64_t batch, double time) {
  if (end == 1 && !takes_tie_in_step(0)) return contribute(batch, time);
  Update& update = update_of(batch);
  (end == 1 ? update.at_primary : update.at_copy) = time;
  wake(end == 1 ? 0 : stages() - 1, Op::Step, batch, time);
}

void DiscreteEvents::enter(int index, const Parcel& parcel) {
  Flow& flow = flows_[index];
  flow.parcels.push_back(parcel);
  if (flow.parcels.size() > 1) return;  // its turn comes
  flow.left = flow.bytes;
  queue(std::max(flow.free, parcel.ready), stages() + index);
}

void DiscreteEvents::advance_flow(int index, double time) {
  Flow& flow = flows_[index];
  const double piece = std::min(flow.left, flow.piece);
  const double passed = piece > 0 ? occupy(flow.channel, time, piece) : time;
  flow.left -= piece;
  if (flow.left > 0) return queue(passed, stages() + index);

  const Parcel parcel = flow.parcels.front();
  flow.parcels.pop_front();
  flow.free = passed + flow.after;
  if (!flow.parcels.empty()) {
    flow.left = flow.bytes;
    queue(std::max(flow.free, flow.parcels.front().ready), stages() + index);
  }
  if (index < stages()) {
    summed(index, parcel, flow.free);
  } else {
    exchanged(index - stages(), parcel.batch, passed + latency(flow.channel));
  }
}

}  // namespace twobw::simulator
