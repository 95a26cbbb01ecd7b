// The optimizer's kernel against the loops of the CPU.
#include "optim/kernels.h"

#include "buffer.h"
#include "optim/kernels_cuda.h"
#include "optim/norms_cuda.h"

namespace twobw::optim {
namespace {

constexpr std::int64_t kSize = 3 * cuda::kPieceSize + 17;
constexpr float kDecay = 0.1f;
constexpr cuda::AdamW kAdamW = {.learning_rate = 1e-2f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f};

// The same state on both sides; the first 100 parameters have no decay.
struct Sides {
  std::vector<float> master = normal(kSize, 1), moment1 = std::vector<float>(kSize),
                     moment2 = std::vector<float>(kSize), update1 = std::vector<float>(kSize),
                     update2 = std::vector<float>(kSize), applied1 = std::vector<float>(kSize),
                     compute = master;
  Buffer<float> on_master{master}, on_moment1{moment1}, on_moment2{moment2}, on_update1{update1},
      on_update2{update2}, on_applied1{applied1};
  Buffer<float> on_gradient{static_cast<std::size_t>(kSize)};
  Buffer<double> norm{1}, partial{64};
  Buffer<cuda::Control> control{1};
  int applied = 0;

  std::vector<cuda::Piece> pieces() const {
    std::vector<cuda::Piece> result;
    cuda::add_pieces(result, 0, 100, 0);
    cuda::add_pieces(result, 100, kSize - 100, kDecay);
    return result;
  }
};

template <typename Compute>
void step(Sides& sides, const Buffer<cuda::Piece>& pieces, int piece_count, Buffer<Compute>& on_compute,
          const std::vector<float>& gradient, Extrapolation extrapolation, double clip) {
  // The GPU.
  ASSERT_EQ(
      cudaMemcpy(sides.on_gradient.data(), gradient.data(), kSize * sizeof(float), cudaMemcpyHostToDevice),
      cudaSuccess);
  const Buffer<int> all{std::vector<int>{0, piece_count}};
  cuda::squared_norms(sides.on_gradient.data(), pieces.data(), piece_count, all.data(), 1,
                      sides.partial.data(), sides.norm.data(), nullptr);
  cuda::prepare(sides.norm.data(), clip, sides.control.data(), nullptr);
  cuda::apply(kAdamW, extrapolation,
              StreamsOf<Compute>{.source = sides.on_master.data(),
                                 .target = sides.on_master.data(),
                                 .gradient = sides.on_gradient.data(),
                                 .moment1 = sides.on_moment1.data(),
                                 .moment2 = sides.on_moment2.data(),
                                 .update1 = sides.on_update1.data(),
                                 .update2 = sides.on_update2.data(),
                                 .compute = on_compute.data(),
                                 .applied1 = sides.on_applied1.data(),
                                 .n = kSize},
              pieces.data(), piece_count, sides.control.data(), nullptr);
  cuda::count_update(sides.control.data(), nullptr);
  // The CPU.
  std::vector<float> own = gradient;
  const double norm = std::sqrt(squared_norm(own.data(), kSize));
  if (sides.applied < 1) extrapolation.update = 0;
  if (sides.applied < 2) extrapolation.update2 = 0;
  const Streams streams{.source = sides.master.data(),
                        .target = sides.master.data(),
                        .gradient = own.data(),
                        .moment1 = sides.moment1.data(),
                        .moment2 = sides.moment2.data(),
                        .update1 = sides.update1.data(),
                        .update2 = sides.update2.data(),
                        .compute = sides.compute.data(),
                        .applied1 = sides.applied1.data(),
                        .n = kSize};
  if (!std::isfinite(norm)) return skip(extrapolation, streams);
  const double n = ++sides.applied;
  AdamWRule rule{
      .learning_rate = kAdamW.learning_rate,
      .beta1 = kAdamW.beta1,
      .beta2 = kAdamW.beta2,
      .eps = kAdamW.eps,
      .decay = 0,
      .correction1 = static_cast<float>(1.0 - std::pow(static_cast<double>(kAdamW.beta1), n)),
      .root_correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(static_cast<double>(kAdamW.beta2), n))),
      .gradient_scale = static_cast<float>(std::min(1.0, clip / (norm + 1e-6)))};
  apply(rule, extrapolation, streams.from(0, 100));
  rule.decay = kDecay;
  apply(rule, extrapolation, streams.from(100, kSize - 100));
}

template <typename Compute>
void expect_like_the_cpu() {
  Sides sides;
  const std::vector<cuda::Piece> pieces = sides.pieces();
  const Buffer<cuda::Piece> on_pieces(pieces);
  const auto count = static_cast<int>(pieces.size());
  Buffer<Compute> on_compute{rounded<Compute>(sides.compute)};
  const Extrapolation extrapolation{.update = 0.7f, .update2 = -0.2f, .weights = 0.5f, .weights2 = 0.1f};
  for (unsigned t = 0; t < 6; ++t) {
    std::vector<float> gradient = normal(kSize, 10 + t, 0.1f);
    if (t == 3) gradient[kSize / 2] = NAN;  // skipped
    step(sides, on_pieces, count, on_compute, gradient, extrapolation, t % 2 == 0 ? 1e9 : 1.0);
    SCOPED_TRACE(testing::Message() << "update " << t);
    expect_near(sides.on_master.read(), {sides.master.begin(), sides.master.end()}, 1e-6);
    expect_near(sides.on_moment2.read(), {sides.moment2.begin(), sides.moment2.end()}, 1e-6);
    expect_near(widened(on_compute.read()), {sides.compute.begin(), sides.compute.end()},
                sizeof(Compute) == 2 ? 4e-3 : 1e-6);
    for (const float value : sides.on_gradient.read()) ASSERT_EQ(value, 0);
    EXPECT_EQ(sides.control.read()[0].applied, sides.applied);
    EXPECT_EQ(sides.control.read()[0].skip, t == 3 ? 1 : 0);
  }
  EXPECT_EQ(sides.applied, 5);
}

using OptimizerOnGpu = CudaTest;

TEST_F(OptimizerOnGpu, IsThatOfTheCpuInFloat) {
  expect_like_the_cpu<float>();
}

TEST_F(OptimizerOnGpu, WritesRoundedWeightsInBfloat16) {
  expect_like_the_cpu<__nv_bfloat16>();
}

TEST_F(OptimizerOnGpu, TheNormIsThatOfTheCpu) {
  const std::vector<float> values = normal(kSize, 3);
  std::vector<cuda::Piece> pieces;
  cuda::add_pieces(pieces, 0, kSize, 0);
  const Buffer<float> on_values{values};
  const Buffer<cuda::Piece> on_pieces{pieces};
  Buffer<double> partial{pieces.size()}, sum{1};
  // Two parameters, the first of one piece.
  const int count = static_cast<int>(pieces.size());
  const Buffer<int> first{std::vector<int>{0, 1, count}};
  Buffer<double> norms{2};
  cuda::squared_norms(on_values.data(), on_pieces.data(), count, first.data(), 2, partial.data(),
                      norms.data(), nullptr);
  cuda::sum_in_order(norms.data(), 2, sum.data(), nullptr);
  const std::int64_t cut = pieces[1].offset;
  EXPECT_NEAR(norms.read()[0] / squared_norm(values.data(), cut), 1, 1e-12);
  EXPECT_NEAR(norms.read()[1] / squared_norm(values.data() + cut, kSize - cut), 1, 1e-12);
  EXPECT_EQ(sum.read()[0], norms.read()[0] + norms.read()[1]);
}

}  // namespace
}  // namespace twobw::optim
