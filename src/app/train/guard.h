// Detects that late or badly predicted weights harm training: predictions that miss by as much as they move,
// and a loss that climbs. A pure function of the updates: a resumed run warns as one that was not stopped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/config.h"

namespace twobw::train {

class Guard {
 public:
  explicit Guard(const Config& config) : config_(config) {}

  // Returns a warning with its remedy, once for each cause, else an empty string. Synchronous updates do not
  // count, so a run that is resumed with the remedy starts over after it. `prediction_error`: see
  // CompleteUpdate.
  std::string add(std::int64_t update, double loss, std::optional<double> prediction_error);

 private:
  std::string judge_error(std::int64_t update, double error);
  std::string judge_loss(std::int64_t update, double loss);
  std::string remedy(std::int64_t update) const;

  Config config_;
  int misses_ = 0;  // in a row
  std::int64_t updates_ = 0;
  double mean_ = 0;  // running, of the loss
  double lowest_ = 0;
  std::int64_t lowest_at_ = 0;
  bool warned_of_error_ = false, warned_of_loss_ = false;
};

}  // namespace twobw::train
