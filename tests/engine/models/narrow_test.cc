// Operations in 16 bits on CPUs: as in single precision on the same numbers, up to the rounding of outputs.
// Gradients of parameters are summed in single precision and not rounded.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "engine/models/ops.h"
#include "engine/models/rotary.h"
#include "operations.h"

namespace twobw::models {
namespace {
namespace narrow {

using at::Tensor;

struct Case {
  const char* name;
  Operation operation;
  Inputs numbers;
  std::size_t first_parameter;  // parameters, which accumulate gradients, begin here
  // Tolerance of the parameters' gradients, in roundings; 0 if none of their inputs is rounded.
  double roundings = 0;
};

std::ostream& operator<<(std::ostream& out, const Case& test) {
  return out << test.name;
}

constexpr ops::Heads kHeads{.queries = 6, .keys = 2, .size = 4};

MicrobatchContext pass() {
  return {.training = true, .seed = 5, .update = 6, .microbatch = 7, .layer = 8};
}

Tensor row_of_tokens() {
  return random_tokens({2, 5}, 9, 4);
}

std::vector<Case> cases() {
  const ModelConfig llama{.family = "llama", .width = 24, .heads = 6, .context = 9, .kv_heads = 2};
  const Tensor scale = at::full({1}, 0.1, at::kDouble), lengths = at::tensor({5, 2}, at::kLong);
  return {
      {"linear",
       [](const Inputs& in) { return ops::linear(in[0], in[1], in[2]); },
       {normal({2, 5, 8}, 1), normal({6, 8}, 2), normal({6}, 3)},
       1},
      {"linear_add",
       [](const Inputs& in) { return ops::linear_add(in[0], in[2], {}, in[1]); },
       {normal({2, 5, 8}, 1), normal({2, 5, 6}, 3), normal({6, 8}, 2)},
       2},
      {"embedding",
       [](const Inputs& in) { return ops::embedding(in[0], row_of_tokens()); },
       {normal({9, 4}, 1)},
       0},
      {"embed",
       [](const Inputs& in) { return ops::embed(in[0], in[1], row_of_tokens()); },
       {normal({9, 4}, 1), normal({5, 4}, 2)},
       0},
      {"layer_norm",
       [](const Inputs& in) { return ops::layer_norm(in[0], in[1], in[2]); },
       {normal({2, 5, 8}, 1), normal({8}, 2), normal({8}, 3)},
       1},
      {"rms_norm",
       [](const Inputs& in) { return ops::rms_norm(in[0], in[1], 1e-2); },
       {normal({2, 5, 8}, 1), normal({8}, 2)},
       1},
      {"norm_heads",
       [](const Inputs& in) { return ops::norm_heads(in[0], kHeads, in[1], in[2], 1e-2); },
       {normal({2, 5, 40}, 1), normal({4}, 2), normal({4}, 3)},
       1},
      {"gelu", [](const Inputs& in) { return ops::gelu(in[0]); }, {normal({30, 1000}, 1)}, 1},
      {"erf_gelu", [](const Inputs& in) { return ops::erf_gelu(in[0]); }, {normal({3, 7}, 1)}, 1},
      {"swiglu", [](const Inputs& in) { return ops::swiglu(in[0]); }, {normal({3, 14}, 1)}, 1},
      {"rotate",
       [table = RotaryTable::of(llama)](const Inputs& in) {
         return ops::rotate(in[0], kHeads, table->angles(in[0].size(1), at::kCPU));
       },
       {normal({2, 5, 40}, 1)},
       1},
      {"grouped_attention",
       [](const Inputs& in) { return ops::grouped_attention(in[0], kHeads); },
       {normal({2, 5, 40}, 1)},
       1},
      {"causal_attention",
       [](const Inputs& in) { return ops::causal_attention(in[0], 2, 0.0, pass(), 0); },
       {normal({2, 5, 24}, 1)},
       1},
      {"causal_attention_with_dropout",
       [](const Inputs& in) { return ops::causal_attention(in[0], 2, 0.3, pass(), 4); },
       {normal({2, 5, 24}, 1)},
       1},
      {"full_attention",
       [lengths](const Inputs& in) { return ops::full_attention(in[0], 2, lengths, 0.0, pass(), 0); },
       {normal({2, 5, 24}, 1)},
       1},
      {"full_attention_with_dropout",
       [lengths](const Inputs& in) { return ops::full_attention(in[0], 2, lengths, 0.3, pass(), 0); },
       {normal({2, 5, 24}, 1)},
       1},
      {"last_token",
       [lengths](const Inputs& in) { return ops::last_token(in[0], lengths); },
       {normal({2, 5, 8}, 1)},
       1},
      {"dropout",
       [](const Inputs& in) { return ops::dropout(in[0], 0.3, pass(), 1); },
       {normal({4, 9}, 1)},
       1},
      {"head_loss",
       [scale](const Inputs& in) { return ops::head_loss(in[0], in[1], in[2], row_of_tokens(), scale); },
       {normal({2, 5, 8}, 1), normal({11, 8}, 2), normal({11}, 3)},
       1,
       8},
      {"squared_error",
       [scale](const Inputs& in) {
         return ops::squared_error(in[0], at::tensor({0.5, -2.0, 3.0}, at::kDouble), scale);
       },
       {normal({3, 1}, 1)},
       1},
  };
}

class Narrow : public testing::TestWithParam<std::tuple<Case, at::ScalarType>> {};

struct Results {
  Tensor out;
  Inputs gradients;
};

// Runs with `numbers` in this type; the parameters' gradients start at 1, in single precision.
Results run(const Case& test, const Inputs& numbers, at::ScalarType type, at::ScalarType outputs) {
  const Inputs inputs = leaves(numbers, type);
  for (std::size_t i = test.first_parameter; i < inputs.size(); ++i)
    inputs[i].mutable_grad() = at::ones(inputs[i].sizes(), at::kFloat);
  Results results{.out = test.operation(inputs)};
  const Tensor incoming = results.out.dim() == 0
                              ? at::ones({})
                              : normal(results.out.sizes(), 99).to(outputs).to(results.out.scalar_type());
  torch::autograd::backward({results.out}, {incoming});
  for (const Tensor& input : inputs) results.gradients.push_back(input.grad());
  return results;
}

TEST_P(Narrow, IsAsInSinglePrecisionButForRounding) {
  const auto& [test, type] = GetParam();
  const double rounding = type == at::kBFloat16 ? 1.0 / 256 : 1.0 / 2048;  // half a unit in the last place
  Inputs numbers;
  for (const Tensor& given : test.numbers) numbers.push_back(given.to(type).to(at::kFloat));
  const Results exact = run(test, numbers, at::kFloat, type), rounded = run(test, numbers, type, type);
  EXPECT_EQ(rounded.out.scalar_type(), rounded.out.dim() == 0 ? at::kFloat : type);
  expect_close(rounded.out, exact.out, 8 * rounding);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    SCOPED_TRACE("gradient of input " + std::to_string(i));
    const bool parameter = i >= test.first_parameter;
    EXPECT_EQ(rounded.gradients[i].scalar_type(), parameter ? at::kFloat : type);
    const double tolerance = parameter ? 1e-5 + test.roundings * rounding : 12 * rounding;
    expect_close(rounded.gradients[i], exact.gradients[i], tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Narrow,
                         testing::Combine(testing::ValuesIn(cases()),
                                          testing::Values(at::kBFloat16, at::kHalf)),
                         [](const auto& info) {
                           const bool bf16 = std::get<1>(info.param) == at::kBFloat16;
                           return std::string(std::get<0>(info.param).name) + (bf16 ? "_bf16" : "_fp16");
                         });

// The loss scale multiplies gradients, not the loss, and before they are rounded.
TEST(LossScale, MultipliesTheGradientsOfEveryHead) {
  const Tensor scale = at::full({1}, 0.1, at::kDouble), values = at::tensor({0.5, -2.0, 3.0}, at::kDouble);
  const auto cross_entropy = [&](const Inputs& in, const Tensor& times) {
    return ops::head_loss(in[0], in[1], {}, random_tokens({3}, 9, 4), scale, nullptr, times);
  };
  const auto squares = [&](const Inputs& in, const Tensor& times) {
    return ops::squared_error(ops::linear(in[0], in[1].narrow(0, 0, 1), {}), values, scale, times);
  };
  using Loss = std::function<Tensor(const Inputs&, const Tensor&)>;
  for (const Loss& loss : {Loss(cross_entropy), Loss(squares)}) {
    const Inputs numbers = {normal({3, 8}, 1), normal({9, 8}, 2)};
    const Inputs plain = leaves(numbers), times = leaves(numbers);
    const Tensor one = loss(plain, {}), other = loss(times, at::full({1}, 64.0, at::kDouble));
    EXPECT_EQ(one.item<float>(), other.item<float>());
    torch::autograd::backward({one, other}, {});
    for (std::size_t i = 0; i < numbers.size(); ++i)
      EXPECT_TRUE(at::equal(times[i].grad(), plain[i].grad() * 64));
  }
  // Without the loss scale this gradient would underflow in half precision.
  const Inputs half = leaves({normal({3, 8}, 1), normal({9, 8}, 2)}, at::kHalf);
  const Tensor tiny = at::full({1}, 1e-9, at::kDouble);
  torch::autograd::backward({ops::head_loss(half[0], half[1], {}, random_tokens({3}, 9, 4), tiny, nullptr,
                                            at::full({1}, 65536.0, at::kDouble))},
                            {});
  EXPECT_GT(half[0].grad().abs().max().item<float>(), 0);
}

}  // namespace narrow
}  // namespace
}  // namespace twobw::models
