#include "engine/runtime/process_devices.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/engine/runtime/device_refusal.h"

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

TEST(ProcessGpus, SharingIsRefusedInASentence) {
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

DeviceChoice choice(const std::string& precision, int stages, int replicas,
                    const std::vector<HostDevices>& hosts, const std::string& plan = "none") {
  Config config = config_with(stages, replicas);
  config.train.precision = precision;
  config.plan = plan;
  return choose_devices(config, hosts);
}

TEST(AutoDevices, GpusAreTakenIn16BitsIfAllProcessesHaveSome) {
  const HostDevices with = host_with("a", {"A"}), without = host_with("b", {});
  EXPECT_TRUE(choice("bf16", 2, 1, {with, with}).gpus);
  EXPECT_FALSE(choice("bf16", 2, 1, {without, without}).gpus);
  EXPECT_EQ(choice("bf16", 2, 1, {with}).reason, "on 1 GPU in slices, for 2 workers");
  EXPECT_NE(device_refusal(config_with(2, 1), {with, without})
                .find("process 1 on node-b has no GPU and others have"),
            std::string::npos);
}

TEST(AutoDevices, GpusAreTakenInFp32IfEachWorkerHasOne) {
  const HostDevices one = host_with("a", {"A"}), two = host_with("a", {"A", "B"}),
                    five = host_with("a", {"A", "B", "C", "D", "E"}), apart = host_with("b", {"F"});
  const auto taken = [](const DeviceChoice& choice) { return choice.gpus; };
  EXPECT_TRUE(taken(choice("fp32", 1, 1, {one})));
  EXPECT_TRUE(taken(choice("fp32", 2, 1, {two})));
  EXPECT_TRUE(taken(choice("fp32", 2, 2, {five})));
  EXPECT_TRUE(taken(choice("fp32", 2, 1, {two, two})));
  EXPECT_TRUE(taken(choice("fp32", 2, 1, {one, apart})));
  EXPECT_FALSE(taken(choice("fp32", 2, 1, {one})));
  EXPECT_FALSE(taken(choice("fp32", 2, 2, {two, two})));
  EXPECT_FALSE(taken(choice("fp32", 2, 2, {five, apart})));
  EXPECT_FALSE(taken(choice("fp32", 2, 1, {one, one})));  // also if NCCL could share it
  EXPECT_FALSE(taken(choice("fp32", 2, 1, {one, host_with("b", {})})));
  EXPECT_FALSE(taken(choice("fp32", 2, 1, {host_with("a", {})})));
}

TEST(AutoDevices, APlanInFp32NeedsOneGpuAProcess) {
  const HostDevices one = host_with("a", {"A"}), apart = host_with("b", {"F"});
  EXPECT_TRUE(choice("fp32", 4, 40, {one}, "auto").gpus);
  EXPECT_EQ(choice("fp32", 4, 1, {one, apart}, "auto").reason, "planning for 2 GPUs");
  EXPECT_FALSE(choice("fp32", 4, 1, {one, one}, "auto").gpus);
}

TEST(AutoDevices, AReasonNamesUnusedGpusAndTheWayToUseThem) {
  const HostDevices one = host_with("a", {"A"}), five = host_with("a", {"A", "B", "C", "D", "E"});
  HostDevices without = host_with("b", {"F"});
  without.nccl = 0;
  EXPECT_EQ(choice("fp32", 2, 1, {five}).reason,
            "on 2 GPUs, one for each worker, 3 unused: more stages, more replicas or plan=auto can use them");
  EXPECT_EQ(choice("fp32", 5, 1, {five}).reason, "on 5 GPUs, one for each worker");
  EXPECT_EQ(choice("fp32", 2, 1, {one}).reason,
            "on CPU cores, GPUs unused: fp32 needs one for each of 2 workers, found 1; set "
            "train.precision=bf16, or name slices in devices (cuda:0/2)");
  EXPECT_EQ(choice("fp32", 2, 1, {one, host_with("b", {})}).reason,
            "on CPU cores, GPUs unused: fp32 needs one for each worker, and process 1 on node-b has 0 for 1; "
            "start at most as many workers as there are GPUs");
  EXPECT_EQ(choice("fp32", 2, 1, {one, without}).reason,
            "on CPU cores, GPUs unused: this program was built without NCCL; without a launcher one process "
            "uses all GPUs of a host");
  EXPECT_NE(choice("fp32", 1, 33, {host_with("a", Names(33, "A"))}).reason.find("at most 32 are allowed"),
            std::string::npos);
  EXPECT_EQ(choose_devices(config_with(2, 1, {"cuda:0/2"}), {five}).reason, "");
}

TEST(AutoDevices, TheSameBitsInFp32AreThoseOfCpuCores) {
  Config config = config_with(1, 1);
  const std::vector<HostDevices> hosts = {host_with("a", {"A"})};
  EXPECT_TRUE(choose_devices(config, hosts, AutoDevices::SameBits).gpus);
  config.train.precision = "fp32";
  EXPECT_FALSE(choose_devices(config, hosts, AutoDevices::SameBits).gpus);
  EXPECT_FALSE(devices_of_processes(config, hosts, AutoDevices::SameBits).front().gpu);
  config.devices = {"cuda:0"};
  EXPECT_TRUE(choose_devices(config, hosts, AutoDevices::SameBits).gpus);
}

TEST(ProcessGpus, PlansAreForAsManyOfEach) {
  const HostDevices two = host_with("a", {"A", "B"}), five = host_with("a", {"A", "B", "C", "D", "E"});
  const Config open = config_with(3, 1);  // stages and replicas are the plan's to decide
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
  Config config = config_with(1, 40, {"cuda:0/4"});  // more replicas than any plan
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
