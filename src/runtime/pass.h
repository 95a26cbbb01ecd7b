// What a microbatch is: its tensors and the keys of its randomness, by its number alone. Pipeline and oracle
// both ask here, so they train on the same.
#pragma once

#include <cstdint>
#include <optional>

#include "base/config.h"
#include "data/tokens.h"
#include "models/layer.h"

namespace twobw::runtime {

// Of one thread.
class Passes {
 public:
  // `fields`: what is read of the batches; the others are left out.
  Passes(const Config& config, const data::Source& training, const data::Source& validation,
         architecture::BatchFields fields);

  // Microbatch k = 0, 1, 2, ... of one replica. Of update j replica p runs m microbatches, which are number
  // p*m to p*m + m-1 of all the replicas' together; that number keys data and dropout.
  models::Pass training(int replica, std::int64_t k);
  // Number `index` of an evaluation.
  models::Pass validation(std::int64_t index);

  architecture::BatchFields fields() const { return fields_; }

 private:
  data::Batch training_batch(std::int64_t update, std::int64_t microbatch,
                             architecture::BatchFields fields) const;
  data::Batch validation_batch(std::int64_t index, architecture::BatchFields fields) const;
  double training_scale(std::int64_t update);
  double validation_scale();

  const Config& config_;
  const data::Source& training_;
  const data::Source& validation_;
  architecture::BatchFields fields_;
  // Where labels have to be counted: of the update last asked for, and of an evaluation.
  std::int64_t counted_ = -1;
  double scale_ = 0;
  std::optional<double> validation_scale_;
};

}  // namespace twobw::runtime
