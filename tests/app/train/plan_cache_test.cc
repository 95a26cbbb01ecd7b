// When a resumed run keeps its plan, and which keys it takes from it.
#include "app/train/decision.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "tests/engine/checkpoint/testing.h"

namespace twobw::train {
namespace {

const std::vector<runtime::HostDevices> kHosts = {{.host = "a", .machine = "1", .cores = {0, 1}, .gpus = {}},
                                                  {.host = "a", .machine = "1", .cores = {2, 3}, .gpus = {}},
                                                  {.host = "b", .machine = "2", .cores = {0, 1}, .gpus = {}}};

class KeptPlan : public testing::Test {
 protected:
  KeptPlan() {
    asked_.plan = "auto";
    asked_.run_dir = folder_.path("run");
    asked_.resume = "auto";
    std::filesystem::create_directory(asked_.run_dir);
    Config planned = asked_;
    planned.plan = "none";
    planned.pipeline.stages = 3;
    planned.pipeline.extra = 2;
    planned.pipeline.split = {5, 9, 8};
    planned.devices = {"cpu:0", "cpu:1", "cpu:2"};
    write_text(asked_.run_dir + "/config.yaml", to_yaml(planned));
    write_planned_for(asked_.run_dir, planned_for(asked_, kHosts));
  }

  std::optional<Config> kept(const Config& asked, const std::vector<runtime::HostDevices>& hosts = kHosts) {
    return with_cached_plan(asked, planned_for(asked, hosts),
                            [this](const std::string& line) { said_ += line + "\n"; });
  }

  testing_files::TemporaryFolder folder_;
  Config asked_;
  std::string said_;
};

TEST_F(KeptPlan, IsThatOfTheRunWhileNothingElseIsAsked) {
  asked_.train.updates = 5000;
  asked_.optimizer.lr = 1e-4;
  const auto kept = this->kept(asked_);
  ASSERT_TRUE(kept.has_value());
  EXPECT_EQ(kept->plan, "none");
  EXPECT_EQ(kept->pipeline.stages, 3);
  EXPECT_EQ(kept->pipeline.extra, 2);
  EXPECT_EQ(kept->pipeline.split, (std::vector<int>{5, 9, 8}));
  EXPECT_EQ(kept->devices, (std::vector<std::string>{"cpu:0", "cpu:1", "cpu:2"}));
  EXPECT_EQ(kept->train.updates, 5000);
  EXPECT_EQ(kept->resume, "auto");
}

TEST_F(KeptPlan, IsOfMachinesWhateverTheyAreCalled) {
  std::vector<runtime::HostDevices> others = kHosts;
  for (runtime::HostDevices& host : others) host.host += "'", host.machine += "'";
  EXPECT_TRUE(kept(asked_, others).has_value());
}

TEST_F(KeptPlan, IsNoneForOtherDevicesOrAnotherPipeline) {
  for (const std::function<void(std::vector<runtime::HostDevices>&)>& change :
       std::vector<std::function<void(std::vector<runtime::HostDevices>&)>>{
           [](auto& hosts) { hosts.pop_back(); }, [](auto& hosts) { hosts[1].machine = "3"; },
           [](auto& hosts) { hosts[2].cores = {0}; }, [](auto& hosts) { hosts[0].gpus = {"GPU-1"}; }}) {
    std::vector<runtime::HostDevices> hosts = kHosts;
    change(hosts);
    EXPECT_FALSE(kept(asked_, hosts).has_value());
  }
  for (const auto& change :
       std::vector<std::function<void(Config&)>>{[](Config& config) { config.pipeline.microbatches = 16; },
                                                 [](Config& config) { config.model.layers = 3; },
                                                 [](Config& config) { config.train.precision = "bf16"; },
                                                 [](Config& config) { config.devices = {"cpu:1"}; }}) {
    Config config = asked_;
    change(config);
    EXPECT_FALSE(kept(config).has_value());
  }
}

TEST_F(KeptPlan, IsNoneWhereNothingWasPlanned) {
  write_text(asked_.run_dir + "/planned_for.json", "{");
  EXPECT_FALSE(kept(asked_).has_value());
  EXPECT_EQ(said_, fmt::format("warning: '{}/planned_for.json' is damaged; the run is planned again\n",
                               asked_.run_dir));
  std::filesystem::remove(asked_.run_dir + "/planned_for.json");
  EXPECT_FALSE(kept(asked_).has_value());
}

// With defaults for the keys that are lost, it would be another plan.
TEST_F(KeptPlan, IsNotTakenFromACutFile) {
  const std::string file = asked_.run_dir + "/config.yaml", text = read_text("", file);
  for (const std::size_t size : {std::size_t{0}, std::size_t{4096}}) {
    write_text(file, text.substr(0, size));
    EXPECT_THROW(kept(asked_), InputError) << size;
  }
}

}  // namespace
}  // namespace twobw::train
