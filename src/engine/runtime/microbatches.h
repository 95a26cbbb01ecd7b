// What a microbatch is: its tensors and the keys of its randomness, by its number alone. Pipeline and oracle
// both ask here, so they train on the same.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/config.h"
#include "engine/data/tokens.h"
#include "engine/models/layer.h"
#include "engine/runtime/read_ahead.h"

namespace twobw::runtime {

// Sequences trained on before an update: of a resumed run, whose batches may have had another size before.
struct DataPosition {
  std::int64_t update = 0;
  std::int64_t sequences = 0;
};

// Of one thread.
class MicrobatchSource {
 public:
  // `fields`: what is read of the batches; the others are left out.
  MicrobatchSource(const Config& config, const data::Source& training, const data::Source& validation,
                   architecture::BatchFields fields, const DataPosition& position = {});

  // Microbatch k = 0, 1, 2, ... of one replica. Of update j replica p runs m microbatches, which are number
  // p*m to p*m + m-1 of all the replicas' together; that number keys data and dropout.
  models::MicrobatchContext training(int replica, std::int64_t k);
  // The same without its tensors.
  models::MicrobatchContext keys(int replica, std::int64_t k) const;
  // Number `index` of an evaluation.
  models::MicrobatchContext validation(std::int64_t index);
  std::int64_t validation_microbatches() const { return evaluated_.size(); }

  architecture::BatchFields fields() const { return fields_; }

  // Sequences fill the context from now on, whatever their lengths; else, on CPU cores, microbatches of texts
  // are as wide as the longest needs.
  void keep_padding() { keeps_padding_ = true; }

 private:
  // Of what `read` gives for the fields that it is asked for.
  template <typename Read>
  data::Batch without_padding(const data::Source& source, Read read) const;
  data::Batch training_batch(std::int64_t update, std::int64_t microbatch,
                             architecture::BatchFields fields) const;
  data::Batch validation_batch(std::int64_t index, architecture::BatchFields fields) const;
  // A mean that the loss has, over the labels of these fields.
  struct Mean {
    architecture::BatchFields fields;
    // Where labels have to be counted: of the update last asked for, and of an evaluation.
    std::int64_t counted = -1;
    double scale = 0;
    std::optional<double> validation_scale = {};
  };
  double training_scale(std::int64_t update, Mean& mean) const;
  double validation_scale(Mean& mean) const;

  const Config& config_;
  const data::Source& training_;
  const data::Source& validation_;
  data::Portions evaluated_;
  architecture::BatchFields fields_;
  DataPosition position_;
  bool keeps_padding_;
  Mean loss_, labels_;  // labels have one of their own where the model reads LabelScale
};

// How a stage reads what these microbatches have for it.
ReadAheadSetup read_ahead_setup(const Config& config, const MicrobatchSource& microbatches);

class Feed {
 public:
  Feed(const Config& config, const MicrobatchSource& microbatches, int replica);

  // The microbatches in their order. Their memory is counted to the calling thread's pool.
  models::MicrobatchContext take(std::int64_t microbatch);

  double waited() const { return ahead_.waited(); }  // seconds in all

 private:
  MicrobatchSource microbatches_;  // of the thread that reads
  int replica_;
  std::vector<models::MicrobatchContext> read_;
  ReadAhead ahead_;  // the last: its thread uses the others
};

}  // namespace twobw::runtime
