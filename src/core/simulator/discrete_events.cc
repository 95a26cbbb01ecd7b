// The event loop, and the instructions of a single stage; updates.cc has those of all stages together.
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

// The heap keeps its largest on top.
constexpr auto later = [](const auto& a, const auto& b) {
  return a.time != b.time ? a.time > b.time : a.who > b.who;
};

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
    // Messages in transfer, in either direction, are in flight at r.
    const int capacity = schedule::in_flight_bound(spec, r);
    join(activations_[r + 1], capacity, boundary.activation_bytes, boundary.forward_channel);
    join(gradients_[r], capacity, boundary.gradient_bytes, boundary.backward_channel);
    use(boundary.forward_channel);
    use(boundary.backward_channel);
  }
  // Stage 0 is ahead of the last by the batches it has in flight.
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

// As large as the messages that share the channel, but at most 256 pieces.
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

// --- The event loop ---

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
    text += fmt::format("{}stage {} waits forever at {}", text.empty() ? "" : "; ", r,
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

// Resumes the stage if it waits for this.
void DiscreteEvents::wake(int r, Op awaited, std::int64_t batch, double time) {
  Stage& stage = stages_[r];
  if (!stage.waiting || stage.next.op != awaited || stage.next.batch != batch) return;
  stage.waiting = false;
  queue(std::max(stage.clock, time), r);
}

// --- Instructions of one stage ---

// Returns false if the stage must wait for an event that has not happened yet; wake() then runs it again.
bool DiscreteEvents::carry_out(int r) {
  Stage& stage = stages_[r];
  const StageTimes& times = system_.stages[r];
  switch (stage.next.op) {
    case Op::BeginBatch:
      return begin_batch(r);
    case Op::RecvActivation:
      return receive(r, activations_[r], &StageUse::wait_activation);
    case Op::Forward:
      return work(stage, times.forward, &StageUse::forward);
    case Op::SendActivation:
      return send(r, activations_[r + 1], r + 1, Op::RecvActivation);
    case Op::RecvGradient:
      return receive(r, gradients_[r], &StageUse::wait_gradient);
    case Op::Backward:
      return work(stage, times.backward, &StageUse::backward);
    case Op::SendGradient:
      return send(r, gradients_[r - 1], r - 1, Op::RecvGradient);
    case Op::ReducePartial:
      return reduce_partial(r);
    case Op::ReduceGradients:
      return reduce(r);
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

bool DiscreteEvents::work(Stage& stage, double seconds, double StageUse::*use) {
  stage.clock += seconds;
  stage.use.*use += seconds;
  return true;
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
  return work(stage, system_.stages[r].working_overhead, &StageUse::handing_over);
}

bool DiscreteEvents::send(int r, Mailbox& mailbox, int to, Op awaited) {
  Stage& stage = stages_[r];
  const std::int64_t k = stage.next.microbatch;
  work(stage, system_.stages[r].working_overhead, &StageUse::handing_over);
  const double arrival = occupy(mailbox.channel, stage.clock, mailbox.bytes) + latency(mailbox.channel);
  arrivals_[mailbox.first + static_cast<std::size_t>(k & mailbox.mask)] = arrival;
  mailbox.sent = k + 1;
  wake(to, awaited, stage.next.batch, arrival);
  return true;
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

}  // namespace twobw::simulator
