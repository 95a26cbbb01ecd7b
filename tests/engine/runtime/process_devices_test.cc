#include "engine/runtime/process_devices.h"

#include <gtest/gtest.h>

#include "core/base/codec.h"
#include "core/base/error.h"
#include "tests/engine/runtime/device_refusal.h"

namespace twobw::runtime {
namespace {

using Cores = std::vector<int>;

HostDevices host(const std::string& machine, Cores cores) {
  return {.host = "node-" + machine, .machine = machine, .cores = std::move(cores)};
}

std::vector<Cores> shares(const std::vector<HostDevices>& hosts) {
  std::vector<Cores> all;
  for (const device::CoreSet& set : share_cores(hosts)) all.push_back(set.cores);
  return all;
}

std::vector<std::string> names(const std::vector<device::Device>& devices) {
  std::vector<std::string> all;
  for (const device::Device& device : devices) all.push_back(device::describe(device));
  return all;
}

Config config_for(int stages, int replicas, std::vector<std::string> devices = {}) {
  Config config;
  config.pipeline.stages = stages;
  config.pipeline.replicas = replicas;
  config.devices = std::move(devices);
  return config;
}

TEST(ProcessDevices, TheProcessesOfAHostShareItsCores) {
  const Cores four = {0, 1, 2, 3};
  EXPECT_EQ(shares({host("a", four), host("a", four)}), (std::vector<Cores>{{0, 1}, {2, 3}}));
  EXPECT_EQ(shares({host("a", four), host("b", four), host("a", four)}),
            (std::vector<Cores>{{0, 1}, four, {2, 3}}));
  EXPECT_EQ(shares({host("a", {5}), host("a", {5}), host("a", {5})}), (std::vector<Cores>{{5}, {5}, {5}}));
}

TEST(ProcessDevices, WhatALauncherHasBoundStaysAsItIs) {
  EXPECT_EQ(shares({host("a", {0, 1}), host("a", {2, 3})}), (std::vector<Cores>{{0, 1}, {2, 3}}));
  EXPECT_EQ(shares({host("a", {0}), host("a", {1}), host("b", {0, 1})}),
            (std::vector<Cores>{{0}, {1}, {0, 1}}));
}

TEST(ProcessDevices, AreDealtOutToTheWorkersOfEach) {
  const std::vector<HostDevices> two = {host("a", {0, 1, 2, 3}), host("a", {0, 1, 2, 3})};
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(devices_of_processes(config_for(2, 1), two)), (Names{"cpu:0,1", "cpu:2,3"}));
  EXPECT_EQ(names(devices_of_processes(config_for(2, 2), two)), (Names{"cpu:0", "cpu:1", "cpu:2", "cpu:3"}));
  EXPECT_EQ(names(devices_of_processes(config_for(6, 1), two)),
            (Names{"cpu:0", "cpu:1", "cpu:0", "cpu:2", "cpu:3", "cpu:2"}));
}

TEST(ProcessDevices, AListHasAnEntryForEachAndIsHeldAgainstItsHost) {
  const std::vector<HostDevices> two = {host("a", {0, 1}), host("b", {6, 7})};
  const std::vector<std::string> list = {"cpu:1", "cpu:0", "cpu:7", "cpu:6,7"};
  EXPECT_EQ(names(devices_of_processes(config_for(4, 1, list), two)), list);
  EXPECT_NE(device_refusal(config_for(2, 1, {"cpu:6", "cpu:7"}), two).find("devices has 'cpu:6'"),
            std::string::npos);
}

TEST(ProcessDevices, RefusesWhatCannotBeShared) {
  const std::vector<HostDevices> two = {host("a", {0}), host("b", {0})};
  EXPECT_EQ(device_refusal(config_for(3, 1), two),
            "pipeline.stages 3 times pipeline.replicas 1 makes 3 workers, which 2 processes cannot share "
            "evenly; it must be a multiple of 2");
  EXPECT_EQ(device_refusal(config_for(2, 1, {"cuda:0", "cuda:1"}), two),
            "devices has 'cuda:0' for process 0 on node-a, which sees 0 GPUs");
}

TEST(ProcessDevices, PlansAreForAsManyCoresOfEach) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(devices_to_plan_for(config_for(1, 1), {host("a", {0, 1, 2}), host("b", {8, 9})}),
            (Names{"cpu:0", "cpu:1", "cpu:8", "cpu:9"}));
  const Names named = {"cpu:3", "cpu:4"};
  EXPECT_EQ(devices_to_plan_for(config_for(1, 1, named), {host("a", {3}), host("b", {4})}), named);
  EXPECT_THROW(devices_to_plan_for(config_for(1, 1, {"cpu:3"}), {host("a", {3}), host("b", {4})}),
               InputError);
}

TEST(HostDevices, AllOfItIsEncoded) {
  HostDevices given = host("a", {0, 5});
  given.gpus = {"first", "second"};
  given.has_bfloat16 = given.nccl_shares_gpus = true;
  given.nccl = 23007;
  EXPECT_EQ(from_bytes<HostDevices>(to_bytes(given)), given);
  EXPECT_EQ(host_devices().cores, device::available_cores());
  EXPECT_FALSE(host_devices().machine.empty());
}

}  // namespace
}  // namespace twobw::runtime
