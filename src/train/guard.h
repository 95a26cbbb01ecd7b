// Notices when training goes wrong in the way that late or badly predicted weights make it: predictions that
// miss by as much as they move, and a loss that climbs. Pure: the same updates give the same warnings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/pipeline_shape.h"

namespace twobw::train {

class Guard {
 public:
  explicit Guard(const PipelineShape& shape) : shape_(shape) {}

  // What is to be said after the update, once for each cause. `prediction_error`: see CompleteUpdate.
  std::optional<std::string> add(std::int64_t update, double loss, std::optional<double> prediction_error);

 private:
  std::optional<std::string> judge_error(std::int64_t update, double error);
  std::optional<std::string> judge_loss(std::int64_t update, double loss);
  std::string remedy() const;

  PipelineShape shape_;
  int misses_ = 0;  // in a row
  std::int64_t updates_ = 0;
  double mean_ = 0;  // running, of the loss
  double lowest_ = 0;
  std::int64_t lowest_at_ = 0;
  bool warned_of_error_ = false, warned_of_loss_ = false;
};

}  // namespace twobw::train
