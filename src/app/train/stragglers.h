// Detects stragglers: workers that compute slower than expected, relative to the other workers. A straggler
// may be fast in some updates, as one that shares its core with another program. Pure: equal times give equal
// verdicts.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/train/statistics.h"
#include "engine/runtime/process_devices.h"
#include "engine/runtime/setup.h"
#include "planning/planner/costs/plan.h"

namespace twobw::train {

struct Straggler {
  int worker = 0;
  double measured = 0;       // seconds per microbatch: median of the first slow updates
  double expected = 0;       // seconds per microbatch
  std::int64_t updates = 0;  // length of the episode
};

class Stragglers {
 public:
  static constexpr double kSlow = 1.5;        // ratio of measured to expected time
  static constexpr double kRecovered = 1.25;  // ratio at which an episode may end
  static constexpr double kLeast = 0.5e-3;    // seconds per microbatch: smaller delays are ignored
  // An episode begins with this many slow updates, outnumbering fast ones among them, and ends with this many
  // recovered ones in a row.
  static constexpr int kLeastUpdates = 5;
  static constexpr double kLeastTime = 2;  // seconds of these updates at least: ignores busy moments
  static constexpr int kPast = 32;      // past updates of a worker that it is compared with, without a plan
  static constexpr int kLeastPast = 8;  // past updates before the first verdict
  static constexpr int kWarmUp = 2;     // first updates, ignored

  // `planned`: forecast seconds per microbatch by worker. If empty, each worker is compared with its own
  // past, without slow updates.
  explicit Stragglers(int workers, std::vector<double> planned = {});

  struct Verdict {
    std::vector<Straggler> begun, ended;  // with this update
  };
  // `seconds`: compute time per microbatch by worker in the next update; `elapsed`: seconds of that update.
  Verdict add(const std::vector<double>& seconds, double elapsed);

  // The current stragglers.
  std::vector<Straggler> current() const;

 private:
  struct Worker {
    std::deque<double> past;
    std::vector<double> slow;  // seconds per microbatch of slow updates that may become an episode
    double slow_for = 0;       // seconds of these updates
    int fast = 0;              // updates among them that were not slow
    double expected = 0;       // seconds per microbatch; 0: unknown
    int recovered = 0;         // recovered updates in a row, of an episode
    double recovered_for = 0;  // seconds of these
    bool named = false;
    Straggler straggler = {};
  };
  double expected_of(const Worker& worker, std::size_t index) const;
  static void forget_slow(Worker& worker);
  void judge(Worker& worker, double seconds, double usual, double elapsed, Verdict& verdict);

  std::vector<double> planned_;
  std::vector<Worker> workers_;
  std::int64_t updates_ = 0;
};

// Reports stragglers in the log and in the metrics.
class StragglerReport {
 public:
  // `hosts`: by rank; empty for one process. `plan`: the forecast of the run, or null. The setup must outlive
  // the report.
  StragglerReport(const runtime::Setup& setup, const std::vector<runtime::HostDevices>& hosts,
                  const planner::Plan* plan);

  struct Said {
    std::vector<std::string> lines;     // one sentence per episode that begins or ends
    nlohmann::ordered_json stragglers;  // for the line of metrics; may be empty
  };
  Said add(const CompleteUpdate& update);

 private:
  std::string describe(int worker) const;
  nlohmann::ordered_json entry_of(const Straggler& straggler) const;

  const runtime::Setup& setup_;
  std::vector<runtime::HostDevices> hosts_;
  bool planned_;
  Stragglers stragglers_;
};

}  // namespace twobw::train
