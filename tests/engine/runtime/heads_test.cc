// BERT and classifiers, pipelined over threads, equal the serial oracle bit for bit; their microbatches have
// different numbers of labels, and middle stages need the lengths.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <tuple>

#include "engine/models/model.h"
#include "engine/runtime/microbatches.h"
#include "engine/runtime/setup.h"
#include "tests/engine/runtime/exact.h"
#include "tests/engine/runtime/short_config.h"

namespace twobw::runtime {
namespace {
namespace heads {

struct Case {
  const char* family;
  ModelHead head;
  ScheduleKind schedule;
  std::vector<int> split;  // of embedding, 2 x 5 layers of a block, and 1 or 2 of a head
  bool predict = true;
  int replicas = 1;
  std::vector<int> recompute = {};
  bool next_sentence = false;
};

Config config_of(const Case& c) {
  Config config;
  config.model = {.family = c.family, .layers = 2, .width = 24, .heads = 3, .vocab = 37, .context = 10};
  config.model.head = c.head;
  config.model.next_sentence = c.next_sentence;
  if (c.head == ModelHead::Classification) config.model.labels = 3;
  if (config.model.family != "llama") config.model.dropout = 0.1;
  config.pipeline.schedule = c.schedule;
  config.pipeline.stages = static_cast<int>(c.split.size());
  config.pipeline.split = c.split;
  config.pipeline.replicas = c.replicas;
  config.pipeline.recompute = c.recompute;
  config.pipeline.predict = c.predict;
  make_short(config);
  return config;
}

class Heads : public testing::TestWithParam<Case> {};

TEST_P(Heads, PipelineEqualsOracle) {
  expect_exact(config_of(GetParam()));
}

constexpr auto kMasked = ModelHead::MaskedLm, kClasses = ModelHead::Classification,
               kNumbers = ModelHead::Regression;
constexpr auto kFlush = ScheduleKind::Flush, kTwoBW = ScheduleKind::TwoBW;

INSTANTIATE_TEST_SUITE_P(
    Families, Heads,
    testing::Values(Case{"bert", kMasked, kFlush, {13}}, Case{"bert", kMasked, kFlush, {4, 9}},
                    Case{"bert", kMasked, kTwoBW, {6, 7}}, Case{"bert", kMasked, kTwoBW, {3, 5, 5}},
                    Case{"bert", kMasked, kTwoBW, {2, 4, 5, 2}}, Case{"bert", kMasked, kTwoBW, {1, 5, 6, 1}},
                    Case{"bert", kMasked, kTwoBW, {7, 6}, false},
                    Case{"bert", kMasked, kTwoBW, {5, 8}, true, 2},
                    Case{"bert", kMasked, kTwoBW, {5, 8}, true, 1, {0, 1}},
                    Case{"bert", kMasked, kTwoBW, {12, 1}, true, 1, {}, true},
                    Case{"bert", kMasked, kTwoBW, {3, 5, 5}, true, 1, {1, 2}, true},
                    Case{"bert", kMasked, kFlush, {6, 7}, true, 2, {}, true},
                    Case{"bert", kClasses, kFlush, {2, 6, 4}}, Case{"bert", kClasses, kTwoBW, {4, 4, 4}},
                    Case{"bert", kClasses, kTwoBW, {3, 3, 3, 3}, true, 1, {1}},
                    Case{"bert", kNumbers, kFlush, {5, 7}}, Case{"bert", kNumbers, kTwoBW, {2, 10}, true, 2},
                    Case{"gpt", kClasses, kTwoBW, {5, 4, 3}}, Case{"gpt", kNumbers, kFlush, {7, 5}},
                    Case{"llama", kClasses, kTwoBW, {5, 7}}, Case{"llama", kNumbers, kTwoBW, {3, 4, 5}}),
    [](const auto& info) {
      return fmt::format("{}_{}_d{}_{}", info.param.family, name(info.param.head), info.param.split.size(),
                         info.index);
    });

// The loss of the first validation batch on made-up weights.
double validation_loss(const Config& config, bool with_gradients) {
  const Setup setup = prepare(config);
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
  for (const auto& [family, head, split] : {std::tuple("gpt", ModelHead::CausalLm, std::vector{6, 6}),
                                            std::tuple("llama", ModelHead::CausalLm, std::vector{4, 8}),
                                            std::tuple("bert", kMasked, std::vector{6, 7})}) {
    Config config = config_of({family, head, kTwoBW, split});
    config.model.context = 1;
    EXPECT_EQ(validation_loss(config, true), validation_loss(config, false)) << family;
    for (const auto& recompute : {std::vector{0, 1}, std::vector{1}}) {
      config.pipeline.recompute = recompute;
      expect_exact(config);
    }
    config.model.dropout = 0;
    expect_exact(config);
  }
}

// The scale of the loss is over the labels that the model's head is trained on, and no others.
TEST(LabelsOfAHead, AreThoseThatItTakes) {
  for (const ModelHead head : {kMasked, kClasses, kNumbers}) {
    const runtime::Setup setup =
        prepare(config_of({"bert", head, kFlush, head == kMasked ? std::vector{13} : std::vector{12}}));
    const auto fields = architecture::taken_by(setup.model.layers, 0, setup.model.size());
    MicrobatchSource microbatches(setup.config, *setup.training, *setup.validation, fields);
    std::int64_t labels = 0;
    double scale = 0;
    for (int k = 0; k < 4; ++k) {
      const models::MicrobatchContext pass = microbatches.training(0, k);
      labels += data::count_labels(pass.batch);
      scale = pass.batch[architecture::Field::LossScale].item<double>();
    }
    EXPECT_EQ(scale, 1.0 / static_cast<double>(labels)) << name(head);
    if (head == kMasked) {
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
  const Config config = config_of({"bert", kClasses, kFlush, {12}});
  const auto scale_of = [&](data::BatchFields fields) {
    return MicrobatchSource(config, dense, dense, fields)
        .training(0, 0)
        .batch[data::Field::LossScale]
        .item<double>();
  };
  EXPECT_EQ(scale_of(architecture::kSequenceLoss), 1.0 / 8);
  EXPECT_EQ(scale_of(architecture::kTokenLoss), 1.0 / (8 * 10));
}

}  // namespace heads
}  // namespace
}  // namespace twobw::runtime
