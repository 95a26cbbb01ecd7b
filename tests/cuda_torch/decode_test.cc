// A decoder on a GPU against the CPU's, its steps captured in graphs.
#include <ATen/core/grad_mode.h>

#include <functional>
#include <thread>

#include "device/device.h"
#include "inference/decoder.h"
#include "inference/step_graphs.h"
#include "models/ops.h"
#include "on_gpu.h"
#include "tests/inference/small_models.h"

namespace twobw::inference {
namespace {
namespace on_gpu {

using at::Tensor;
using models::relative_error;
using Tokens = std::vector<std::int64_t>;

// Besides the odd ones, one whose sizes all kernels of steps take.
std::vector<std::pair<std::string, ModelConfig>> all_models() {
  auto all = made_up::small_models();
  ModelConfig even = all[1].second;
  even.width = 64;
  even.heads = 4;
  even.hidden = 96;
  all.emplace_back("even", even);
  ModelConfig normed = even;
  normed.qk_norm = normed.tied = true;
  all.emplace_back("even qwen3", normed);
  return all;
}

class DecodingOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device::gpu_count() == 0) GTEST_SKIP() << "no GPU here";
  }

  // Graphs are captured on the stream of a worker's thread.
  static void on_worker(const std::function<void()>& work) {
    std::thread([&] {
      const device::DeviceBinding binding("test", {.gpu = GpuSlice{}});
      at::NoGradGuard no_grad;
      work();
    }).join();
  }

  static Stage stage_on(const models::Model& model, const at::TensorOptions& compute) {
    Stage stage = made_up::whole_model(model);
    stage.compute = compute;
    for (Tensor& parameter : stage.parameters) parameter = parameter.to(compute);
    return stage;
  }
  // Logits of three rows after their prompts and after every step.
  static std::vector<Tensor> decode(const models::Model& model, const at::TensorOptions& compute) {
    const Stage stage = stage_on(model, compute);
    DecodingStage part(stage, model, 3, made_up::kContext);
    Decoder decoder(part);
    std::vector<Tensor> logits;
    const std::vector<int> lengths = {1, 4, 9};
    for (std::size_t row = 0; row < 3; ++row)
      logits.push_back(
          decoder.begin(static_cast<std::int64_t>(row), made_up::made_up_tokens(lengths[row], row)));
    for (std::int64_t step = 0; step < 6; ++step) {
      logits.push_back(decoder.step(made_up::made_up_tokens(3, 40 + step),
                                    {lengths[0] + step, lengths[1] + step, lengths[2] + step}));
    }
    return logits;
  }
};

TEST_F(DecodingOnGpu, StepsAreThoseOfTheCpu) {
  on_worker([] {
    for (const auto& [name, config] : all_models()) {
      SCOPED_TRACE(name);
      const models::Model model = models::build(config);
      const std::vector<Tensor> on_cpu = decode(model, at::kFloat);
      const std::vector<Tensor> in_float = decode(model, at::TensorOptions(at::kCUDA).dtype(at::kFloat));
      const std::vector<Tensor> in_bfloat16 =
          decode(model, at::TensorOptions(at::kCUDA).dtype(at::kBFloat16));
      const std::vector<Tensor> in_half = decode(model, at::TensorOptions(at::kCUDA).dtype(at::kHalf));
      for (std::size_t i = 0; i < on_cpu.size(); ++i) {
        EXPECT_LT(relative_error(in_float[i], on_cpu[i]), 1e-5) << "logits " << i;
        EXPECT_LT(relative_error(in_bfloat16[i], on_cpu[i]), 0.05) << "logits " << i;
        EXPECT_LT(relative_error(in_half[i], on_cpu[i]), 0.01) << "logits " << i;
      }
    }
  });
}

TEST_F(DecodingOnGpu, TheGpuTakesTheLikeliestItself) {
  const auto check = [](const ModelConfig& config, at::ScalarType type) {
    const models::Model model = models::build(config);
    const Stage stage = stage_on(model, at::TensorOptions(at::kCUDA).dtype(type));
    const auto greedy = [&](bool by_itself) {
      DecodingStage part(stage, model, 2, made_up::kContext);
      Decoder decoder(part);
      Tokens tokens = {0, 0}, seen = {5, 3};
      std::vector<Tokens> all;
      for (const std::int64_t row : {0, 1})
        tokens[row] =
            decoder.begin(row, made_up::made_up_tokens(seen[row], row)).argmax().item<std::int64_t>();
      if (by_itself) decoder.likeliest()->begin_likeliest(tokens, seen);
      for (int step = 0; step < 10; ++step) {
        if (by_itself) {
          all.push_back(decoder.likeliest()->next_likeliest());
          continue;
        }
        const Tensor next = decoder.step(tokens, seen).argmax(1);
        for (const std::int64_t row : {0, 1}) {
          tokens[row] = next[row].item<std::int64_t>();
          ++seen[row];
        }
        all.push_back(tokens);
      }
      return all;
    };
    EXPECT_EQ(greedy(true), greedy(false));
  };
  on_worker([&] {
    for (const auto& [name, config] : all_models()) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
        SCOPED_TRACE(name + " in " + c10::toString(type));
        check(config, type);
      }
    }
  });
}

TEST_F(DecodingOnGpu, ARowsBitsAreItsOwn) {
  on_worker([] {
    for (const auto& [name, config] : all_models()) {
      if (!name.starts_with("even")) continue;  // the others have products that libraries compute
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
        SCOPED_TRACE(name + " in " + c10::toString(type));
        const models::Model model = models::build(config);
        const Stage stage = stage_on(model, at::TensorOptions(at::kCUDA).dtype(type));
        // The logits after two steps.
        const auto decode_rows = [&](const Tokens& rows) {
          const std::int64_t count = std::ssize(rows);
          DecodingStage part(stage, model, count, made_up::kContext);
          Decoder decoder(part);
          Tokens tokens, seen;
          for (std::int64_t i = 0; i < count; ++i) {
            decoder.begin(i, made_up::made_up_tokens(rows[i] + 2, rows[i]));
            tokens.push_back(rows[i]);
            seen.push_back(rows[i] + 2);
          }
          decoder.step(tokens, seen);
          for (std::int64_t& places : seen) ++places;
          return decoder.step(tokens, seen);
        };
        const Tensor together = decode_rows({0, 1, 2, 3, 4, 5, 6, 7});
        for (const std::int64_t row : {0, 3, 7})
          EXPECT_TRUE(at::equal(decode_rows({row})[0], together[row])) << "row " << row;
      }
    }
  });
}

TEST_F(DecodingOnGpu, ProductsOfAStepAreThoseOfManyRows) {
  using namespace models;
  on_worker([] {
    for (const std::int64_t rows : {1, 3, 8}) {
      const Tensor x = normal({rows, 1, 96}, 1).cuda(), weight = normal({50, 96}, 2).cuda(),
                   bias = normal({50}, 3).cuda(), residual = normal({rows, 1, 50}, 4).cuda();
      const Tensor whole = at::linear(x, weight, bias);
      EXPECT_LT(relative_error(ops::linear(x, weight, bias), whole), kFloatTolerance);
      EXPECT_LT(relative_error(ops::linear_add(x, weight, bias, residual), whole + residual),
                kFloatTolerance);
    }
  });
}

}  // namespace on_gpu
}  // namespace
}  // namespace twobw::inference
