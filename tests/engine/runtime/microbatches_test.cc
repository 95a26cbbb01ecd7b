// The parts of a batch that stages take: labels of a head, positions of documents; and sequences of one
// token.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "engine/models/model.h"
#include "engine/runtime/microbatches.h"
#include "engine/runtime/setup.h"
#include "tests/engine/runtime/exact.h"
#include "tests/engine/runtime/settings.h"

namespace twobw::runtime {
namespace {

// The loss of the first validation batch on made-up weights.
double validation_loss(const Config& config, bool with_gradients) {
  const runtime::Setup setup = prepare(config);
  const int layers = setup.model.size();
  MicrobatchSource microbatches(setup.config, *setup.training, *setup.validation,
                architecture::taken_by(setup.model.layers, 0, layers));
  auto generator = at::detail::createCPUGenerator(1);
  std::vector<at::Tensor> parameters;
  for (const architecture::Layer& layer : setup.model.layers) {
    for (const architecture::Parameter& spec : layer.parameters)
      parameters.push_back(at::empty(spec.shape, at::kFloat)
                               .normal_(spec.init_mean, 0.2, generator)
                               .set_requires_grad(with_gradients));
  }
  const at::AutoGradMode mode(with_gradients);
  return models::run_layers(setup.model, 0, layers, parameters, {}, microbatches.validation(0))
      .front()
      .item<double>();
}

// Decoder steps have the same shape and other kernels.
TEST(SequencesOfOneToken, AreComputedAlikeWithAndWithoutGradients) {
  for (const std::string family : {"gpt model.dropout=0.1", "llama", "bert"}) {
    Config config = short_config("pipeline.split=[6,6] model.context=1 model.family=" + family);
    EXPECT_EQ(validation_loss(config, true), validation_loss(config, false)) << family;
    expect_exact(config);
    config.pipeline.recompute = {1};
    expect_exact(config);
  }
}

// The scale of the loss is over the labels that the model's head is trained on, and no others.
TEST(LabelsOfAHead, AreThoseThatItTakes) {
  for (const std::string head : {"masked_lm", "classification", "regression"}) {
    const runtime::Setup setup = prepare(
        short_config("model.family=bert pipeline.microbatches=4 pipeline.split=[12] model.head=" + head));
    const auto fields = architecture::taken_by(setup.model.layers, 0, setup.model.size());
    MicrobatchSource microbatches(setup.config, *setup.training, *setup.validation, fields);
    std::int64_t labels = 0;
    double scale = 0;
    for (int k = 0; k < 4; ++k) {
      const models::MicrobatchContext pass = microbatches.training(0, k);
      labels += data::count_labels(pass.batch);
      scale = pass.batch[architecture::Field::LossScale].item<double>();
    }
    EXPECT_EQ(scale, 1.0 / static_cast<double>(labels)) << head;
    if (head == "masked_lm") {
      EXPECT_GT(labels, 0);
    } else {
      EXPECT_EQ(labels, 8);  // one a sequence
    }
  }
}

// A source all of whose labels count need not be asked.
TEST(LabelsOfAHead, OfADenseSourceAreKnown) {
  class Dense final : public data::Source {
   public:
    data::Batch random(const data::Draw&, int, int, data::BatchFields) const override { return {}; }
    data::Batch sequential(std::int64_t, int, int, data::BatchFields) const override { return {}; }
    std::string describe() const override { return "dense"; }
  };
  const Dense dense;
  const Config config =
      short_config("model.family=bert model.head=classification pipeline.microbatches=4 pipeline.split=[12]");
  const auto scale_of = [&](data::BatchFields fields) {
    return MicrobatchSource(config, dense, dense, fields).training(0, 0).batch[data::Field::LossScale].item<double>();
  };
  EXPECT_EQ(scale_of(architecture::kSequenceLoss), 1.0 / 8);
  EXPECT_EQ(scale_of(architecture::kTokenLoss), 1.0 / (8 * 10));
}

TEST(PositionsOfDocuments, AreTakenByMiddleStagesToo) {
  const runtime::Setup setup = prepare(
      short_config("model.family=llama model.reset_documents=true model.context=16 pipeline.split=[2,5,5]"));
  const auto fields = architecture::taken_by(setup.model.layers, 2, 7);
  EXPECT_EQ(fields, architecture::BatchFields{architecture::Field::Positions});
  MicrobatchSource microbatches(setup.config, *setup.training, *setup.validation, fields);
  for (const models::MicrobatchContext& pass : {microbatches.training(0, 1), microbatches.validation(0)}) {
    const at::Tensor positions = pass.batch[architecture::Field::Positions];
    EXPECT_EQ(positions.sizes(), (std::vector<std::int64_t>{2, 16}));
    EXPECT_TRUE(positions.select(1, 0).eq(0).all().item<bool>());
  }
}

}  // namespace
}  // namespace twobw::runtime
