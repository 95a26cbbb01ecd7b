#include "core/launch/world.h"

#include <gtest/gtest.h>

#include <map>

#include "core/base/error.h"

namespace twobw::launch {
namespace {

using Values = std::map<std::string, std::string>;

Environment environment_of(const Values& values) {
  return [values](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

World world_of(const Values& values) {
  return read_world(environment_of(values));
}

Values with(Values values, const Values& others) {
  for (const auto& [name, value] : others) values[name] = value;
  return values;
}

Values without(Values values, const std::string& name) {
  values.erase(name);
  return values;
}

void expect_refused(const Values& values, const std::string& part) {
  try {
    world_of(values);
    ADD_FAILURE() << "accepted: " << part;
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

const Values kTorchrun = {{"RANK", "5"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"MASTER_ADDR", "node3"},
                          {"MASTER_PORT", "29400"},
                          {"TORCHELASTIC_RUN_ID", "abc"},
                          {"TORCHELASTIC_RESTART_COUNT", "2"},
                          {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Values kMpirun = {{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                        {"PMIX_NAMESPACE", "prterun-host-4711@1"}};
const Values kHydra = {{"PMI_RANK", "2"},
                       {"PMI_SIZE", "3"},
                       {"MPI_LOCALRANKID", "2"},
                       {"MPI_LOCALNRANKS", "3"},
                       {"MASTER_PORT", "29500"}};
const Values kSrun = {{"SLURM_PROCID", "5"},
                      {"SLURM_NTASKS", "6"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_NODEID", "2"},
                      {"SLURM_JOB_ID", "4711"},
                      {"SLURM_STEP_ID", "0"},
                      {"SLURM_STEP_NODELIST", "gpu[08-10]"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}};

TEST(World, WithoutALauncherTheProcessIsAlone) {
  const World world = world_of({});
  EXPECT_EQ(world.launcher, "alone");
  EXPECT_EQ(world.rank, 0);
  EXPECT_EQ(world.size, 1);
  EXPECT_EQ(world.local_size, 1);
  EXPECT_FALSE(world.agent_store);
  EXPECT_EQ(world_of({{"MASTER_ADDR", "node1"}, {"LOCAL_RANK", "3"}}).launcher, "alone");
}

TEST(World, Torchrun) {
  const World world = world_of(kTorchrun);
  EXPECT_EQ(world.launcher, "torchrun");
  EXPECT_EQ(world.rank, 5);
  EXPECT_EQ(world.size, 8);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 4);
  EXPECT_EQ(world.master_address, "node3");
  EXPECT_EQ(world.master_port, 29400);
  EXPECT_EQ(world.job, "abc.2");
  EXPECT_EQ(world.restart, 2);
  EXPECT_TRUE(world.agent_store);
  EXPECT_FALSE(world.on_one_host());
  EXPECT_NE(world_of(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "3"}})).job, world.job);
  EXPECT_FALSE(world_of(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).agent_store);
}

TEST(World, TheSameVariablesByHand) {
  const Values values = {{"RANK", "1"},
                         {"WORLD_SIZE", "2"},
                         {"LOCAL_RANK", "1"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", "29500"}};
  const World world = world_of(values);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.job, "127.0.0.1:29500.0");
  EXPECT_FALSE(world.agent_store);
  // On several hosts nobody knows how many are here.
  const char* const needed =
      "RANK is set, but LOCAL_WORLD_SIZE is not; several processes that no launcher starts need RANK, "
      "WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT";
  expect_refused(with(values, {{"MASTER_ADDR", "node3"}}), needed);
  expect_refused(without(values, "MASTER_PORT"), "MASTER_PORT is not; several processes that no launcher");
  EXPECT_EQ(world_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).size, 1);
}

TEST(World, TorchrunsVariablesMustFitTogether) {
  expect_refused(without(kTorchrun, "WORLD_SIZE"), "RANK is set, but WORLD_SIZE is not");
  expect_refused(without(kTorchrun, "RANK"), "WORLD_SIZE is set, but RANK is not");
  expect_refused(without(kTorchrun, "LOCAL_RANK"), "LOCAL_RANK is not");
  expect_refused(without(kTorchrun, "MASTER_ADDR"), "MASTER_ADDR is not");
  expect_refused(without(kTorchrun, "MASTER_PORT"), "MASTER_PORT is not");
  expect_refused(with(kTorchrun, {{"RANK", "8"}}), "RANK='8'; it must be a whole number from 0 to 7");
  expect_refused(with(kTorchrun, {{"RANK", "-1"}}), "RANK='-1'");
  expect_refused(with(kTorchrun, {{"RANK", "two"}}), "RANK='two'");
  expect_refused(with(kTorchrun, {{"RANK", "1x"}}), "RANK='1x'");
  expect_refused(with(kTorchrun, {{"RANK", ""}}), "RANK=''");
  expect_refused(with(kTorchrun, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE='0'");
  expect_refused(with(kTorchrun, {{"WORLD_SIZE", "99999999999"}}), "WORLD_SIZE='99999999999'");
  expect_refused(with(kTorchrun, {{"LOCAL_RANK", "4"}}), "LOCAL_RANK='4'");
  expect_refused(with(kTorchrun, {{"LOCAL_WORLD_SIZE", "9"}}), "LOCAL_WORLD_SIZE='9'");
  expect_refused(with(kTorchrun, {{"MASTER_PORT", "65536"}}), "MASTER_PORT='65536'");
  expect_refused(with(kTorchrun, {{"MASTER_ADDR", ""}}), "MASTER_ADDR=''");
  expect_refused(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "x"}}), "TORCHELASTIC_RESTART_COUNT='x'");
  expect_refused(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "yes"}}),
                 "TORCHELASTIC_USE_AGENT_STORE='yes'");
}

TEST(World, Mpirun) {
  const World world = world_of(kMpirun);
  EXPECT_EQ(world.launcher, "mpirun");
  EXPECT_EQ(world.rank, 1);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.master_address, "127.0.0.1");
  EXPECT_EQ(world.job, "mpirun.prterun-host-4711@1");
  EXPECT_GE(world.master_port, kFirstDerivedPort);
  EXPECT_LT(world.master_port, kFirstDerivedPort + kDerivedPorts);
  EXPECT_EQ(world_of(with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "0"}})).master_port, world.master_port);
  EXPECT_NE(world_of(with(kMpirun, {{"PMIX_NAMESPACE", "another"}})).master_port, world.master_port);
}

