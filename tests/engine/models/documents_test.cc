// Sequences of several documents: each gives the results that it gives alone.
#include "engine/models/masks.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/models/model.h"
#include "engine/models/ops.h"
#include "engine/models/rotary.h"
#include "operations.h"

namespace twobw::models {
namespace {
namespace packed {

using at::Tensor;

constexpr std::int64_t kRows = 3, kLength = 12;

struct Document {
  std::int64_t row, first, length;

  // The document's part of x [b, T, ...], as a batch.
  Tensor of(const Tensor& x) const { return x.narrow(0, row, 1).narrow(1, first, length); }
};

const std::vector<Document> kDocuments = {{0, 0, 5}, {0, 5, 1}, {0, 6, 6}, {1, 0, 12},
                                          {2, 0, 3}, {2, 3, 3}, {2, 6, 1}, {2, 7, 5}};

Tensor positions() {
  Tensor numbers = at::empty({kRows, kLength}, at::kLong);
  for (const Document& document : kDocuments)
    document.of(numbers).copy_(at::arange(document.length, at::kLong).unsqueeze(0));
  return numbers;
}

// The number of each token's document.
Tensor documents() {
  Tensor numbers = at::empty({kRows, kLength}, at::kLong);
  for (std::size_t i = 0; i < kDocuments.size(); ++i)
    kDocuments[i].of(numbers).fill_(static_cast<std::int64_t>(i));
  return numbers;
}

// True [b, 1, T, T] for hidden keys.
Tensor not_seen() {
  const Tensor number = documents();
  const Tensor other = number.view({kRows, 1, kLength, 1}).ne(number.view({kRows, 1, 1, kLength}));
  return other.logical_or(at::ones({kLength, kLength}, at::kBool).triu(1));
}

TEST(Documents, AreStretchesOfRows) {
  const std::vector<Stretch> stretches = stretches_of(positions(), kRows, kLength);
  ASSERT_EQ(stretches.size(), kDocuments.size());
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    EXPECT_EQ(stretches[i].row, kDocuments[i].row);
    EXPECT_EQ(stretches[i].rows, 1);
    EXPECT_EQ(stretches[i].first, kDocuments[i].first);
    EXPECT_EQ(stretches[i].length, kDocuments[i].length);
  }
  EXPECT_TRUE(at::equal(hidden_keys(positions()), not_seen()));
  EXPECT_EQ(stretches_of({}, kRows, kLength).size(), 1u);
}

TEST(DocumentAttention, HasTheBitsThatEachDocumentHasAlone) {
  const ops::Heads heads{.queries = 6, .keys = 2, .size = 4};
  const Tensor numbers = normal({kRows, kLength, 40}, 1), gradient = normal({kRows, kLength, 24}, 2);
  const Tensor together = leaf(numbers);
  const Tensor out = ops::grouped_attention(together, heads, positions());
  torch::autograd::backward({out}, {gradient});
  for (const Document& document : kDocuments) {
    SCOPED_TRACE(testing::Message() << document.row << ", " << document.first);
    const Tensor alone = leaf(document.of(numbers));
    const Tensor expected = ops::grouped_attention(alone, heads);
    torch::autograd::backward({expected}, {document.of(gradient)});
    EXPECT_TRUE(at::equal(document.of(out), expected));
    EXPECT_TRUE(at::equal(document.of(together.grad()), alone.grad()));
  }
}

TEST(DocumentAttention, DropsWeightsOfTheMixWithinDocuments) {
  const MicrobatchContext pass{.training = true, .seed = 1};
  const Tensor mask = ops::dropout(at::ones({kRows, 2, kLength, kLength}), 0.3, pass, 4).to(at::kDouble);
  const Operation formula = [&](const Inputs& in) {
    const Tensor parts = in[0].view({kRows, kLength, 3, 2, 4}).permute({2, 0, 3, 1, 4});
    const Tensor scores =
        (at::matmul(parts[0], parts[1].transpose(-2, -1)) / 2.0).masked_fill(not_seen(), -INFINITY);
    return at::matmul(at::softmax(scores, -1) * mask, parts[2]).transpose(1, 2).reshape({kRows, kLength, 8});
  };
  const Operation attention = [&](const Inputs& in) {
    return ops::causal_attention(in[0], 2, 0.3, pass, 4, positions());
  };
  expect_agrees(attention, formula, {normal({kRows, kLength, 24}, 1)});
}

// A model with random weights and accumulated gradients.
class Made {
 public:
  explicit Made(const ModelConfig& config) : model_(build(config)) {
    std::uint64_t seed = 0;
    for (const architecture::Layer& layer : model_.layers) {
      for (const architecture::Parameter& spec : layer.parameters) {
        names_.push_back(spec.name);
        parameters_.push_back(leaf(spec.init_mean + 0.2 * normal(spec.shape, ++seed)));
        parameters_.back().mutable_grad() = at::zeros(spec.shape);
      }
    }
  }

