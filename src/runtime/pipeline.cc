#include "runtime/pipeline.h"

#include <algorithm>
#include <map>
#include <thread>

#include "base/error.h"

namespace twobw::runtime {

Pipeline::Pipeline(const Config& config, const models::Model& model, const data::Source& training,
                   const data::Source& validation, PipelineSetup setup, Observer observer)
    : config_(config),
      model_(model),
      training_(training),
      validation_(validation),
      setup_(std::move(setup)),
      observer_(std::move(observer)),
      hub_(std::chrono::duration<double>(config.pipeline.timeout)),
      group_(hub_, setup_.spec.shape.stages, setup_.spec.shape.replicas),
      gate_(hub_),
      board_(setup_.spec.shape.stages, setup_.spec.shape.replicas) {
  connect();
}

// Everything that has tensors goes first, so that their memory can be given back.
Pipeline::~Pipeline() {
  workers_.clear();
  links_.clear();
  replicas_.clear();
  partials_.clear();
  if (setup_.devices.front().gpu) device::release_unused_gpu_memory();
}

bool Pipeline::are_apart(const WorkerSetup& one, const WorkerSetup& other) const {
  const auto &a = one.device.gpu, &b = other.device.gpu;
  return a && b && (a->gpu != b->gpu || setup_.simulate_peers);
}

transport::Link* Pipeline::add_link(bool apart) {
  return links_.emplace_back(apart ? transport::peer_link(hub_) : transport::local_link(hub_)).get();
}

void Pipeline::connect() {
  const int stages = setup_.spec.shape.stages;
  const bool on_gpus = setup_.devices.front().gpu.has_value();
  const auto make_sum = [&] {
    return on_gpus ? transport::sums_on_gpus(setup_.simulate_peers) : transport::sums_on_cores();
  };
  for (int stage = 0; stage < stages; ++stage) {
    replicas_.emplace_back(hub_, setup_.spec.shape.replicas, make_sum());
    partials_.emplace_back(hub_, setup_.spec.shape.replicas, make_sum());
    partials_ready_.emplace_back(hub_, 1, setup_.spec.shape.replicas);
  }
  std::vector<WorkerSetup> workers;
  for (int replica = 0; replica < setup_.spec.shape.replicas; ++replica) {
    for (int stage = 0; stage < stages; ++stage) {
      workers.push_back(prepare_worker(replica, stage));
      if (stage == 0) continue;
      WorkerSetup &before = workers[workers.size() - 2], &here = workers.back();
      const bool apart = are_apart(before, here);
      before.ports.activations_out = here.ports.activations_in = add_link(apart);
      here.ports.gradients_out = before.ports.gradients_in = add_link(apart);
      before.arithmetic.gradients_stay = !apart;
    }
  }
  join_ties(workers);
  for (WorkerSetup& worker : workers) {
    const Groups groups{.replicas = replicas_[worker.stage],
                        .partials = partials_[worker.stage],
                        .partials_ready = partials_ready_[worker.stage],
                        .stages = group_,
                        .gate = gate_};
    workers_.push_back(
        std::make_unique<Worker>(config_, setup_.spec, std::move(worker), groups, board_, observer_));
  }
}

WorkerSetup Pipeline::prepare_worker(int replica, int stage) const {
  const PipelineShape& shape = setup_.spec.shape;
  const bool predicts = shape.predicts();
  return {.replica = replica,
          .stage = stage,
          .arithmetic = {.replica = replica,
                         .first_layer = shape.first_layer(stage),
                         .last_layer = shape.last_layer(stage),
                         .recompute = shape.recomputes(stage),
                         .slots = schedule::in_flight_bound(setup_.spec, stage),
                         .slots_before = schedule::in_flight_bound(setup_.spec, std::max(stage - 1, 0)),
                         .versions = schedule::versions_kept(setup_.spec, stage),
                         .gradient_buffers = schedule::gradient_buffers(setup_.spec, stage),
                         .predicts = predicts,
                         .settles = schedule::settles(setup_.spec),
                         .sums_partly = predicts && shape.replicas > 1,
                         .predict_ratio = predicts ? 1.0 * shape.microbatches /
                                                         schedule::predicted_from(setup_.spec, stage)
                                                   : 1,
                         .saves = replica == 0 && (setup_.spec.save_every > 0 || setup_.spec.save_last),
                         .position = setup_.restored ? setup_.restored->position() : DataPosition()},
          .device = setup_.devices[replica * setup_.spec.shape.stages + stage],
          .checksums = setup_.checksums,
          .record_events = setup_.record_events,
          .restored = setup_.restored};
}

// For each tie that spans stages, by the name of the weights: one worker of the copy's stage sends to one of
// the primary's, whichever speak for their replicas; from there the answer goes to every copy.
void Pipeline::join_ties(std::vector<WorkerSetup>& workers) {
  struct End {
    WorkerSetup* worker;
    int tie;  // in its layout
  };
  std::map<std::string, std::pair<std::vector<End>, std::vector<End>>> by_name;  // primaries and copies
  for (WorkerSetup& worker : workers) {
    const weights::Layout layout(model_.layers, worker.arithmetic.first_layer, worker.arithmetic.last_layer);
    for (int i = 0; i < static_cast<int>(layout.ties().size()); ++i) {
      const weights::Tie& tie = layout.ties()[i];
      if (tie.primary < 0) by_name[layout.parameters()[tie.copy].spec.tied_to].second.push_back({&worker, i});
      if (tie.copy < 0) by_name[layout.parameters()[tie.primary].spec.name].first.push_back({&worker, i});
    }
  }
  for (const auto& [name, ends] : by_name) {
    const auto& [primaries, copies] = ends;
    bool apart = false;
    for (const End& primary : primaries) {
      for (const End& copy : copies) apart = apart || are_apart(*primary.worker, *copy.worker);
    }
    transport::Link* to_primaries = add_link(apart);
    std::vector<transport::Link*> to_copies;
    for (const End& copy : copies) {
      to_copies.push_back(add_link(apart));
      copy.worker->ports.ties.push_back({.tie = copy.tie, .in = to_copies.back(), .out = {to_primaries}});
    }
    for (const End& primary : primaries)
      primary.worker->ports.ties.push_back({.tie = primary.tie, .in = to_primaries, .out = to_copies});
  }
}

void Pipeline::run_worker(int worker) {
  const int stages = setup_.spec.shape.stages;
  const auto fail = [&](std::string message, bool stuck) {
    std::lock_guard lock(failure_mutex_);
    if (failures_.empty()) stuck_report_ = board_.report();
    const std::string who =
        schedule::worker_name(setup_.spec.shape.replicas, worker / stages, worker % stages);
    failures_.push_back({fmt::format("{}: {}", who, message), stuck});
    hub_.cancel();
    failed_.notify_all();
  };
  try {
    workers_[worker]->run(model_, training_, validation_, start_);
  } catch (const transport::Cancelled&) {
    board_.finish(worker, "cancelled");
  } catch (const transport::WaitTimeout& timeout) {
    fail(timeout.what(), true);
  } catch (const std::bad_alloc&) {
    fail("out of memory", false);
  } catch (const std::exception& error) {
    fail(error.what(), false);
  }
}

void Pipeline::run() {
  start_ = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int worker = 0; worker < setup_.spec.shape.workers(); ++worker)
    threads.emplace_back([this, worker] { run_worker(worker); });
  for (std::thread& thread : threads) thread.join();
  if (failures_.empty()) return;
  const Failure& first = failures_.front();
  if (!first.stuck) throw RunError(first.message);
  fail_run("the pipeline is stuck; {}; the workers were at:\n{}", first.message, stuck_report_);
}

void Pipeline::await_failure() {
  std::unique_lock lock(failure_mutex_);
  failed_.wait(lock, [this] { return !failures_.empty(); });
}

void Pipeline::hold_from(std::int64_t batch) {
  gate_.hold_from(batch);
}

void Pipeline::permit(std::int64_t batch, bool synchronous) {
  gate_.permit(batch, synchronous);
}

void Pipeline::request_stop() {
  gate_.request_stop();
}

void Pipeline::request_save(bool stop) {
  gate_.request_save(stop);
}

const Stage& Pipeline::stage(int stage, int replica) const {
  return workers_[replica * setup_.spec.shape.stages + stage]->stage();
}

std::vector<telemetry::Event> Pipeline::events() const {
  std::vector<telemetry::Event> all;
  for (const auto& worker : workers_) all.insert(all.end(), worker->events().begin(), worker->events().end());
  return all;
}

}  // namespace twobw::runtime