TEST(World, MpirunsTerminalIsNotTheUsers) {
  const auto is_users = [](const Values& values) {
    return terminal_is_users([&](const char* name) {
      const auto found = values.find(name);
      return found == values.end() ? std::nullopt : std::optional(found->second);
    });
  };
  EXPECT_FALSE(is_users(kMpirun));
  EXPECT_TRUE(is_users(kTorchrun));
  EXPECT_TRUE(is_users({}));
}

TEST(World, MpirunOnSeveralHostsNeedsTheHostOfRankZero) {
  const Values several =
      with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  expect_refused(several, "set MASTER_ADDR");
  const World world = world_of(with(several, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "4000"}}));
  EXPECT_EQ(world.master_address, "node1");
  EXPECT_EQ(world.master_port, 4000);
  expect_refused(without(kMpirun, "OMPI_COMM_WORLD_LOCAL_SIZE"), "OMPI_COMM_WORLD_LOCAL_SIZE is not");
  expect_refused(with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "2"}}), "OMPI_COMM_WORLD_RANK='2'");
  expect_refused(without(kMpirun, "PMIX_NAMESPACE"), "MASTER_PORT is not");
}

TEST(World, Pmi) {
  const World world = world_of(kHydra);
  EXPECT_EQ(world.launcher, "pmi");
  EXPECT_EQ(world.rank, 2);
  EXPECT_EQ(world.local_rank, 2);
  EXPECT_EQ(world.master_port, 29500);
  expect_refused(without(kHydra, "MASTER_PORT"), "PMI_RANK is set without PMI_JOBID, but MASTER_PORT is not");
  EXPECT_EQ(world_of(with(without(kHydra, "MASTER_PORT"), {{"PMI_JOBID", "7"}})).job, "pmi.7");
  expect_refused(without(kHydra, "MPI_LOCALRANKID"), "MPI_LOCALRANKID is not");
}

