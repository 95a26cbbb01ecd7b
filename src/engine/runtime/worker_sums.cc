// Collectives of a worker's gradients: sums over replicas, sums of ties, and the norm.
#include <algorithm>

#include "engine/device/clock.h"
#include "engine/runtime/worker.h"

namespace twobw::runtime {

using transport::Tag;

// Starts the reduction across replicas and stages as soon as this worker's gradient is complete.
void Worker::reduce_gradients(std::int64_t batch) {
  transport::Contribution own{.gradient = stage_->gradient(batch),
                              .ready = device::record_stream_event(),
                              .norms = [this, batch] { return stage_->squared_norms(batch); }};
  if (const auto sum = groups_.replicas.contribute(batch, setup_.replica, std::move(own)))
    help_sum(batch, sum);
}

// One replica continues after the sum for all of them; its contribution to the norm signals that their
// gradients can be applied.
void Worker::help_sum(std::int64_t batch, const std::shared_ptr<transport::ReplicaSum>& sum) {
  if (!sum->advance()) return;
  sum->then(setup_.replica, [this, batch, sum] {
    send_ties(batch);
    if (takes_ties_when_it_steps()) return;
    take_ties(batch);
    for (const auto& [offset, count] : stage_->tied_ranges()) sum->share(setup_.replica, offset, count);
    contribute_norms(batch, *sum);
  });
}

// Norms of the stage or, with a sharded state, of each local replica's shard. This thread contributes for all
// of them, so that none waits for the others.
void Worker::contribute_norms(std::int64_t batch, const transport::ReplicaSum& sum) {
  const int owners = spec_.shape.owners();
  if (owners == 1) return groups_.stages.contribute(batch, setup_.stage, stage_->squared_norms(batch));
  sum.for_each([&](int owner, const transport::Contribution& own) {
    groups_.stages.contribute(batch, setup_.stage * owners + owner, own.norms());
  });
}

// Starts the same for the partial gradients; only predictions depend on this sum.
void Worker::reduce_partial(std::int64_t batch) {
  transport::Contribution own{.gradient = stage_->copy_partial(batch),
                              .ready = device::record_stream_event()};
  if (const auto sum = groups_.partials.contribute(batch, setup_.replica, std::move(own)))
    help_partial(batch, sum);
}

void Worker::help_partial(std::int64_t batch, const std::shared_ptr<transport::ReplicaSum>& sum) {
  if (!sum->advance()) return;
  sum->then(setup_.replica, [this, batch] {
    groups_.partials_ready.contribute(batch, 0, {.ready = device::record_stream_event()});
  });
}

void Worker::await_partial(std::int64_t batch) {
  help_partial(batch, timed_wait([&] { return groups_.partials.await(batch); }));
  timed_wait([&] {
    const std::vector<transport::Norms> made = groups_.partials_ready.collect(batch);
    device::await_stream_event(made.front().ready);
    return true;
  });
}

void Worker::send_ties(std::int64_t batch) {
  stage_->sum_local_ties(batch);
  for (const TiePorts& ports : ports_.ties) {
    const at::Tensor part = stage_->tied_gradient(batch, ports.tie);
    for (transport::Link* link : ports.out) link->send({Tag::Kind::TiedGradient, batch}, {part});
  }
}

// The primary of a tie contributes the norm of the sum, so it first receives the copy's gradient. That comes
// from a later stage, which finishes the batch earlier under every schedule. Copies receive the primary's
// when they step.
void Worker::take_ties(std::int64_t batch) {
  for (const TiePorts& ports : ports_.ties) {
    if (stage_->holds_primary(ports.tie)) take_tied(batch, ports);
  }
}

// True for the first stage without replicas: it runs every microbatch before the others and steps before
// them, so that they have its norm in time.
bool Worker::takes_ties_when_it_steps() const {
  return setup_.stage == 0 && spec_.shape.replicas == 1 &&
         std::ranges::any_of(ports_.ties,
                             [this](const TiePorts& ports) { return stage_->holds_primary(ports.tie); });
}

void Worker::take_tied(std::int64_t batch, const TiePorts& ports) {
  const Tensors other = timed_wait([&] { return ports.in->receive({Tag::Kind::TiedGradient, batch}); });
  stage_->add_tied_gradient(batch, ports.tie, other.front());
}

// Norms come first: once all have arrived, no other worker uses this gradient.
std::vector<transport::Norms> Worker::collect_norms(std::int64_t batch) {
  const auto sum = timed_wait([&] { return groups_.replicas.await(batch); });
  help_sum(batch, sum);
  if (takes_ties_when_it_steps()) {
    take_ties(batch);
    contribute_norms(batch, *sum);
  }
  std::vector<transport::Norms> norms = timed_wait([&] {
    std::vector<transport::Norms> all = groups_.stages.collect(batch);
    for (const transport::Norms& of_stage : all) device::await_stream_event(of_stage.ready);
    return all;
  });
  for (const TiePorts& ports : ports_.ties) {
    if (!stage_->holds_primary(ports.tie)) take_tied(batch, ports);
  }
  return norms;
}

}  // namespace twobw::runtime
