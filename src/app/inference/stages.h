// A forward-only pipeline: each stage is a thread with its own device and weights.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "app/inference/model_source.h"
#include "engine/models/model.h"
#include "engine/transport/link.h"

namespace twobw::inference {

// A stage's share of the model and its links; null before the first and after the last stage.
struct Stage {
  int index = 0, count = 1;
  int first_layer = 0, last_layer = 0;  // [first, last)
  at::TensorOptions compute = at::kFloat;
  std::vector<at::Tensor> parameters = {};
  transport::Link *before = nullptr, *after = nullptr;  // activations
  transport::Link *to_before = nullptr, *from_after = nullptr;
  // From the last stage to each other stage, in order; the others have one each.
  std::vector<transport::Link*> orders = {};

  bool is_last() const { return index + 1 == count; }
};

// Runs `work` on all stages concurrently. If one throws, the others are cancelled and its exception is
// rethrown here. Throws InputError for devices or a split that do not fit, before any thread starts.
void run_stages(const ModelSource& source, const models::Model& model,
                const std::function<void(Stage&)>& work);

// Waits for the GPU work that computes the tensors.
void await(const models::Tensors& tensors);

}  // namespace twobw::inference
