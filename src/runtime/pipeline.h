// All workers in one process, a pipeline or several replicas of one, and the links between them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "data/tokens.h"
#include "device/device.h"
#include "models/model.h"
#include "runtime/worker.h"
#include "schedule/spec.h"

namespace twobw::runtime {

struct PipelineSetup {
  schedule::Spec spec;                  // with its split
  std::vector<device::Device> devices;  // of each worker, by its number (schedule/spec.h)
  bool checksums = false;
  bool record_events = false;
  bool simulate_peers = false;                    // links as between GPUs, also on one and the same
  std::shared_ptr<const Restored> restored = {};  // where spec.first_batch is above 0
};

class Pipeline {
 public:
  // Everything passed by reference must outlive the pipeline.
  Pipeline(const Config& config, const models::Model& model, const data::Source& training,
           const data::Source& validation, PipelineSetup setup, Observer observer);
  ~Pipeline();

  // Starts the workers and waits for them. Throws RunError when one failed: for a wait that outlasted
  // its timeout, with a report of what every worker was doing.
  void run();

  // Waits until a worker has failed and the others are told. From any thread, while run() runs.
  void await_failure();

  // Ends the run after the batches that have begun. From any thread.
  void request_stop();
  // Saves at the next batch to begin; with `stop` the run ends after that batch. From any thread.
  void request_save(bool stop);

  // Before run(): from this batch on each begins when permit() has said how. From any thread, batch after
  // batch.
  void hold_from(std::int64_t batch);
  void permit(std::int64_t batch, bool synchronous);

  // After run().
  const Stage& stage(int stage, int replica = 0) const;
  std::vector<telemetry::Event> events() const;

 private:
  struct Failure {
    std::string message;
    bool stuck = false;
  };
  void connect();
  WorkerSetup prepare_worker(int replica, int stage) const;
  void join_ties(std::vector<WorkerSetup>& workers);
  bool are_apart(const WorkerSetup& one, const WorkerSetup& other) const;
  transport::Link* add_link(bool apart);  // of two GPUs
  void run_worker(int worker);

  const Config& config_;
  const models::Model& model_;
  const data::Source& training_;
  const data::Source& validation_;
  PipelineSetup setup_;
  Observer observer_;
  transport::Hub hub_;
  std::vector<transport::ReplicaGroup> replicas_, partials_;  // by stage
  std::vector<transport::StageGroup> partials_ready_;         // likewise
  transport::StageGroup group_;
  transport::BatchGate gate_;
  telemetry::Board board_;
  std::vector<std::unique_ptr<transport::Link>> links_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex failure_mutex_;
  std::condition_variable failed_;
  std::vector<Failure> failures_;
  std::string stuck_report_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace twobw::runtime
