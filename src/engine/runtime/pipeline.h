// The local workers of a pipeline and its replicas, and their links to each other and to other processes.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/schedule/spec.h"
#include "engine/data/tokens.h"
#include "engine/device/device.h"
#include "engine/models/model.h"
#include "engine/runtime/exchange.h"
#include "engine/runtime/worker.h"
#include "engine/transport/gather.h"
#include "engine/transport/gpu_paths.h"
#include "engine/transport/processes.h"
#include "engine/transport/remote_link.h"
#include "engine/transport/remote_sum.h"
#include "engine/transport/replica_sum.h"

namespace twobw::runtime {

// Ties whose gradients all replicas need whole.
enum class Ties { All, WithinTheStage };

// The owner of each range of a flat gradient when replicas shard the optimizer's state; all of them own the
// ties. `shards`: of the weights, by replica. Ranges begin where a parameter or a piece of one does.
transport::SumRanges sum_ranges(const weights::Layout& layout, const std::vector<weights::Range>& shards,
                                Ties summed_everywhere);

class Pipeline {
 public:
  // Everything passed by reference must outlive the pipeline.
  Pipeline(const Setup& setup, PipelineOptions options, Observer observer);
  ~Pipeline();

  // Runs the workers of all processes to the end. Throws RunError if any failed; for a timeout it reports
  // what every local worker was doing.
  void run();

  // Ends the run after the batches that have begun. From any thread.
  void request_stop();
  // Saves at the next batch to begin; with `stop` the run ends after that batch. From any thread.
  void request_save(bool stop);

  // Whether the worker is in this process.
  bool is_here(int stage, int replica = 0) const;
  // After run(), of workers here.
  const Stage& stage(int stage, int replica = 0) const;
  std::vector<telemetry::Event> events() const;

 private:
  friend struct FailureProbe;  // of tests
  struct WorkerParts {
    StageSetup setup;
    Ports ports;
  };
  // Both ends of a link; null in another process.
  struct Ends {
    transport::Link *out = nullptr, *in = nullptr;
  };
  void connect();
  void join_stages(std::vector<WorkerParts>& workers);
  void join_replicas(int stage);
  void join_owners(int stage);
  transport::RemoteReplicas remote_replicas(int stage, const char* what, int tag);
  transport::MakeSum add_sums(int stage, const char* what, transport::SumRanges ranges);
  transport::SumRanges sum_ranges(int stage, Ties summed_everywhere) const;
  int gpu_of(int stage) const;
  StageSetup setup_of(int replica, int stage) const;
  const device::Device& device_of(const StageSetup& stage) const;
  void join_ties(std::vector<WorkerParts>& workers);
  bool are_apart(const StageSetup& one, const StageSetup& other) const;
  // `wire`: for processes that differ. `apart`: for GPUs that differ.
  Ends add_link(const StageSetup& from, const StageSetup& to,
                std::unique_ptr<transport::Wire> transport::Wires::*wire, bool apart);
  Ends add_remote_link(const StageSetup& from, const StageSetup& to, transport::Wire& wire, int tag);
  int take_tags(int count);
  int rank_of(int worker) const { return exchange_ ? exchange_->rank_map().rank_of(worker) : 0; }
  int rank_of(const StageSetup& stage) const;
  void run_worker(int worker);
  void finish_exchange();
  void close_links();
  std::string report() const;
  void fail(const std::string& who, const std::exception_ptr& failure);
  void fail_link(const std::string& name, const std::exception_ptr& failure);
  void fail_from_afar(const control::Failure& failure);
  // The first failure counts. `stuck`: a wait timed out.
  void end_by(const control::Failure& failure, bool stuck);

  const Setup& setup_;
  PipelineOptions options_;
  Observer observer_;
  Observer worker_observer_;  // the same, or one that forwards to rank 0
  transport::WaitHub hub_;
  std::vector<transport::ReplicaGroup> replicas_, partials_;  // by stage
  std::vector<transport::NormExchange> partials_ready_;       // by stage
  std::vector<std::vector<weights::Range>> shards_;           // by stage, with a sharded state
  std::vector<std::unique_ptr<transport::Gather>> gathers_;   // by stage, with a sharded state
  transport::NormExchange group_;
  transport::BatchGate gate_;
  telemetry::Board board_;
  std::unique_ptr<transport::GpuPaths> gpu_paths_;                     // to other processes
  std::unique_ptr<Exchange> exchange_;                                 // with other processes
  int tags_ = 0;                                                       // wire tags taken so far
  std::vector<std::unique_ptr<transport::Link>> links_;                // within the process
  std::vector<std::unique_ptr<transport::Link>> senders_, receivers_;  // ends of links to other processes
  std::vector<std::unique_ptr<transport::RemoteSums>> sums_;
  std::vector<std::unique_ptr<transport::RemoteGather>> remote_gathers_;
  std::vector<std::unique_ptr<Worker>> workers_;  // by number; null in other processes
  std::mutex failure_mutex_;
  std::optional<control::Failure> failure_;
  bool stuck_ = false;
  std::string report_;  // when it failed
  bool ended_ = false;  // without failure
  std::chrono::steady_clock::time_point start_;
};

}  // namespace twobw::runtime
