// What every kind of link promises, run over all of them: a new kind is one more entry in kinds().
#include "transport/link.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "transport/hub.h"

namespace twobw::transport {
namespace {

using at::Tensor;
using Kind = Tag::Kind;
using Seconds = std::chrono::duration<double>;

constexpr Seconds kLong{60};  // only a failing test waits so long

// The two ends of a link, and whatever keeps them going.
class Ends {
 public:
  virtual ~Ends() = default;
  virtual Link& sender() = 0;
  virtual Link& receiver() = 0;
  virtual void cancel() = 0;
};

class LocalEnds : public Ends {
 public:
  explicit LocalEnds(Seconds timeout) : hub_(timeout), link_(local_link(hub_)) {}
  Link& sender() override { return *link_; }
  Link& receiver() override { return *link_; }
  void cancel() override { hub_.cancel(); }

 private:
  Hub hub_;
  std::unique_ptr<Link> link_;
};

struct LinkKind {
  std::string name;
  std::function<std::unique_ptr<Ends>(Seconds timeout)> make;
  bool hands_over;  // the tensor itself arrives, not a copy
};

std::vector<LinkKind> kinds() {
  return {
      {"Local", [](Seconds timeout) { return std::make_unique<LocalEnds>(timeout); }, /*hands_over=*/true}};
}

class Links : public testing::TestWithParam<LinkKind> {
 protected:
  std::unique_ptr<Ends> ends(Seconds timeout = kLong) const { return GetParam().make(timeout); }
};

INSTANTIATE_TEST_SUITE_P(AllKinds, Links, testing::ValuesIn(kinds()),
                         [](const auto& info) { return info.param.name; });

Tensors number(double value) {
  return {at::full({3}, value)};
}

bool same(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Tensor& x, const Tensor& y) { return at::equal(x, y); });
}

TEST_P(Links, CarryTensorsInOrder) {
  const auto link = ends();
  for (int k = 0; k < 4; ++k) {
    link->receiver().expect({Kind::Activation, k});
    link->sender().send({Kind::Activation, k}, number(k));
  }
  for (int k = 0; k < 4; ++k) EXPECT_TRUE(same(link->receiver().receive({Kind::Activation, k}), number(k)));
}

TEST_P(Links, FindATensorByItsTagInAnyOrder) {
  const auto link = ends();
  const std::vector<Tag> tags = {{Kind::Activation, 5},
                                 {Kind::Activation, 4},
                                 {Kind::Gradient, 5},
                                 {Kind::Evaluation, 5},
                                 {Kind::TiedGradient, 5}};
  for (std::size_t i = 0; i < tags.size(); ++i) link->sender().send(tags[i], number(static_cast<double>(i)));
  for (std::size_t i = tags.size(); i-- > 0;) {
    EXPECT_TRUE(same(link->receiver().receive(tags[i]), number(static_cast<double>(i)))) << describe(tags[i]);
  }
}

TEST_P(Links, ATagMayComeAgainOnceItWasReceived) {
  const auto link = ends();
  for (double value : {1.0, 2.0}) {
    link->sender().send({Kind::Evaluation, 0}, number(value));
    EXPECT_TRUE(same(link->receiver().receive({Kind::Evaluation, 0}), number(value)));
  }
}

TEST_P(Links, KeepShapeAndType) {
  const auto link = ends();
  const Tensor sent = at::arange(24, at::kLong).view({2, 3, 4});
  link->sender().send({Kind::Activation, 0}, {sent});
  const Tensor received = link->receiver().receive({Kind::Activation, 0}).front();
  EXPECT_EQ(received.scalar_type(), at::kLong);
  EXPECT_EQ(received.sizes(), sent.sizes());
  EXPECT_TRUE(at::equal(received, sent));
}

