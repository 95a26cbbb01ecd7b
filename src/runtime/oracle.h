// The serial oracle: one thread, no pipeline, no schedule, no double buffer. It runs microbatch after
// microbatch, replica after replica, through the whole model on the version that the rule of the design
// names, keeps as many old versions as the rule needs, adds up the replicas' gradients in their order and
// applies the (delayed) update. Every pipeline must match it bit for bit: in fp32 on CPU, and on a GPU where
// kernels are deterministic and the oracle runs on a device of the same size.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/config.h"
#include "data/tokens.h"
#include "models/model.h"
#include "optim/serial.h"
#include "schedule/spec.h"
#include "weights/gradients.h"
#include "weights/layout.h"

namespace twobw::runtime {

struct OracleUpdate {
  std::int64_t update = 0;
  double loss = 0;
  double gradient_norm = 0;
  bool skipped = false;
  std::vector<std::uint64_t> checksums;  // a number a layer, of W(update+1)
};

class Oracle {
 public:
  // The split of `spec` matters under `stash` alone, where versions differ between stages. `compute`: number
  // format and device, the calling thread's.
  Oracle(const Config& config, const models::Model& model, const data::Source& training,
         const schedule::Spec& spec, const at::TensorOptions& compute = at::kFloat);

  OracleUpdate next_update();
  // The mean validation loss on the newest weights.
  double evaluate(const data::Source& validation) const;

  const weights::Layout& layout() const { return layout_; }
  at::Tensor newest_weights() const;  // in single precision, on the CPU

 private:
  struct Version {
    std::int64_t number = 0;
    at::Tensor flat;
    std::vector<at::Tensor> parameters;
  };
  std::int64_t version_by_rule(int stage, std::int64_t microbatch) const;
  const Version& version(std::int64_t number) const;
  models::Pass on_device(models::Pass pass) const;
  double run_microbatch(int replica, std::int64_t microbatch);
  void add_version(std::int64_t number, at::Tensor flat);

  const Config& config_;
  const models::Model& model_;
  const data::Source& training_;
  schedule::Spec spec_;
  std::vector<int> stage_of_layer_;
  weights::Layout layout_;
  weights::Gradients gradients_;  // a buffer a replica
  std::deque<Version> versions_;
  at::TensorOptions compute_;
  std::unique_ptr<optim::SerialOptimizer> optimizer_;
  std::int64_t updates_ = 0;
};

}  // namespace twobw::runtime
