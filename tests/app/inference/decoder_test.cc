// A decoder that keeps keys and values against the forward of whole sequences.
#include "app/inference/decoder.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "app/inference/stages.h"
#include "engine/device/device.h"
#include "small_models.h"

namespace twobw::inference {
namespace {
namespace decoding {

using at::Tensor;
using made_up::made_up_tokens;
using Tokens = std::vector<std::int64_t>;

double relative_difference(const Tensor& a, const Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

// Prompts of several lengths, and what follows them.
struct Sequences {
  std::vector<Tokens> prompts, following;

  Sequences() {
    for (const int length : {1, 4, 9}) {
      prompts.push_back(made_up_tokens(length, 10 + length));
      following.push_back(made_up_tokens(6, 50 + length));
    }
  }
  std::int64_t rows() const { return std::ssize(prompts); }
  Tokens until(std::size_t row, std::size_t step) const {
    Tokens tokens = prompts[row];
    tokens.insert(tokens.end(), following[row].begin(),
                  following[row].begin() + static_cast<std::ptrdiff_t>(step));
    return tokens;
  }
};

class Decoding : public ::testing::Test {
 protected:
  Decoding() { device::initialize(); }

  // Logits of every row after its prompt and after every token that follows: [steps + 1][rows, vocab].
  static std::vector<Tensor> decode(const models::Model& model, const std::vector<std::size_t>& rows) {
    const Sequences all;
    const Stage stage = made_up::whole_model(model);
    Decoder decoder(stage, model, std::ssize(rows), made_up::kContext);
    std::vector<Tensor> logits(1);
    std::vector<Tensor> first;
    for (std::size_t i = 0; i < rows.size(); ++i)
      first.push_back(decoder.begin(static_cast<std::int64_t>(i), all.prompts[rows[i]]));
    logits[0] = at::stack(first);
    for (std::size_t step = 0; step < all.following[0].size(); ++step) {
      Tokens tokens, seen;
      for (const std::size_t row : rows) {
        tokens.push_back(all.following[row][step]);
        seen.push_back(std::ssize(all.prompts[row]) + static_cast<std::int64_t>(step));
      }
      logits.push_back(decoder.step(tokens, seen));
    }
    return logits;
  }

  at::NoGradGuard no_grad_;
};

TEST_F(Decoding, StepsGiveTheLogitsOfWholeSequences) {
  for (const auto& [name, config] : made_up::small_models()) {
    SCOPED_TRACE(name);
    const models::Model model = models::build(config);
    ASSERT_FALSE(model.steps.empty());
    const std::vector<Tensor> logits = decode(model, {0, 1, 2});
    const Sequences all;
    const Stage stage = made_up::whole_model(model);
    for (std::size_t step = 0; step < logits.size(); ++step) {
      for (std::size_t row = 0; row < 3; ++row) {
        const Tokens tokens = all.until(row, step);
        models::MicrobatchContext pass;
        pass.batch[models::Field::Tokens] = at::tensor(tokens, at::kLong).unsqueeze(0);
        const Tensor whole =
            models::run_layers(model, 0, model.size(), stage.parameters, {}, pass).front()[0][-1];
        EXPECT_LT(relative_difference(logits[step][static_cast<std::int64_t>(row)], whole), 1e-5)
            << "row " << row << " after " << step << " steps";
      }
    }
  }
}

TEST_F(Decoding, ARowDoesNotDependOnTheOthers) {
  for (const auto& [name, config] : made_up::small_models()) {
    SCOPED_TRACE(name);
    const models::Model model = models::build(config);
    const std::vector<Tensor> together = decode(model, {0, 1, 2});
    for (const std::size_t row : {0, 1, 2}) {
      const std::vector<Tensor> alone = decode(model, {row});
      for (std::size_t step = 0; step < alone.size(); ++step) {
        EXPECT_TRUE(alone[step][0].equal(together[step][static_cast<std::int64_t>(row)]))
            << "row " << row << " after " << step << " steps";
      }
    }
  }
}

TEST_F(Decoding, AnglesThatDependOnTheLengthAreNotKept) {
  ModelConfig config = made_up::small_models()[1].second;
  config.rope_scaling = "dynamic";
  config.rope_factor = 2;
  config.rope_original_context = 8;
  EXPECT_TRUE(models::build(config).steps.empty());
  config.rope_original_context = config.context;
  EXPECT_FALSE(models::build(config).steps.empty());
}

}  // namespace decoding
}  // namespace
}  // namespace twobw::inference