  // Logits, or the loss where there are targets.
  Tensor run(const MicrobatchContext& pass) const {
    return run_layers(model_, 0, model_.size(), parameters_, {}, pass).front();
  }
  // The loss, as a number.
  double step(const MicrobatchContext& pass) const {
    const Tensor loss = run(pass);
    torch::autograd::backward({loss}, {});
    return loss.item<double>();
  }

  const std::vector<std::string>& names() const { return names_; }
  Tensor gradient(std::size_t i) const { return parameters_[i].grad(); }

 private:
  Model model_;
  std::vector<std::string> names_;
  std::vector<Tensor> parameters_;
};

MicrobatchContext pass_of(const Tensor& tokens, const Tensor& place = {}, const Tensor& targets = {}) {
  MicrobatchContext pass{.training = true};
  pass.batch[Field::Tokens] = tokens;
  pass.batch[Field::Positions] = place;
  pass.batch[Field::Targets] = targets;
  pass.batch[Field::LossScale] = at::full({1}, 1.0 / 28, at::kDouble);
  return pass;
}

class PackedModel : public testing::TestWithParam<ModelConfig> {};

TEST_P(PackedModel, GivesWhatItsDocumentsGiveAlone) {
  const Made packed(GetParam()), apart(GetParam());
  const Tensor tokens = random_tokens({kRows, kLength}, 29, 1);
  const Tensor targets = random_tokens({kRows, kLength}, 29, 2);
  for (const Document& document : kDocuments)
    document.of(targets).narrow(1, document.length - 1, 1).fill_(-100);

  const Tensor logits = packed.run(pass_of(tokens, positions()));
  EXPECT_GT(difference(packed.run(pass_of(tokens)), logits), 1e-2);  // as one document
  double loss = 0;
  for (const Document& document : kDocuments) {
    SCOPED_TRACE(testing::Message() << document.row << ", " << document.first);
    expect_close(document.of(logits), apart.run(pass_of(document.of(tokens))), 2e-6);
    loss += apart.step(pass_of(document.of(tokens), {}, document.of(targets)));
  }
  EXPECT_NEAR(packed.step(pass_of(tokens, positions(), targets)), loss, 2e-6 * loss);
  for (std::size_t i = 0; i < packed.names().size(); ++i) {
    SCOPED_TRACE(packed.names()[i]);
    expect_close(packed.gradient(i), apart.gradient(i), 5e-6);
  }
}

ModelConfig small_gpt() {
  return {.layers = 2,
          .width = 16,
          .heads = 2,
          .vocab = 29,
          .context = kLength,
          .tied = false,
          .reset_documents = true};
}

ModelConfig grouped_llama() {
  ModelConfig config = small_gpt();
  config.family = "llama";
  config.heads = 4;
  config.kv_heads = 2;
  config.hidden = 20;
  config.rope_scaling = "llama3";
  config.rope_factor = 4;
  config.rope_original_context = 6;
  return config;
}

ModelConfig stretched_qwen3() {
  ModelConfig config = grouped_llama();
  config.kv_heads = 1;
  config.head_size = 6;
  config.qk_norm = true;
  config.rope_scaling = "linear";
  return config;
}

INSTANTIATE_TEST_SUITE_P(Families, PackedModel,
                         testing::Values(small_gpt(), grouped_llama(), stretched_qwen3()),
                         [](const auto& info) { return info.param.qk_norm ? "qwen3" : info.param.family; });

}  // namespace packed
}  // namespace
}  // namespace twobw::models
