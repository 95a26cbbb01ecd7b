// A worker executes the instruction list of one stage of one replica: one thread, one switch over Op.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "core/base/config.h"
#include "core/schedule/schedule_rule.h"
#include "core/telemetry/board.h"
#include "core/telemetry/event.h"
#include "engine/device/device.h"
#include "engine/device/memory.h"
#include "engine/runtime/setup.h"
#include "engine/runtime/stage.h"
#include "engine/transport/gather.h"
#include "engine/transport/group.h"
#include "engine/transport/link.h"
#include "engine/transport/replica_sum.h"

namespace twobw::runtime {

// Links of a tie that spans stages: from its other end, and to all ends that wait for this one. One worker of
// a stage represents its replicas.
struct TiePorts {
  int tie = 0;  // in the layout of the stage
  transport::Link* in = nullptr;
  std::vector<transport::Link*> out;
};

// The links of a stage; null without a neighbor.
struct Ports {
  transport::Link* activations_in = nullptr;
  transport::Link* activations_out = nullptr;
  transport::Link* gradients_in = nullptr;
  transport::Link* gradients_out = nullptr;
  std::vector<TiePorts> ties;
};

// Callbacks for updates, evaluations and snapshots, on the worker's thread.
struct Observer {
  std::function<void(telemetry::StageUpdate)> on_update;
  std::function<void(telemetry::Evaluation)> on_evaluation;
  // From replica 0, or from all replicas if they shard the optimizer's state.
  std::function<void(Snapshot)> on_snapshot = {};
};

// Collectives of a worker.
struct Groups {
  transport::ReplicaGroup& replicas;        // sums gradients over its stage's replicas
  transport::ReplicaGroup& partials;        // sums partial gradients, to predict from
  transport::NormExchange& partials_ready;  // signals that this sum is complete
  transport::NormExchange& stages;          // norms of all stages
  transport::Gather* gather = nullptr;      // all-gather of weights, with a sharded optimizer state
  transport::BatchGate& gate;
};

class Worker {
 public:
  // `run` and `options` outlive it.
  Worker(const Setup& run, const PipelineOptions& options, StageSetup setup, Ports ports,
         const Groups& groups, telemetry::Board& board, const Observer& observer);

  // Allocates the stage on the calling thread, then executes the list to its end. Throws
  // transport::WaitTimeout or Cancelled.
  void run(std::chrono::steady_clock::time_point start);

  // After run().
  const Stage& stage() const { return *stage_; }
  const std::vector<telemetry::Event>& events() const { return events_; }

 private:
  // On a GPU the marks may lie in the future.
  struct Span {
    device::Timestamp begin, end;
  };
  void execute(const schedule::Instruction& instruction);
  void begin_batch(std::int64_t batch);
  void reduce_gradients(std::int64_t batch);
  void help_sum(std::int64_t batch, const std::shared_ptr<transport::ReplicaSum>& sum);
  void reduce_partial(std::int64_t batch);
  void help_partial(std::int64_t batch, const std::shared_ptr<transport::ReplicaSum>& sum);
  void await_partial(std::int64_t batch);
  void contribute_norms(std::int64_t batch, const transport::ReplicaSum& sum);
  void send_ties(std::int64_t batch);
  void take_ties(std::int64_t batch);
  bool takes_ties_when_it_steps() const;
  void take_tied(std::int64_t batch, const TiePorts& ports);
  void step(const schedule::Instruction& instruction);
  void predict(const schedule::Instruction& instruction);
  NextBatch next_batch(std::int64_t batch);
  double learning_rate(std::int64_t update) const;
  void evaluate(std::int64_t update);
  void run_validation(std::int64_t update);
  void await_taken();
  void save(std::int64_t update);
  void restore();
  std::vector<transport::Norms> collect_norms(std::int64_t batch);
  void report_step();
  void check_memory();
  double now() const;
  bool is_last_stage() const { return setup_.stage + 1 == spec_.shape.stages; }
  const device::Device& device() const { return run_.devices[index()]; }
  int index() const { return setup_.replica * spec_.shape.stages + setup_.stage; }
  // Counts a wait of this thread. Continuations of sums between processes wait on the sum's thread, which
  // does not delay the worker.
  template <typename Wait>
  auto timed_wait(Wait wait) {
    if (std::this_thread::get_id() != thread_) return wait();
    device::Timestamp begin = binding_->clock().now();
    auto result = wait();
    waits_.push_back({std::move(begin), binding_->clock().now()});
    return result;
  }
  // Runs work outside of training: adds its time to `times` and discards its waits.
  template <typename Work>
  void run_besides(std::vector<Span>& times, Work work) {
    const std::size_t waits = waits_.size();
    device::Timestamp begin = binding_->clock().now();
    work();
    waits_.resize(waits);
    times.push_back({std::move(begin), binding_->clock().now()});
  }
  double seconds_of(const std::vector<Span>& spans) const;

  const Setup& run_;
  const PipelineOptions& options_;
  const Config& config_;
  const schedule::Spec& spec_;
  StageSetup setup_;
  Ports ports_;
  Groups groups_;
  telemetry::Board& board_;
  const Observer& observer_;

  device::MemoryPool pool_;                         // outlives the stage
  std::unique_ptr<device::DeviceBinding> binding_;  // outlives the stage
  std::unique_ptr<Stage> stage_;
  std::unique_ptr<schedule::Stream> stream_;
  std::chrono::steady_clock::time_point start_;
  std::thread::id thread_;    // that runs it
  Tensors inputs_, outputs_;  // of the microbatch between receive and send
  Tensors gradients_of_outputs_, gradients_of_inputs_;

  struct Step {  // made, still to be reported
    telemetry::StageUpdate report;
    PendingStep result;
    device::Timestamp done;
    std::vector<Span> waits, evaluations, saves;  // since the step before
  };
  struct Timed {
    schedule::Instruction instruction;
    Span span;
  };
  std::vector<Span> waits_, evaluations_, saves_;
  std::deque<Step> steps_;
  std::deque<std::int64_t> untaken_;  // validation microbatches sent and not yet acknowledged
  std::int64_t predicted_ = 0;        // the last batch
  double last_update_ = 0;
  double data_waited_ = 0;  // until the last step
  std::vector<Timed> timed_;
  std::vector<telemetry::Event> events_;
  Footprint last_peak_;  // when it was last checked
};

}  // namespace twobw::runtime
