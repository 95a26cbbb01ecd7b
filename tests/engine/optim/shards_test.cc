#include "engine/optim/state.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/models/model.h"
#include "engine/optim/kernels.h"
#include "engine/optim/optimizer.h"

namespace twobw::optim {
namespace {

models::Model small_model() {
  return models::build({.layers = 2, .width = 32, .heads = 2, .vocab = 101, .context = 8, .tied = true});
}

OptimizerConfig optimizer_named(const char* name) {
  OptimizerConfig config;
  config.name = name;
  return config;
}

TEST(Shards, AreAllOfItOnceAndOfOneSize) {
  const models::Model model = small_model();
  for (const char* name : {"adamw", "sgd", "muon", "lamb"}) {
    for (const int last : {1, 6, 12}) {
      const weights::Layout layout(model.layers, 0, last);
      std::int64_t largest = 0;  // piece
      for (const weights::Parameter& parameter : layout.parameters())
        largest =
            std::max(largest, std::string(name) == "adamw" ? norm_piece(parameter.count) : parameter.count);
      for (const int replicas : {1, 2, 3, 8}) {
        const std::vector<weights::Range> shards = shards_of(optimizer_named(name), layout, replicas);
        ASSERT_EQ(std::ssize(shards), replicas);
        std::int64_t at = 0;
        for (const weights::Range& shard : shards) {
          EXPECT_EQ(shard.begin, at);
          EXPECT_LE(std::abs(shard.count - layout.size() / replicas), largest + 1);
          at = shard.end();
        }
        EXPECT_EQ(at, layout.size());
      }
    }
  }
}

TEST(Shards, LeaveParametersWholeWhereAnUpdateNeedsAllOfOne) {
  const weights::Layout layout(small_model().layers, 0, 12);
  for (const weights::Range& shard : shards_of(optimizer_named("lamb"), layout, 5)) {
    for (const weights::Parameter& parameter : layout.parameters()) {
      if (parameter.alias || !shard.holds(parameter.offset)) continue;
      EXPECT_LE(parameter.offset + parameter.count, shard.end()) << parameter.spec.name;
    }
  }
}

TEST(Shards, HaveTheNormsOfAllOneAfterTheOther) {
  const weights::Layout layout(small_model().layers, 0, 12);
  const at::Tensor gradient = at::arange(layout.gradient_size(), at::kFloat).sin();
  const std::vector<double> all = squared_norms(layout, gradient, {.count = layout.size()});
  for (const char* name : {"adamw", "muon"}) {
    std::vector<double> parts;
    for (const weights::Range& shard : shards_of(optimizer_named(name), layout, 4)) {
      const std::vector<double> of_shard = squared_norms(layout, gradient, shard);
      parts.insert(parts.end(), of_shard.begin(), of_shard.end());
    }
    EXPECT_EQ(parts, all);
  }
}

TEST(Shards, NormPiecesAreFewAndAlignedToLanes) {
  for (const std::int64_t n : {1, 63, 64, 65, 1000, 4096, 4097, 1'000'000, 51'463'168}) {
    const std::int64_t piece = norm_piece(n);
    EXPECT_GE(piece, 64);
    EXPECT_EQ(piece % 16, 0);
    EXPECT_LE((n + piece - 1) / piece, 64);
  }
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == b.numel() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), static_cast<std::size_t>(a.nbytes())) == 0;
}

// Each steps and predicts on its part of the same buffers.
TEST(Shards, TogetherMakeTheUpdateOfOneOptimizer) {
  const weights::Layout layout(small_model().layers, 0, 12);
  constexpr int kReplicas = 3;
  for (const char* name : {"adamw", "sgd", "lion", "lamb", "muon"}) {
    SCOPED_TRACE(name);
    const OptimizerConfig config = optimizer_named(name);
    const at::Tensor initial = at::arange(layout.size(), at::kFloat).cos();
    Optimizer whole(config, layout, initial, /*predicts=*/true);
    std::vector<Optimizer> parts;
    for (const weights::Range& shard : shards_of(config, layout, kReplicas))
      parts.emplace_back(config, layout, initial, true, at::kFloat, shard);
    for (int t = 0; t < 3; ++t) {
      const at::Tensor gradient = (at::arange(layout.gradient_size(), at::kFloat) * (t + 1)).sin();
      const at::Tensor one = gradient.clone(), expected = at::zeros({layout.size()}),
                       seen = at::zeros_like(expected);
      const Prediction next{
          .learning_rate = 1e-2, .ratio = 2, .gradient = gradient.neg(), .target = expected};
      whole.step(1e-2, squared_norms(layout, gradient, {.count = layout.size()}), one, initial, {}, &next);
      for (Optimizer& part : parts) {
        Prediction own = next;
        own.target = seen;
        const at::Tensor its = gradient.clone();
        part.step(1e-2, squared_norms(layout, gradient, {.count = layout.size()}), its, initial, {}, &own);
        EXPECT_EQ(its.count_nonzero().item<std::int64_t>(), 0);  // gradients of other shards are cleared, too
      }
      EXPECT_TRUE(same_bits(seen, expected)) << t;
    }
    std::vector<at::Tensor> masters;
    std::int64_t bytes = 0;
    for (const Optimizer& part : parts) {
      masters.push_back(part.state().master);
      bytes += part.state().bytes();
    }
    EXPECT_TRUE(same_bits(at::cat(masters), whole.state().master));
    EXPECT_EQ(bytes, whole.state().bytes());
  }
}

}  // namespace
}  // namespace twobw::optim
