#include "runtime/process_gpus.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/runtime/device_refusal.h"

namespace twobw::runtime {
namespace {

using Names = std::vector<std::string>;

constexpr int kOld = 22809, kNew = 23007;  // versions of NCCL

HostDevices host_with(const std::string& machine, Names gpus, int nccl = kOld, bool shares = false) {
  return {.host = "node-" + machine,
          .machine = machine,
          .cores = {0},
          .gpus = std::move(gpus),
          .has_bfloat16 = true,
          .nccl = nccl,
          .nccl_shares_gpus = shares};
}

Config config_with(int stages, int replicas, Names devices = {}) {
  Config config;
  config.pipeline.stages = stages;
  config.pipeline.replicas = replicas;
  config.train.precision = "bf16";
  config.devices = std::move(devices);
  return config;
}

Names names_of(const Config& config, const std::vector<HostDevices>& hosts) {
  Names all;
  for (const device::Device& device : devices_of_processes(config, hosts))
    all.push_back(device::describe(device));
  return all;
}

TEST(ProcessGpus, TheProcessesOfAHostShareThemInTheirOrder) {
  const HostDevices two = host_with("a", {"A", "B"});
  EXPECT_EQ(names_of(config_with(2, 1), {two, two}), (Names{"cuda:0", "cuda:1"}));
  const HostDevices four = host_with("a", {"A", "B", "C", "D"});
  EXPECT_EQ(names_of(config_with(2, 2), {four, four}), (Names{"cuda:0", "cuda:1", "cuda:2", "cuda:3"}));
  const HostDevices other = host_with("b", {"C", "D"});
  EXPECT_EQ(names_of(config_with(4, 1), {two, two, other, other}),
            (Names{"cuda:0", "cuda:1", "cuda:0", "cuda:1"}));
}

TEST(ProcessGpus, WhatALauncherGaveToEachIsItsOwn) {
  EXPECT_EQ(names_of(config_with(2, 1), {host_with("a", {"A"}), host_with("a", {"B"})}),
            (Names{"cuda:0", "cuda:0"}));
  EXPECT_EQ(names_of(config_with(2, 2), {host_with("a", {"A"}), host_with("a", {"B"})}),
            (Names{"cuda:0/2.0", "cuda:0/2.1", "cuda:0/2.0", "cuda:0/2.1"}));
}

TEST(ProcessGpus, AListHasAnEntryForEach) {
  const HostDevices two = host_with("a", {"A", "B"});
  EXPECT_EQ(names_of(config_with(2, 1, {"cuda:1", "cuda:0"}), {two, two}), (Names{"cuda:1", "cuda:0"}));
  EXPECT_EQ(names_of(config_with(4, 1, {"cuda:0/2", "cuda:1/2"}), {two, two}),
            (Names{"cuda:0/2.0", "cuda:0/2.1", "cuda:1/2.0", "cuda:1/2.1"}));
  EXPECT_EQ(device_refusal(config_with(2, 1, {"cuda:0", "cuda:2"}), {two, two}),
            "devices has 'cuda:2' for process 1 on node-a, which sees 2 GPUs");
}

// As one process would slice it, so that libraries choose the same algorithms.
TEST(ProcessGpus, OneIsSharedWhereNcclCan) {
  const HostDevices one = host_with("a", {"A"}, kNew, true);
  EXPECT_EQ(names_of(config_with(2, 1), {one, one}), (Names{"cuda:0/2.0", "cuda:0/2.1"}));
  EXPECT_EQ(names_of(config_with(2, 1, {"cuda:0", "cuda:0"}), {one, one}), (Names{"cuda:0", "cuda:0"}));
}

TEST(ProcessGpus, ElseThatIsRefusedInASentence) {
  const HostDevices old = host_with("a", {"A"}, kOld, true), unasked = host_with("a", {"A"}, kNew);
  EXPECT_EQ(
      device_refusal(config_with(2, 1), {old, old}),
      "processes 0 and 1 would share cuda:0 of node-a, which NCCL 2.28.9 does not allow (from 2.30 on it "
      "can); start at most as many processes as there are GPUs, or one without a launcher, which serves "
      "all of them");
  EXPECT_EQ(device_refusal(config_with(2, 1), {unasked, unasked}),
            "processes 0 and 1 would share cuda:0 of node-a, which NCCL allows with "
            "NCCL_MULTI_RANK_GPU_ENABLE=1 alone; start at most as many processes as there are GPUs, or one "
            "without a launcher, which serves all of them");
}

TEST(ProcessGpus, WhatCannotComputeThereIsRefused) {
  const HostDevices two = host_with("a", {"A", "B"});
  HostDevices without = two;
  without.nccl = 0;
  EXPECT_NE(device_refusal(config_with(2, 1), {without, without}).find("built without NCCL"),
            std::string::npos);
  HostDevices elder = host_with("b", {"C"});
  elder.has_bfloat16 = false;
  EXPECT_EQ(device_refusal(config_with(2, 1), {two, elder}),
            "train.precision is bf16, which a GPU of node-b does not have; it must be fp16 or fp32");
  EXPECT_NE(device_refusal(config_with(1, 34), {two, two}).find("at most 32 are allowed"), std::string::npos);
}

TEST(ProcessGpus, AreTakenUnaskedIn16BitsWhereAllHaveSome) {
  const HostDevices with = host_with("a", {"A"}), without = host_with("b", {});
  EXPECT_TRUE(on_gpus(config_with(2, 1), {with, with}));
  EXPECT_FALSE(on_gpus(config_with(2, 1), {without, without}));
  Config config = config_with(2, 1);
  config.train.precision = "fp32";
  EXPECT_FALSE(on_gpus(config, {with, with}));
  EXPECT_NE(device_refusal(config_with(2, 1), {with, without})
                .find("process 1 on node-b has no GPU and others have"),
            std::string::npos);
}

TEST(ProcessGpus, PlansAreForAsManyOfEach) {
  const HostDevices two = host_with("a", {"A", "B"}), five = host_with("a", {"A", "B", "C", "D", "E"});
  const Config open = config_with(3, 1);  // what the plan decides on is not looked at
  EXPECT_EQ(devices_to_plan_for(open, {two, two}), (Names{"cuda:0", "cuda:1"}));
  EXPECT_EQ(devices_to_plan_for(open, {five, five}), (Names{"cuda:0", "cuda:1", "cuda:2", "cuda:3"}));
  EXPECT_EQ(devices_to_plan_for(open, {five, host_with("b", {"F"})}), (Names{"cuda:0", "cuda:0"}));
  EXPECT_EQ(devices_to_plan_for(open, {host_with("a", {"A", "B"}), host_with("a", {"C", "D"})}),
            (Names{"cuda:0", "cuda:1", "cuda:0", "cuda:1"}));
}

TEST(ProcessGpus, PlansAreForSlicesWhereTheyShareOne) {
  const HostDevices one = host_with("a", {"A"}, kNew, true), two = host_with("b", {"B", "C"}, kNew, true);
  EXPECT_EQ(devices_to_plan_for(config_with(1, 1), {one, one}), (Names{"cuda:0/2.0", "cuda:0/2.1"}));
  EXPECT_EQ(devices_to_plan_for(config_with(1, 1), {two, two, two, two}),
            (Names{"cuda:0/2.0", "cuda:0/2.1", "cuda:1/2.0", "cuda:1/2.1"}));
  EXPECT_THROW(devices_to_plan_for(config_with(1, 1), {host_with("a", {"A"}), host_with("a", {"A"})}),
               InputError);
}

TEST(ProcessGpus, PlansAreForThoseThatAreNamed) {
  const HostDevices one = host_with("a", {"A"}, kNew, true);
  Config config = config_with(1, 40, {"cuda:0/4"});  // so many replicas no plan has
  config.train.precision = "fp32";
  EXPECT_EQ(devices_to_plan_for(config, {one, one}),
            (Names{"cuda:0/4.0", "cuda:0/4.1", "cuda:0/4.2", "cuda:0/4.3"}));
  EXPECT_THROW(devices_to_plan_for(config, {one, one, one}), InputError);
  EXPECT_THROW(devices_to_plan_for(config_with(1, 1, {"cuda:0", "cuda:1"}), {one, one}), InputError);
  HostDevices without = one;
  without.nccl = 0;
  EXPECT_THROW(devices_to_plan_for(config, {without, without}), InputError);
}

}  // namespace
}  // namespace twobw::runtime
