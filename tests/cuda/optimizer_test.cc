// The optimizer's kernel against the loops of the CPU.
#include "engine/optim/kernels.h"

#include "buffer.h"
#include "engine/optim/kernels_cuda.h"

namespace twobw::optim {
namespace {

constexpr std::int64_t kSize = 3 * cuda::kPieceSize + 17;
constexpr float kDecay = 0.1f;
constexpr AdamWRule kAdamW = {.learning_rate = 1e-2f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f};

// Equal states on CPU and GPU; the first 100 parameters have no decay.
struct Sides {
  std::vector<float> master = normal(kSize, 1), moment1 = std::vector<float>(kSize),
                     moment2 = std::vector<float>(kSize), compute = master;
  Buffer<float> on_master{master}, on_moment1{moment1}, on_moment2{moment2};
  Buffer<float> on_gradient{static_cast<std::size_t>(kSize)};
  Buffer<double> norm{1}, partial{64};
  Buffer<cuda::Control> control{std::vector<cuda::Control>(1)};
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
          const std::vector<float>& gradient, double clip) {
  // The GPU.
  ASSERT_EQ(
      cudaMemcpy(sides.on_gradient.data(), gradient.data(), kSize * sizeof(float), cudaMemcpyHostToDevice),
      cudaSuccess);
  const Buffer<int> all{std::vector<int>{0, piece_count}};
  cuda::squared_norms(sides.on_gradient.data(), pieces.data(), piece_count, all.data(), 1,
                      sides.partial.data(), sides.norm.data(), nullptr);
  cuda::prepare(sides.norm.data(), clip, sides.control.data(), nullptr);
  cuda::apply(kAdamW,
              StreamsOf<Compute>{.source = sides.on_master.data(),
                                 .target = sides.on_master.data(),
                                 .gradient = sides.on_gradient.data(),
                                 .moment1 = sides.on_moment1.data(),
                                 .moment2 = sides.on_moment2.data(),
                                 .compute = on_compute.data(),
                                 .n = kSize},
              pieces.data(), piece_count, sides.control.data(), nullptr);
  cuda::count_update(sides.control.data(), nullptr);
  // The CPU.
  std::vector<float> own = gradient;
  const double norm = std::sqrt(squared_norm(own.data(), kSize));
  const Streams streams{.source = sides.master.data(),
                        .target = sides.master.data(),
                        .gradient = own.data(),
                        .moment1 = sides.moment1.data(),
                        .moment2 = sides.moment2.data(),
                        .compute = sides.compute.data(),
                        .n = kSize};
  if (!std::isfinite(norm)) return skip(streams);
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
  apply(rule, streams.from(0, 100));
  rule.decay = kDecay;
  apply(rule, streams.from(100, kSize - 100));
}

template <typename Compute>
void expect_like_the_cpu() {
  Sides sides;
  const std::vector<cuda::Piece> pieces = sides.pieces();
  const Buffer<cuda::Piece> on_pieces(pieces);
  const auto count = static_cast<int>(pieces.size());
  Buffer<Compute> on_compute{rounded<Compute>(sides.compute)};
  for (unsigned t = 0; t < 6; ++t) {
    std::vector<float> gradient = normal(kSize, 10 + t, 0.1f);
    if (t == 3) gradient[kSize / 2] = NAN;  // skipped
    step(sides, on_pieces, count, on_compute, gradient, t % 2 == 0 ? 1e9 : 1.0);
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

TEST_F(OptimizerOnGpu, WritesRoundedWeightsInHalf) {
  expect_like_the_cpu<__half>();
}

// A scaled gradient gives the same update as the unscaled one; a skip halves the scale.
TEST_F(OptimizerOnGpu, DividesByTheLossScale) {
  const auto prepared = [](double squared_norm, const LossScaling& scaling) {
    const Buffer<double> norm{std::vector<double>{squared_norm}};
    Buffer<cuda::Control> control{std::vector<cuda::Control>{{.scaling = scaling}}};
    cuda::prepare(norm.data(), /*clip=*/1.0, control.data(), nullptr);
    cuda::count_update(control.data(), nullptr);
    return control.read()[0];
  };
  const LossScaling scaling{.current = 1024, .next = 2048, .window = 100};
  const cuda::Control plain = prepared(16.0, {}), scaled = prepared(16.0 * 1024 * 1024, scaling);
  EXPECT_EQ(scaled.squared_norm, plain.squared_norm);
  EXPECT_EQ(scaled.last_scale, plain.last_scale);
  EXPECT_EQ(scaled.gradient_scale, plain.gradient_scale / 1024);
  EXPECT_EQ(scaled.loss_scale, 1024);
  EXPECT_EQ(scaled.applied, 1);
  EXPECT_EQ(scaled.scaling,
            (LossScaling{.current = 2048, .next = 2048, .clean = 1, .window = 100, .judged = 1}));
  const cuda::Control skipped = prepared(INFINITY, scaling);
  EXPECT_EQ(skipped.applied, 0);
  EXPECT_EQ(skipped.scaling, (LossScaling{.current = 2048, .next = 512, .window = 100, .judged = 1}));
}

// A fused step and prediction equals two separate passes, and the CPU's loops.
template <typename Compute>
void expect_prediction_like_the_cpu(bool skip) {
  constexpr float kRatio = 1.6f;
  const auto on_pieces_of = [](float decay) {
    std::vector<cuda::Piece> pieces;
    cuda::add_pieces(pieces, 0, kSize, decay);
    return pieces;
  };
  const std::vector<cuda::Piece> pieces = on_pieces_of(kDecay);
  const Buffer<cuda::Piece> on_pieces{pieces};
  const auto count = static_cast<int>(pieces.size());
  std::vector<float> master = normal(kSize, 1), moment1 = normal(kSize, 2, 0.1f),
                     moment2 = normal(kSize, 3, 0.1f);
  for (float& value : moment2) value *= value;
  const std::vector<float> gradient = normal(kSize, 4, 0.1f);
  std::vector<float> ahead = normal(kSize, 5, 0.1f);
  ahead[7] = INFINITY;  // predicts nothing
  const cuda::Control now{.gradient_scale = 0.5f, .skip = skip ? 1 : 0, .applied = 3, .last_scale = 0.5f};
  AdamWRule coming = kAdamW;
  coming.learning_rate *= 0.9f;

  struct Side {
    Side(const std::vector<float>& of_master, const std::vector<float>& first,
         const std::vector<float>& second, const std::vector<float>& of_gradient, const cuda::Control& at)
        : master(of_master),
          moment1(first),
          moment2(second),
          gradient(of_gradient),
          control(std::vector{at}) {}
    Buffer<float> master, moment1, moment2, gradient;
    Buffer<Compute> compute{static_cast<std::size_t>(kSize)};
    Buffer<cuda::Control> control;
  };
  const Buffer<float> on_ahead{ahead};
  const auto streams = [&](Side& side) {
    return StreamsOf<Compute>{.source = side.master.data(),
                              .target = side.master.data(),
                              .gradient = side.gradient.data(),
                              .moment1 = side.moment1.data(),
                              .moment2 = side.moment2.data(),
                              .compute = side.compute.data(),
                              .partial_gradient = on_ahead.data(),
                              .n = kSize};
  };
  Side fused(master, moment1, moment2, gradient, now), apart(master, moment1, moment2, gradient, now);
  cuda::apply_and_predict(kAdamW, coming, kRatio, streams(fused), on_pieces.data(), count,
                          fused.control.data(), nullptr);
  StreamsOf<Compute> alone = streams(apart);
  alone.compute = nullptr;
  cuda::apply(kAdamW, alone, on_pieces.data(), count, apart.control.data(), nullptr);
  cuda::count_update(apart.control.data(), nullptr);
  cuda::predict(coming, kRatio, streams(apart), on_pieces.data(), count, apart.control.data(), nullptr);
  EXPECT_EQ(fused.master.read(), apart.master.read());
  EXPECT_EQ(fused.moment1.read(), apart.moment1.read());
  EXPECT_EQ(fused.moment2.read(), apart.moment2.read());
  EXPECT_EQ(widened(fused.compute.read()), widened(apart.compute.read()));
  for (const float value : fused.gradient.read()) ASSERT_EQ(value, 0);

  std::vector<float> own = gradient, compute(kSize);
  const Streams on_cpu{.source = master.data(),
                       .target = master.data(),
                       .gradient = own.data(),
                       .moment1 = moment1.data(),
                       .moment2 = moment2.data(),
                       .compute = compute.data(),
                       .partial_gradient = ahead.data(),
                       .n = kSize};
  const auto rule = [](const AdamWRule& adamw, double n, float scale) {
    return AdamWRule{.learning_rate = adamw.learning_rate,
                     .beta1 = adamw.beta1,
                     .beta2 = adamw.beta2,
                     .eps = adamw.eps,
                     .decay = kDecay,
                     .correction1 = static_cast<float>(1.0 - std::pow(static_cast<double>(adamw.beta1), n)),
                     .root_correction2 =
                         static_cast<float>(std::sqrt(1.0 - std::pow(static_cast<double>(adamw.beta2), n))),
                     .gradient_scale = scale};
  };
  if (skip) {
    predict(rule(coming, 4, 0.5f * kRatio), on_cpu);
  } else {
    apply_and_predict(rule(kAdamW, 4, 0.5f), rule(coming, 5, 0.5f * kRatio), on_cpu);
  }
  expect_near(fused.master.read(), {master.begin(), master.end()}, 1e-6);
  expect_near(widened(fused.compute.read()), {compute.begin(), compute.end()},
              sizeof(Compute) == 2 ? 4e-3 : 1e-6);
  EXPECT_EQ(compute[7], master[7]);
}

TEST_F(OptimizerOnGpu, PredictsInThePassOfTheStep) {
  for (const bool skip : {false, true}) {
    expect_prediction_like_the_cpu<float>(skip);
    expect_prediction_like_the_cpu<__nv_bfloat16>(skip);
    expect_prediction_like_the_cpu<__half>(skip);
  }
}

TEST_F(OptimizerOnGpu, TheNormIsThatOfTheCpu) {
  const std::vector<float> values = normal(kSize, 3);
  std::vector<cuda::Piece> pieces;
  cuda::add_pieces(pieces, 0, kSize, 0);
  const Buffer<float> on_values{values};
  const Buffer<cuda::Piece> on_pieces{pieces};
  Buffer<double> partial{pieces.size()}, sum{1};
  // Two norms, the first of one piece.
  const int count = static_cast<int>(pieces.size());
  const Buffer<int> first{std::vector<int>{0, 1, count}};
  Buffer<double> norms{2};
  cuda::squared_norms(on_values.data(), on_pieces.data(), count, first.data(), 2, partial.data(),
                      norms.data(), nullptr);
  cuda::sum_norms(norms.data(), 2, sum.data(), nullptr);
  const std::int64_t cut = pieces[1].offset;
  EXPECT_NEAR(norms.read()[0] / squared_norm(values.data(), cut), 1, 1e-12);
  EXPECT_NEAR(norms.read()[1] / squared_norm(values.data() + cut, kSize - cut), 1, 1e-12);
  EXPECT_EQ(sum.read()[0], norms.read()[0] + norms.read()[1]);
}

// More norms than one thread block handles in a pass.
TEST_F(OptimizerOnGpu, ThereMayBeManyNorms) {
  constexpr int kNorms = 1003, kEach = 40;
  const std::vector<float> values = normal(kNorms * kEach, 4);
  std::vector<cuda::Piece> pieces;
  std::vector<int> firsts = {0};
  for (int norm = 0; norm < kNorms; ++norm) {
    cuda::add_pieces(pieces, norm * kEach, 30, 0);
    cuda::add_pieces(pieces, norm * kEach + 30, 10, 0);
    firsts.push_back(static_cast<int>(pieces.size()));
  }
  const Buffer<float> on_values{values};
  const Buffer<cuda::Piece> on_pieces{pieces};
  const Buffer<int> first{firsts};
  Buffer<double> partial{pieces.size()}, norms{kNorms}, sum{1};
  cuda::squared_norms(on_values.data(), on_pieces.data(), static_cast<int>(pieces.size()), first.data(),
                      kNorms, partial.data(), norms.data(), nullptr);
  cuda::sum_norms(norms.data(), kNorms, sum.data(), nullptr);
  const std::vector<double> made = norms.read();
  for (int norm = 0; norm < kNorms; ++norm)
    EXPECT_NEAR(made[norm] / squared_norm(values.data() + norm * kEach, kEach), 1, 1e-12) << norm;
  EXPECT_NEAR(sum.read()[0] / squared_norm(values.data(), kNorms * kEach), 1, 1e-12);
}

}  // namespace
}  // namespace twobw::optim
