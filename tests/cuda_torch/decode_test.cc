// A decoder on a GPU against the CPU's, its steps captured in graphs.
#include <ATen/core/grad_mode.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <thread>

#include "base/error.h"
#include "device/device.h"
#include "inference/decoder.h"
#include "inference/gpu/told_tokens.h"
#include "inference/step_graphs.h"
#include "models/cuda/step_program.h"
#include "models/few_rows.h"
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

// Also where more steps have been queued than were asked for, by rows that begin anew or by fewer of them.
TEST_F(DecodingOnGpu, TheLikeliestBeginAnew) {
  on_worker([] {
    const models::Model model = models::build(all_models().back().second);
    const auto compute = at::TensorOptions(at::kCUDA).dtype(at::kBFloat16);
    const Stage stage = stage_on(model, compute);
    std::vector<models::KeyValues> caches;
    for (const models::LayerStep& step : model.steps) {
      models::KeyValues& cache = caches.emplace_back();
      if (!step.keeps) continue;
      for (Tensor* tensor : {&cache.keys, &cache.values})
        *tensor = at::zeros({2, step.keeps->keys, made_up::kContext, step.keeps->size}, compute);
      cache.arrived = at::zeros({2, step.keeps->queries}, compute.dtype(at::kInt));
    }
    const auto work = [&](const models::Step& step, const models::Tensors& inputs) {
      std::vector<models::KeyValues> of_rows = caches;
      for (models::KeyValues& cache : of_rows) {
        if (!cache.keys.defined()) continue;
        for (Tensor* tensor : {&cache.keys, &cache.values, &cache.arrived})
          *tensor = tensor->narrow(0, 0, step.tokens.size(0));
      }
      return models::run_steps(model, 0, model.size(), stage.parameters, inputs, step, of_rows);
    };
    const auto tokens_of = [](StepGraphs& graphs, const Tokens& first, int steps) {
      graphs.begin_likeliest(first, Tokens(first.size(), 0));
      std::vector<Tokens> all;
      for (int i = 0; i < steps; ++i) all.push_back(graphs.next_likeliest());
      return all;
    };
    models::cuda::steps_in_one_kernel() = false;
    const auto plain = make_step_graphs(work, compute, made_up::kContext, 1);
    const auto of_two = tokens_of(*plain, {3, 5}, 7), others = tokens_of(*plain, {4, 1}, 7),
               of_one = tokens_of(*plain, {3}, 7);
    const auto first_of = [](std::vector<Tokens> all, int steps) {
      all.resize(static_cast<std::size_t>(steps));
      return all;
    };
    for (const auto& [of_graph, in_one] :
         {std::pair{1, false}, {2, false}, {3, false}, {8, false}, {1, true}, {3, true}, {8, true}}) {
      SCOPED_TRACE(testing::Message() << of_graph << (in_one ? " in one kernel" : ""));
      models::cuda::steps_in_one_kernel() = in_one;
      const auto graphs = make_step_graphs(work, compute, made_up::kContext, of_graph);
      for (const int steps : {0, 1, 2, 3, 4, 7}) {
        SCOPED_TRACE(steps);
        EXPECT_EQ(tokens_of(*graphs, {3, 5}, steps), first_of(of_two, steps));
        EXPECT_EQ(tokens_of(*graphs, {4, 1}, steps), first_of(others, steps));
        EXPECT_EQ(tokens_of(*graphs, {3}, steps), first_of(of_one, steps));
      }
      const auto times = graphs->host_times();
      EXPECT_EQ(times.waits, 3 * (0 + 1 + 2 + 3 + 4 + 7));
      EXPECT_GE(times.launches, 3 * 6);
      const auto kernels = graphs->likeliest_nodes().kernels;
      EXPECT_TRUE(kernels % of_graph == 0 || (in_one && kernels == 1)) << kernels << " kernels";
    }
    models::cuda::steps_in_one_kernel() = true;
  });
}

TEST_F(DecodingOnGpu, TokensThatAreToldAreAwaited) {
  on_worker([] {
    ToldTokens told(3, 2);
    std::int64_t* written = told.on_gpu(1);
    const auto write = [&](const Tokens& tokens) {
      ASSERT_EQ(cudaMemcpy(written, tokens.data(), sizeof(std::int64_t) * tokens.size(), cudaMemcpyDefault),
                cudaSuccess);
    };
    int queries = 0;
    // One row's is there before the other's.
    write({7});
    EXPECT_EQ(told.await(1,
                         [&] {
                           if (++queries == 3) write({7, 0});
                           return cudaErrorNotReady;
                         }),
              (Tokens{7, 0}));
    EXPECT_EQ(queries, 3);
    EXPECT_EQ(told.await(1, [] { return cudaErrorIllegalAddress; }), (Tokens{7, 0}));  // they stay there

    told.clear(1, 1);
    EXPECT_THROW(told.await(1, [] { return cudaErrorIllegalAddress; }), RunError);
    EXPECT_THROW(told.await(1, [] { return cudaSuccess; }), RunError);
    // Written just before the GPU was done, after the host had looked.
    EXPECT_EQ(told.await(1,
                         [&] {
                           write({1, 2});
                           return cudaSuccess;
                         }),
              (Tokens{1, 2}));
    EXPECT_THROW(told.await(0, [] { return cudaSuccess; }),
                 RunError);  // the slots beside it are as they were
    EXPECT_THROW(told.await(2, [] { return cudaSuccess; }), RunError);
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
    const ops::DecodingScope decoding;
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
