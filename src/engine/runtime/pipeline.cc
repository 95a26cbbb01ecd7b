#include "engine/runtime/pipeline.h"

#include "core/base/error.h"
#include "core/base/failures.h"
#include "core/base/threads.h"
#include "engine/transport/processes.h"

namespace twobw::runtime {

Pipeline::Pipeline(const Setup& setup, PipelineOptions options, Observer observer)
    : setup_(setup),
      options_(std::move(options)),
      observer_(std::move(observer)),
      worker_observer_(observer_),
      hub_(std::chrono::duration<double>(setup.config.pipeline.timeout)),
      group_(hub_, setup_.spec.shape.stages, setup_.spec.shape.replicas, setup_.spec.shape.owners()),
      gate_(hub_),
      board_(setup_.spec.shape.stages, setup_.spec.shape.replicas) {
  TWOBW_ASSERT(!setup_.spec.shape.split.empty(), "the split has not been chosen");
  // A partly connected pipeline would wait for the others in its destructor.
  transport::abort_on_failure(options_.processes.get(), [this] { connect(); });
}

// Tensors are freed first, so that their memory can be released. Threads that wait for other processes end
// before the objects that they use.
Pipeline::~Pipeline() {
  if (exchange_ && !ended_) exchange_->processes().abort("a pipeline was given up");
  close_links();
  exchange_.reset();
  gpu_paths_.reset();
  workers_.clear();
  links_.clear();
  replicas_.clear();
  partials_.clear();
  gathers_.clear();
  if (setup_.devices.front().gpu) device::release_unused_gpu_memory();
}

// A failure of one thread ends all workers, also of other processes.
void Pipeline::fail(const std::string& who, const std::exception_ptr& failure) {
  std::string message;
  bool stuck = false, wrong_input = false;
  try {
    std::rethrow_exception(failure);
  } catch (const transport::WaitTimeout& timeout) {
    message = timeout.what();
    stuck = true;
  } catch (const InputError& error) {
    message = error.what();
    wrong_input = true;
  } catch (const std::exception& error) {
    message = describe_failure(error);
  }
  if (!who.empty()) message = fmt::format("{}: {}", who, message);
  end_by({message, wrong_input}, stuck);
  if (exchange_)
    exchange_->processes().abort(
        {stuck ? fmt::format("the pipeline is stuck; {}", message) : message, wrong_input});
}

// A connection that broke names its other end itself.
void Pipeline::fail_link(const std::string& name, const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const RunError&) {
    fail({}, failure);
  } catch (...) {
    fail(name, failure);
  }
}

void Pipeline::fail_from_afar(const control::Failure& failure) {
  end_by(failure, /*stuck=*/false);
  if (gpu_paths_) gpu_paths_->abort();
}

void Pipeline::end_by(const control::Failure& failure, bool stuck) {
  std::string at = report();
  const std::lock_guard lock(failure_mutex_);
  if (!failure_) {
    report_ = std::move(at);
    failure_ = failure;
    stuck_ = stuck;
  }
  hub_.cancel();
}

// Also from another thread while the pipeline is being made.
std::string Pipeline::report() const {
  const transport::Processes* processes = options_.processes.get();
  if (!processes) return board_.report();
  const RankMap rank_map(setup_.spec.shape, processes->size(), processes->rank());
  return board_.report(rank_map.first_worker(), rank_map.workers_here()) + describe_others(*processes);
}

void Pipeline::run_worker(int worker) {
  const int stages = setup_.spec.shape.stages;
  try {
    workers_[worker]->run(start_);
  } catch (const transport::Cancelled&) {
    board_.finish(worker, "cancelled");
  } catch (...) {
    fail(schedule::worker_name(setup_.spec.shape.replicas, worker / stages, worker % stages),
         std::current_exception());
  }
}

void Pipeline::finish_exchange() {
  try {
    exchange_->finish();
    close_links();
  } catch (const transport::Cancelled&) {
  } catch (...) {
    fail("at the end of the run", std::current_exception());
  }
}

// Senders wait until everything has arrived, receivers for the end of the stream.
void Pipeline::close_links() {
  sums_.clear();
  remote_gathers_.clear();
  senders_.clear();
  receivers_.clear();
}

void Pipeline::run() {
  start_ = std::chrono::steady_clock::now();
  std::vector<int> here;
  for (int worker = 0; worker < setup_.spec.shape.workers(); ++worker) {
    if (workers_[worker]) here.push_back(worker);
  }
  run_on_threads(static_cast<int>(here.size()), [&](int i) { run_worker(here[i]); });
  if (exchange_) finish_exchange();
  std::lock_guard lock(failure_mutex_);
  ended_ = !failure_;
  if (ended_) return;
  if (failure_->wrong_input) throw InputError(failure_->reason);
  const std::string at = report_.substr(0, report_.find_last_not_of('\n') + 1);
  if (stuck_) fail_run("the pipeline is stuck; {}; the workers were at:\n{}", failure_->reason, at);
  if (options_.processes) fail_run("{}; the workers here were at:\n{}", failure_->reason, at);
  throw RunError(failure_->reason);
}

void Pipeline::request_stop() {
  if (exchange_) return exchange_->request_stop();
  gate_.request_stop();
}

void Pipeline::request_save(bool stop) {
  if (exchange_) return exchange_->request_save(stop);
  gate_.request_save(stop);
}

bool Pipeline::is_here(int stage, int replica) const {
  return !exchange_ || exchange_->rank_map().is_here(replica * setup_.spec.shape.stages + stage);
}

const Stage& Pipeline::stage(int stage, int replica) const {
  TWOBW_ASSERT(is_here(stage, replica), "stage {} of replica {} is in another process", stage, replica);
  return workers_[replica * setup_.spec.shape.stages + stage]->stage();
}

std::vector<telemetry::Event> Pipeline::events() const {
  std::vector<telemetry::Event> all;
  for (const auto& worker : workers_) {
    if (worker) all.insert(all.end(), worker->events().begin(), worker->events().end());
  }
  return all;
}

}  // namespace twobw::runtime
