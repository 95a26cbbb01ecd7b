// A family defined outside the library whose blocks share a weight: a tie in addition to that of embedding
// and head. Its blocks x + scale * narrow(gelu(widen(x))) are two layers each, so that a stage boundary may
// lie within a residual branch. tests/python/gmlp_test.py trains, plans and generates with another such
// family.
#include <gtest/gtest.h>

#include "core/base/config.h"
#include "engine/models/model.h"
#include "engine/models/ops.h"
#include "planning/architecture/families.h"
#include "tests/engine/runtime/exact.h"

namespace twobw {
namespace {

using architecture::Field;
using architecture::Layer;

constexpr int kWiden = 3;  // times the width

// embedding, 3 x (widen, narrow), head; the third block has the first one's wide weight.
architecture::Model describe_shared(const ModelConfig& config) {
  const std::int64_t width = config.width;
  architecture::Model model;
  model.push_back({.kind = "shared_embedding",
                   .parameters = {{.name = "tokens", .shape = {config.vocab, width}, .init_std = 0.1}},
                   .takes = {Field::Tokens}});
  for (int block = 0; block < config.layers; ++block) {
    const std::string name = "blocks." + std::to_string(block) + ".";
    model.push_back(
        {.kind = "shared_widen",
         .parameters = {{.name = name + "widen.weight", .shape = {kWiden * width, width}, .init_std = 0.1},
                        {.name = name + "widen.bias", .shape = {kWiden * width}, .decay = false}}});
    model.push_back(
        {.kind = "shared_narrow",
         .parameters = {{.name = name + "narrow.weight", .shape = {width, kWiden * width}, .init_std = 0.1},
                        {.name = name + "scale", .shape = {width}, .init_mean = 0.5, .decay = false}}});
  }
  model.push_back({.kind = "shared_head",
                   .parameters = {{.name = "head",
                                   .shape = {config.vocab, width},
                                   .init_std = 0.1,
                                   .tied_to = config.tied ? "tokens" : ""}},
                   .takes = architecture::kTokenLoss});
  model[5].parameters[0].tied_to = model[1].parameters[0].name;
  return model;
}

models::Tensors run_shared(const std::string& kind, std::span<const at::Tensor> p, const models::Tensors& x,
                           const models::MicrobatchContext& pass) {
  namespace ops = models::ops;
  if (kind == "shared_embedding") return {ops::embedding(p[0], pass.batch[Field::Tokens])};
  if (kind == "shared_widen") return {ops::linear(x[0], p[0], p[1]), x[0]};
  // The scale by LibTorch's own operators, whose gradients autograd finds.
  if (kind == "shared_narrow") return {x[1] + p[1] * ops::linear(ops::gelu(x[0]), p[0], {})};
  return {
      ops::head_loss(x[0], p[0], {}, pass.batch[Field::Targets], pass.batch[Field::LossScale], pass.room)};
}

models::Forward forward_of_shared(const ModelConfig&, const Layer& layer) {
  return [kind = layer.kind](std::span<const at::Tensor> p, const models::Tensors& x,
                             const models::MicrobatchContext& pass) { return run_shared(kind, p, x, pass); };
}

TEST(OwnFamily, MayTieSeveralWeights) {
  models::add_family({.name = "shared", .describe = describe_shared}, forward_of_shared);
  Config config;
  config.model = {.family = "shared", .layers = 3, .width = 16, .vocab = 40, .context = 8};
  config.pipeline.microbatch = 2;
  config.pipeline.microbatches = 4;
  config.optimizer.lr = 1e-2;
  config.optimizer.warmup = 2;
  config.optimizer.clip = 0.5;
  config.train.updates = 5;
  config.train.eval_every = 2;
  config.train.eval_microbatches = 2;
  for (const std::vector<int>& split : {std::vector<int>{2, 3, 3}, {1, 4, 3}, {4, 1, 3}, {6, 1, 1}}) {
    config.pipeline.stages = static_cast<int>(split.size());
    config.pipeline.split = split;
    for (const ScheduleKind schedule : {ScheduleKind::TwoBW, ScheduleKind::Flush}) {
      config.pipeline.schedule = schedule;
      config.pipeline.replicas = split[0] == 2 ? 2 : 1;
      runtime::expect_exact(config);
    }
    config.pipeline.schedule = ScheduleKind::TwoBW;
    config.pipeline.replicas = 1;
    // The first stage steps late: of ties within it, of one to it, of none.
    config.pipeline.defer_tied_update = true;
    runtime::expect_exact(config);
    config.pipeline.defer_tied_update = false;
  }
}

}  // namespace
}  // namespace twobw
