// Links between processes, here with both ends in one: the contract of all links, and their own.
#include "engine/transport/remote_link.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/engine/transport/link_contract.h"
#include "tests/engine/transport/path_in_memory.h"
#include "tests/engine/transport/wires.h"

namespace twobw::transport {
namespace {

OnFailure no_failure() {
  return [](const std::string& thread, const std::exception_ptr&) { ADD_FAILURE() << thread << " failed"; };
}

// Both ends, of two ranks.
class JoinedEnds final : public Link {
 public:
  JoinedEnds(WaitHub& hub, AllWires wires, const std::shared_ptr<GpuPath>& path = nullptr)
      : wires_(std::move(wires)),
        receiver_(receiving_end(hub, {.wire = *wires_[1],
                                      .peer = 0,
                                      .tag = 30,
                                      .name = "in",
                                      .on_failure = no_failure(),
                                      .gpu = path})),
        sender_(sending_end({.wire = *wires_[0],
                             .peer = 1,
                             .tag = 30,
                             .name = "out",
                             .on_failure = no_failure(),
                             .gpu = path})) {}

  void send(const Tag& tag, Tensors tensors) override { sender_->send(tag, std::move(tensors)); }
  Tensors receive(const Tag& tag) override { return receiver_->receive(tag); }

 private:
  AllWires wires_;
  std::unique_ptr<Link> receiver_, sender_;  // the sender ends first
};

struct RemoteInMemory {
  static std::string missing() { return {}; }
  static device::Device sender() { return {}; }
  static device::Device receiver() { return {}; }
  static std::unique_ptr<Link> make(WaitHub& hub) {
    return std::make_unique<JoinedEnds>(hub, wires_in_memory(2));
  }
  static constexpr bool kHandsOver = false;
};

struct RemoteOverGloo : RemoteInMemory {
  static std::string missing() { return built_with_gloo() ? "" : "built without Gloo"; }
  static std::unique_ptr<Link> make(WaitHub& hub) {
    return std::make_unique<JoinedEnds>(hub, wires_over_gloo(2));
  }
};

struct RemoteByPath : RemoteInMemory {
  static std::unique_ptr<Link> make(WaitHub& hub) {
    return std::make_unique<JoinedEnds>(hub, wires_in_memory(2), std::make_shared<PathInMemory>());
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(RemoteInMemory, Links, RemoteInMemory);
INSTANTIATE_TYPED_TEST_SUITE_P(RemoteByPath, Links, RemoteByPath);
INSTANTIATE_TYPED_TEST_SUITE_P(RemoteOverGloo, Links, RemoteOverGloo);

// Neither end closes before both have finished.
TEST(RemoteLink, DrainsItsPathAtBothEnds) {
  WaitHub hub(Seconds(60));
  const auto path = std::make_shared<PathInMemory>();
  {
    JoinedEnds link(hub, wires_in_memory(2), path);
    link.send({Tag::Kind::Activation, 0}, {at::ones({3})});
    EXPECT_EQ(path->drained(), 0);
    EXPECT_TRUE(link.receive({Tag::Kind::Activation, 0}).front().equal(at::ones({3})));
  }
  EXPECT_EQ(path->drained(), 2);
}

TEST(MessageHeader, DecodesWhatWasEncoded) {
  const MessageHeader sent{
      .tag = {Tag::Kind::Gradient, 1'000'000'000'000},
      .regular = true,
      .shapes = shapes_of({at::zeros({2, 3}), at::zeros({}, at::kLong), at::zeros({0, 4})})};
  const MessageHeader read = to_header(to_tensor(sent));
  EXPECT_FALSE(read.ends);
  EXPECT_EQ(read.tag, sent.tag);
  EXPECT_TRUE(read.regular);
  EXPECT_EQ(read.shapes, sent.shapes);
  EXPECT_TRUE(to_header(to_tensor({.ends = true})).ends);
  EXPECT_EQ(to_tensor(sent).sizes(), to_tensor({}).sizes());
}

// Microbatches of different widths, interleaved with evaluations of other shapes and messages without
// tensors.
TEST(RemoteLink, TakesShapesAsTheyCome) {
  WaitHub hub(Seconds(60));
  JoinedEnds link(hub, wires_in_memory(2));
  const auto of = [](int k) { return Tensors{at::full({2, k % 3 == 0 ? 8 : 5}, static_cast<float>(k))}; };
  for (int k = 0; k < 30; ++k) {
    link.send({Tag::Kind::Activation, k}, of(k));
    if (k % 4 == 0) link.send({Tag::Kind::Evaluation, k}, {at::full({k + 1}, 0.5f), at::full({1}, 2.0f)});
    if (k % 5 == 0) link.send({Tag::Kind::Taken, k}, {});
  }
  for (int k = 29; k >= 0; --k) {
    EXPECT_TRUE(same_bits(link.receive({Tag::Kind::Activation, k}), of(k))) << k;
    if (k % 4 == 0) {
      EXPECT_EQ(link.receive({Tag::Kind::Evaluation, k}).front().numel(), k + 1);
    }
    if (k % 5 == 0) {
      EXPECT_TRUE(link.receive({Tag::Kind::Taken, k}).empty());
    }
  }
}

// The sender may drop a tensor at once; the link keeps it until it has been received.
TEST(RemoteLink, KeepsTensorsUntilTheyAreReceived) {
  const AllWires wires = wires_in_memory(2);
  WaitHub hub(Seconds(60));
  auto sender =
      sending_end({.wire = *wires[0], .peer = 1, .tag = 0, .name = "out", .on_failure = no_failure()});
  for (int k = 0; k < 10; ++k) sender->send({Tag::Kind::Gradient, k}, number(k));
  const auto receiver =
      receiving_end(hub, {.wire = *wires[1], .peer = 0, .tag = 0, .name = "in", .on_failure = no_failure()});
  sender.reset();  // returns when all has gone
  for (int k = 0; k < 10; ++k)
    EXPECT_TRUE(same_bits(receiver->receive({Tag::Kind::Gradient, k}), number(k))) << k;
}

TEST(RemoteLink, EndsWhereItsWireIsAborted) {
  const AllWires wires = wires_in_memory(2);
  WaitHub hub(Seconds(60));
  auto sender =
      sending_end({.wire = *wires[0], .peer = 1, .tag = 0, .name = "out", .on_failure = no_failure()});
  auto receiver =
      receiving_end(hub, {.wire = *wires[1], .peer = 0, .tag = 0, .name = "in", .on_failure = no_failure()});
  wires[0]->abort();
  wires[1]->abort();
  sender->send({Tag::Kind::Gradient, 0}, number(0));
  sender.reset();
  receiver.reset();
}

}  // namespace
}  // namespace twobw::transport
