// The layers of a model on the stages of a pipeline that only computes forwards: a thread each, with its own
// device and its own weights.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "app/inference/model_source.h"
#include "engine/models/model.h"
#include "engine/transport/link.h"

namespace twobw::inference {

// What a stage's thread has. The first stage has none before it, the last none after it.
struct Stage {
  int index = 0, count = 1;
  int first_layer = 0, last_layer = 0;  // [first, last)
  at::TensorOptions compute = at::kFloat;
  std::vector<at::Tensor> parameters = {};
  transport::Link *before = nullptr, *after = nullptr;  // activations
  transport::Link *to_before = nullptr, *from_after = nullptr;
  // From the last stage, which has one to every other, in their order; they have one each.
  std::vector<transport::Link*> orders = {};

  bool is_last() const { return index + 1 == count; }
};

// Runs `work` on every stage at once and waits for all. Where one throws the others are told to end, and what
// it threw is thrown here. Throws InputError for devices or a split that do not fit, before anything starts.
void run_stages(const ModelSource& source, const models::Model& model,
                const std::function<void(Stage&)>& work);

// Waits for what was queued to compute them; on CPUs nothing is.
void await(const models::Tensors& tensors);

}  // namespace twobw::inference
