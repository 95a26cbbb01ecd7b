// Notices when training goes wrong in the way that late or badly predicted weights make it: predictions that
// miss by as much as they move, and a loss that climbs. Pure: the same updates give the same warnings and
// fallbacks, so a run that fell back can be repeated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/config.h"
#include "core/schedule/spec.h"

namespace twobw::train {

class Guard {
 public:
  // What is known after update t decides on batch t + kAhead: late enough for every worker to have reported
  // it.
  static constexpr std::int64_t kAhead = 8;

  explicit Guard(const PipelineConfig& config) : config_(config) {}

  // Whether it decides how batches begin.
  bool falls_back() const { return config_.guard == "fallback"; }

  struct Verdict {
    std::string said;          // empty: nothing
    bool synchronous = false;  // how batch update + kAhead begins
  };
  // `prediction_error`: see CompleteUpdate.
  Verdict add(std::int64_t update, double loss, std::optional<double> prediction_error);
  // Whether the batch of the update ran under flush for it.
  bool fell_back_at(std::int64_t update) const;
  // So far, and to come.
  const std::vector<schedule::BatchRange>& fallbacks() const { return fallbacks_; }

 private:
  std::string judge_error(std::int64_t update, double error);
  std::string judge_loss(std::int64_t update, double loss);
  std::string remedy() const;

  PipelineConfig config_;
  int misses_ = 0;  // in a row
  std::int64_t updates_ = 0;
  double mean_ = 0;  // running, of the loss
  double lowest_ = 0;
  std::int64_t lowest_at_ = 0;
  bool warned_of_error_ = false, warned_of_loss_ = false;
  std::vector<schedule::BatchRange> fallbacks_;
};

}  // namespace twobw::train
