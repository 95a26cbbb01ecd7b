#include "engine/transport/add_replicas_cuda.h"

#include <memory>

#include "buffer.h"

namespace twobw::transport {
namespace {

class AddReplicas : public CudaTest {
 protected:
  // The sum as a plain loop makes it, of buffers with another order of magnitude each, so that the order
  // shows.
  void check(int replicas, std::int64_t size) {
    std::vector<std::unique_ptr<Buffer<float>>> gradients;
    cuda::Buffers buffers;
    std::vector<float> expected;
    for (int replica = 0; replica < replicas; ++replica) {
      const auto values = normal(static_cast<std::size_t>(size), 7u + static_cast<unsigned>(replica),
                                 replica % 2 == 0 ? 1.0f : 1e4f);
      buffers.add(gradients.emplace_back(std::make_unique<Buffer<float>>(values))->data());
      if (replica == 0) expected.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        expected[i] = replica == 0 ? values[i] : expected[i] + values[i];
    }
    cuda::add_replicas(buffers, buffers, size, nullptr);
    for (const auto& gradient : gradients) EXPECT_EQ(gradient->read(), expected) << replicas << " x " << size;
  }
};

TEST_F(AddReplicas, IsTheSumInTheirOrderInEveryBuffer) {
  for (const int replicas : {1, 2, 3, 8, kMostReplicasOnGpus}) {
    for (const std::int64_t size : {1, 3, 4, 1023, 1024, 4099}) check(replicas, size);
  }
}

// More than there are threads, so that each comes by again.
TEST_F(AddReplicas, GoesOnToTheEndOfLargeBuffers) {
  check(2, (5 << 20) + 3);
}

TEST_F(AddReplicas, WritesOnlyWhereItIsTold) {
  const Buffer<float> one{{1, 2, 3, 4, 5}}, two{{10, 20, 30, 40, 50}};
  cuda::Buffers from, to;
  from.add(one.data());
  from.add(two.data());
  to.add(two.data());
  cuda::add_replicas(from, to, 5, nullptr);
  EXPECT_EQ(one.read(), (std::vector<float>{1, 2, 3, 4, 5}));
  EXPECT_EQ(two.read(), (std::vector<float>{11, 22, 33, 44, 55}));
}

}  // namespace
}  // namespace twobw::transport
