#include "app/rendezvous/stores.h"

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <future>

#include "core/base/error.h"
#include "tests/engine/support/memory_control.h"
#include "tests/support/refusal.h"

namespace twobw::rendezvous {
namespace {

using std::chrono::milliseconds;

// Threads as ranks, each with its store.
class Stores : public testing::Test {
 protected:
  explicit Stores(milliseconds timeout = std::chrono::seconds(30))
      : controls_(control::controls_in_memory(3)) {
    for (const auto& control : controls_)
      stores_.push_back(c10::make_intrusive<ControlStore>(*control, timeout));
    for (const auto& control : controls_) control->start();
  }
  ~Stores() override {
    std::vector<std::future<void>> leaving;
    for (const auto& control : controls_) {
      leaving.push_back(std::async(std::launch::async, [&control] {
        try {
          control->leave();
        } catch (const RunError&) {  // after an abort
        }
      }));
    }
  }

  std::vector<std::unique_ptr<control::Control>> controls_;
  std::vector<c10::intrusive_ptr<ControlStore>> stores_;
};

TEST_F(Stores, WhatOneSetsAllGet) {
  for (int rank = 0; rank < 3; ++rank) stores_[rank]->set(std::to_string(rank), std::string(rank, 'x'));
  for (const auto& store : stores_) {
    for (int rank = 0; rank < 3; ++rank)
      EXPECT_EQ(store->get_to_str(std::to_string(rank)), std::string(rank, 'x'));
  }
}

TEST_F(Stores, WhoAsksBeforeItIsSetWaits) {
  auto asked = std::async(std::launch::async, [this] {
    stores_[2]->wait({"a", "b"});
    return stores_[2]->get_to_str("a") + stores_[2]->get_to_str("b");
  });
  EXPECT_FALSE(stores_[1]->check({"a"}));
  stores_[0]->set("b", std::string("right"));
  stores_[1]->set("a", std::string("left "));
  EXPECT_EQ(asked.get(), "left right");
  EXPECT_TRUE(stores_[1]->check({"a"}));
}

TEST_F(Stores, PrefixesAreKeptApart) {
  const auto prefixed = [this](int rank, const char* prefix) {
    return c10::make_intrusive<c10d::PrefixStore>(prefix, stores_[rank]);
  };
  prefixed(0, "one")->set("key", std::vector<std::uint8_t>{1, 0, 255});
  prefixed(0, "two")->set("key", std::vector<std::uint8_t>{});
  EXPECT_EQ(prefixed(1, "one")->get("key"), (std::vector<std::uint8_t>{1, 0, 255}));
  EXPECT_EQ(prefixed(1, "two")->get("key"), std::vector<std::uint8_t>());
}

TEST_F(Stores, ACloneHasTheSameValues) {
  const auto clone = stores_[1]->clone();
  stores_[0]->set("key", std::string("value"));
  EXPECT_EQ(clone->get_to_str("key"), "value");
}

TEST_F(Stores, AnAbortEndsTheWait) {
  auto asked = std::async(std::launch::async,
                          [this] { return error_of<RunError>([&] { stores_[1]->get("never"); }); });
  controls_[2]->abort("out of paper");
  EXPECT_NE(asked.get().find("out of paper"), std::string::npos);
}

TEST_F(Stores, AWaitHasAnEnd) {
  EXPECT_EQ(error_of<RunError>([&] { stores_[0]->wait({"never"}, milliseconds(1)); }),
            "timed out after 0.001 s waiting for the address of another process ('never')");
}

TEST_F(Stores, RefusesWhatGlooDoesNotAskFor) {
  EXPECT_THROW(stores_[0]->add("key", 1), RunError);
  EXPECT_THROW(stores_[0]->deleteKey("key"), RunError);
  EXPECT_THROW(stores_[0]->getNumKeys(), RunError);
  EXPECT_FALSE(stores_[0]->hasExtendedApi());
}

}  // namespace
}  // namespace twobw::rendezvous