TEST(World, Srun) {
  const World world = world_of(kSrun);
  EXPECT_EQ(world.launcher, "srun");
  EXPECT_EQ(world.rank, 5);
  EXPECT_EQ(world.size, 6);
  EXPECT_EQ(world.local_rank, 1);
  EXPECT_EQ(world.local_size, 2);
  EXPECT_EQ(world.master_address, "gpu08");
  EXPECT_EQ(world.job, "4711.0.0");
  EXPECT_NE(world_of(with(kSrun, {{"SLURM_STEP_ID", "1"}})).master_port, world.master_port);
  EXPECT_NE(world_of(with(kSrun, {{"SLURM_RESTART_COUNT", "1"}})).job, world.job);
  EXPECT_EQ(world_of(with(kSrun, {{"MASTER_ADDR", "gpu09"}})).master_address, "gpu09");
  // srun --mpi=pmi2
  EXPECT_EQ(world_of(with(kSrun, {{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}, {"PMI_JOBID", "4711.0"}})).launcher,
            "srun");
}

TEST(World, SrunOnOneHost) {
  const World world =
      world_of(with(without(kSrun, "SLURM_STEP_TASKS_PER_NODE"), {{"SLURM_STEP_NODELIST", "gpu3"}}));
  EXPECT_EQ(world.local_size, 6);
  EXPECT_EQ(world.master_address, "127.0.0.1");
}

TEST(World, NodesOfAStepNeedNotBeAlike) {
  const Values uneven = with(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", "1,3,2"}});
  EXPECT_EQ(world_of(uneven).local_size, 2);
  EXPECT_EQ(world_of(with(uneven, {{"SLURM_NODEID", "1"}, {"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "2"}}))
                .local_size,
            3);
}

TEST(World, TheTasksOfABatchScriptAreNotRunning) {
  EXPECT_EQ(world_of(without(kSrun, "SLURM_STEP_ID")).launcher, "alone");
  EXPECT_EQ(world_of(with(kSrun, {{"SLURM_STEP_ID", "4294967290"}})).launcher, "alone");
}

TEST(World, SrunsVariablesMustFitTogether) {
  expect_refused(with(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}}), "has 3 hosts");
  expect_refused(with(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", "2,2,1"}}), "SLURM_NTASKS=6");
  expect_refused(with(kSrun, {{"SLURM_NODEID", "3"}}), "SLURM_NODEID='3'");
  expect_refused(with(kSrun, {{"SLURM_LOCALID", "2"}}), "SLURM_LOCALID='2'");
  expect_refused(with(kSrun, {{"SLURM_STEP_NODELIST", "gpu[08-"}}), "SLURM_STEP_NODELIST='gpu[08-'");
  expect_refused(without(kSrun, "SLURM_NTASKS"), "SLURM_NTASKS is not");
  expect_refused(without(kSrun, "SLURM_JOB_ID"), "SLURM_JOB_ID is not");
  expect_refused(without(kSrun, "SLURM_STEP_TASKS_PER_NODE"), "SLURM_STEP_TASKS_PER_NODE is not");
}

TEST(World, TheFirstLauncherOfTheOrderDecides) {
  EXPECT_EQ(world_of(with(with(kSrun, kMpirun), kTorchrun)).launcher, "torchrun");
  EXPECT_EQ(world_of(with(kSrun, kMpirun)).launcher, "mpirun");
  EXPECT_EQ(world_of(with(kSrun, kHydra)).launcher, "pmi");
}

TEST(World, OneThreadOfTorchrunsIsNoWish) {
  EXPECT_TRUE(omp_threads_are_torchruns(environment_of(with(kTorchrun, {{"OMP_NUM_THREADS", "1"}}))));
  EXPECT_FALSE(omp_threads_are_torchruns(environment_of(with(kTorchrun, {{"OMP_NUM_THREADS", "4"}}))));
  EXPECT_FALSE(omp_threads_are_torchruns(environment_of(kTorchrun)));
  EXPECT_FALSE(omp_threads_are_torchruns(environment_of({{"OMP_NUM_THREADS", "1"}})));
}

}  // namespace
}  // namespace twobw::launch
