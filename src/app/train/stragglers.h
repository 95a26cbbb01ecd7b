// Notices a worker that has become slow: one whose computation takes long against what is expected of it, and
// longer than that of the others does against theirs. It need not be slow in every update: who shares a core
// with another program is fast in some. Pure: the same times give the same verdicts.
#pragma once

#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/train/collector.h"
#include "engine/runtime/process_devices.h"
#include "engine/runtime/setup.h"
#include "planning/planner/costs/plan.h"

namespace twobw::train {

struct Straggler {
  int worker = 0;
  double measured = 0;       // seconds a microbatch, the median of the updates that it was slow in at first
  double expected = 0;       // likewise
  std::int64_t updates = 0;  // that it has been slow in
};

class Stragglers {
 public:
  static constexpr double kSlow = 1.5;        // times what is expected
  static constexpr double kRecovered = 1.25;  // likewise: not slow any more
  static constexpr double kLeast = 0.5e-3;    // seconds a microbatch: less is not worth a word
  // An episode begins with so many slow updates, among which there are fewer fast ones, and ends with so many
  // that are not slow any more, in a row.
  static constexpr int kLeastUpdates = 5;
  static constexpr double kLeastTime = 2;  // seconds that these take, or more: a busy moment is none
  static constexpr int kPast = 32;         // updates that a worker is compared with, where there is no plan
  static constexpr int kLeastPast = 8;     // before them nobody is judged
  static constexpr int kWarmUp = 2;        // updates that are not looked at

  // `planned`: seconds a microbatch that a plan forecasts of each worker; empty: each has its own past to be
  // compared with, without the updates that it was slow in.
  explicit Stragglers(int workers, std::vector<double> planned = {});

  struct Verdict {
    std::vector<Straggler> begun, ended;  // with this update
  };
  // Seconds that each worker computed for a microbatch of the next update, which took so long in all.
  Verdict add(const std::vector<double>& seconds, double elapsed);

  // Those who are slow now.
  std::vector<Straggler> current() const;

 private:
  struct Worker {
    std::deque<double> past;
    std::vector<double> slow;  // seconds a microbatch of slow updates that may become an episode
    double slow_for = 0;       // seconds that these updates took
    int fast = 0;              // updates among them that were not slow
    double expected = 0;       // seconds a microbatch; 0: nothing is known
    int recovered = 0;         // updates in a row, of an episode
    double recovered_for = 0;  // seconds that these took
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

// Names slow workers, and since when, in the log and in the metrics.
class StragglerReport {
 public:
  // `hosts`: of the processes, by rank, where there are several. `plan`: what was forecast of the run; null:
  // nothing was. The setup outlives it.
  StragglerReport(const runtime::Setup& setup, const std::vector<runtime::HostDevices>& hosts,
                  const planner::Plan* plan);

  struct Said {
    std::vector<std::string> lines;     // a sentence for every episode that begins or ends
    nlohmann::ordered_json stragglers;  // for the line of metrics; empty: there are none
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
