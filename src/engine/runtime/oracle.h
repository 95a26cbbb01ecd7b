// The serial oracle: one thread without pipeline, schedule or double buffer. It runs microbatch after
// microbatch and replica after replica through the whole model, on the weight versions that the rule
// prescribes, sums the replicas' gradients in order, predicts and applies the delayed update. Every pipeline
// must match it bit for bit: in fp32 on CPU, and on a GPU with deterministic kernels and a device of the same
// size.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/base/config.h"
#include "core/schedule/spec.h"
#include "engine/data/tokens.h"
#include "engine/models/model.h"
#include "engine/runtime/microbatches.h"
#include "engine/weights/double_buffer.h"
#include "engine/weights/layout.h"

namespace twobw::runtime {

struct OracleUpdate {
  std::int64_t update = 0;
  double loss = 0;
  double gradient_norm = 0;
  bool skipped = false;
  double loss_scale = 1;
  std::vector<std::uint64_t> checksums;  // a number a layer, of W(update+1)
};

class Oracle {
 public:
  // The split of `spec` matters under `stash` and with predictions, where the weights computed with differ
  // between stages. `compute`: number format and device, the calling thread's.
  Oracle(const Config& config, const models::Model& model, const data::Source& training,
         const schedule::Spec& spec, const at::TensorOptions& compute = at::kFloat);
  ~Oracle();

  OracleUpdate next_update();
  // The mean validation loss on the newest weights.
  double evaluate(const data::Source& validation) const;

  int stages() const { return static_cast<int>(parts_.size()); }
  const weights::Layout& layout(int stage) const;
  at::Tensor newest_weights(int stage) const;  // in single precision, on the CPU

 private:
  struct Part;  // what one stage has
  bool predicts(std::int64_t batch) const;
  bool begins_drained(std::int64_t batch) const;
  std::int64_t version_by_rule(int stage, std::int64_t microbatch) const;
  bool runs_predicted(std::int64_t microbatch) const;
  int true_from() const;
  double run_microbatch(int replica, std::int64_t microbatch);
  double run_batch(int replica);
  void sum_ties();
  void predict();
  void apply(OracleUpdate& result);
  double learning_rate() const;
  double loss_scale(std::int64_t batch) const;

  const Config& config_;
  const models::Model& model_;
  const data::Source& training_;
  MicrobatchSource microbatches_;
  schedule::Spec spec_;
  at::TensorOptions compute_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::int64_t updates_ = 0;
  std::vector<bool> skipped_;  // by update
};

}  // namespace twobw::runtime