// A cut in the middle of a residual branch sends two.
TEST_P(Links, CarrySeveralTensorsUnderOneTagInOrder) {
  const auto link = ends();
  const Tensors sent = {at::full({4, 2}, 1.0), at::full({3}, 2.0)};
  link->sender().send({Kind::Activation, 0}, sent);
  EXPECT_TRUE(same(link->receiver().receive({Kind::Activation, 0}), sent));
}

TEST_P(Links, OfOneProcessCopyNothing) {
  if (!GetParam().hands_over) GTEST_SKIP() << "this kind copies";
  const auto link = ends();
  Tensor sent = number(1).front();
  const void* data = sent.data_ptr();
  link->sender().send({Kind::Activation, 0}, {std::move(sent)});
  const Tensor received = link->receiver().receive({Kind::Activation, 0}).front();
  EXPECT_EQ(received.data_ptr(), data);
  EXPECT_EQ(received.use_count(), 1u);  // and keep nothing
}

TEST_P(Links, AReceiverWaitsForTheSender) {
  const auto link = ends();
  std::latch about_to_wait(1);
  auto received = std::async(std::launch::async, [&] {
    about_to_wait.count_down();
    return link->receiver().receive({Kind::Gradient, 3});
  });
  about_to_wait.wait();
  link->sender().send({Kind::Gradient, 2}, number(2));  // not the one it waits for
  link->sender().send({Kind::Gradient, 3}, number(3));
  EXPECT_TRUE(same(received.get(), number(3)));
}

TEST_P(Links, CarryManyTensorsBetweenThreads) {
  constexpr int kMany = 500;
  const auto link = ends();
  std::jthread sender([&] {
    for (int k = 0; k < kMany; ++k) link->sender().send({Kind::Activation, k}, {at::full({1}, k, at::kLong)});
  });
  for (int k = 0; k < kMany; ++k) {
    ASSERT_EQ(link->receiver().receive({Kind::Activation, k}).front().item<std::int64_t>(), k);
  }
}

TEST_P(Links, AWaitThatLastsTooLongSaysWhatItWaitedFor) {
  const auto link = ends(Seconds(0.01));
  link->sender().send({Kind::Activation, 6}, number(6));
  try {
    link->receiver().receive({Kind::Activation, 7});
    FAIL() << "received what was never sent";
  } catch (const WaitTimeout& error) {
    EXPECT_NE(std::string(error.what()).find("activation of microbatch 7"), std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(same(link->receiver().receive({Kind::Activation, 6}), number(6)));  // the rest still works
}

TEST_P(Links, ACancellationEndsEveryWait) {
  const auto link = ends();
  constexpr int kWaiting = 3;
  std::latch about_to_wait(kWaiting);
  std::vector<std::future<Tensors>> waiting;
  for (int k = 0; k < kWaiting; ++k) {
    waiting.push_back(std::async(std::launch::async, [&, k] {
      about_to_wait.count_down();
      return link->receiver().receive({Kind::Activation, k});
    }));
  }
  about_to_wait.wait();
  link->cancel();
  for (auto& wait : waiting) EXPECT_THROW(wait.get(), Cancelled);
  EXPECT_THROW(link->receiver().receive({Kind::Gradient, 0}), Cancelled);  // and those to come
}

TEST(Tags, AreNamedAsTheyAppearInReports) {
  EXPECT_EQ(describe(Tag{Kind::Activation, 7}), "activation of microbatch 7");
  EXPECT_EQ(describe(Tag{Kind::Gradient, 7}), "gradient of microbatch 7");
  EXPECT_EQ(describe(Tag{Kind::Evaluation, 7}), "activation of validation microbatch 7");
  EXPECT_EQ(describe(Tag{Kind::TiedGradient, 7}), "tied gradient of update 7");
}

TEST(LocalLinkDeathTest, SendingATagTwiceIsABug) {
  LocalEnds link(kLong);
  link.sender().send({Kind::Gradient, 1}, number(1));
  EXPECT_DEATH(link.sender().send({Kind::Gradient, 1}, number(1)), "gradient of microbatch 1 sent twice");
}

}  // namespace
}  // namespace twobw::transport
