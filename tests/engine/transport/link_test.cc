// Links between CPUs; those between GPUs are in tests/cuda_torch.
#include "engine/transport/link.h"

#include "tests/engine/transport/link_contract.h"

namespace twobw::transport {
namespace {

struct LocalOnCpu {
  static std::string missing() { return {}; }
  static device::Device sender() { return {}; }
  static device::Device receiver() { return {}; }
  static std::unique_ptr<Link> make(WaitHub& hub) { return local_link(hub); }
  static constexpr bool kHandsOver = true;
};

INSTANTIATE_TYPED_TEST_SUITE_P(LocalOnCpu, Links, LocalOnCpu);

TEST(Tags, AreNamedAsTheyAppearInReports) {
  EXPECT_EQ(describe(Tag{Tag::Kind::Activation, 7}), "activation of microbatch 7");
  EXPECT_EQ(describe(Tag{Tag::Kind::Gradient, 7}), "gradient of microbatch 7");
  EXPECT_EQ(describe(Tag{Tag::Kind::Evaluation, 7}), "activation of validation microbatch 7");
  EXPECT_EQ(describe(Tag{Tag::Kind::TiedGradient, 7}), "tied gradient of update 7");
}

TEST(LocalLinkDeathTest, SendingATagTwiceIsABug) {
  WaitHub hub(Seconds(60));
  const auto link = local_link(hub);
  link->send({Tag::Kind::Gradient, 1}, number(1));
  EXPECT_DEATH(link->send({Tag::Kind::Gradient, 1}, number(1)), "gradient of microbatch 1 sent twice");
}

}  // namespace
}  // namespace twobw::transport
