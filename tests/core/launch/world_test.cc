#include "core/launch/world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "tests/support/refusal.h"

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

// "torchrun 5/8, local 1/4, node3:29400, abc.2"
std::string described(const Values& values) {
  const World world = world_of(values);
  return fmt::format("{} {}/{}, local {}/{}, {}:{}, {}{}", world.launcher, world.rank, world.size,
                     world.local_rank, world.local_size, world.master_address, world.master_port, world.job,
                     world.agent_store ? ", agent store" : "");
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
  const std::string sentence = error_of([&] { world_of(values); }, "accepted");
  EXPECT_NE(sentence.find(part), std::string::npos) << sentence << ", not " << part;
}

using Rows = std::vector<std::pair<std::string, std::string>>;

// The refusal names a variable that is missing, or a value and then its variable.
void expect_missing(const Values& values, const std::vector<std::string>& names) {
  for (const std::string& name : names) expect_refused(without(values, name), name + " is not");
}
void expect_bad(const Values& values, const Rows& rows) {
  for (const auto& [name, value] : rows)
    expect_refused(with(values, {{name, value}}), fmt::format("{}='{}'", name, value));
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
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"},
                      {"MASTER_PORT", "29500"}};

TEST(World, WithoutALauncherTheProcessIsAlone) {
  EXPECT_EQ(described({}), "alone 0/1, local 0/1, 127.0.0.1:0, alone");
  EXPECT_EQ(world_of({{"MASTER_ADDR", "node1"}, {"LOCAL_RANK", "3"}}).launcher, "alone");
}

TEST(World, Torchrun) {
  EXPECT_EQ(described(kTorchrun), "torchrun 5/8, local 1/4, node3:29400, abc.2, agent store");
  EXPECT_EQ(world_of(kTorchrun).restart, 2);
  EXPECT_FALSE(world_of(kTorchrun).on_one_host());
  EXPECT_NE(world_of(with(kTorchrun, {{"TORCHELASTIC_RESTART_COUNT", "3"}})).job, "abc.2");
  EXPECT_FALSE(world_of(with(kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).agent_store);
}

TEST(World, TheSameVariablesSetByTheUser) {
  const Values values = {{"RANK", "1"},
                         {"WORLD_SIZE", "2"},
                         {"LOCAL_RANK", "1"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"MASTER_PORT", "29500"}};
  EXPECT_EQ(described(values), "torchrun 1/2, local 1/2, 127.0.0.1:29500, 127.0.0.1:29500.0");
  // On several hosts the number of processes on this one is unknown.
  const char* const needed =
      "RANK is set, but LOCAL_WORLD_SIZE is not; several processes that no launcher starts need RANK, "
      "WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT";
  expect_refused(with(values, {{"MASTER_ADDR", "node3"}}), needed);
  expect_refused(without(values, "MASTER_PORT"), "MASTER_PORT is not; several processes that no launcher");
  EXPECT_EQ(world_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).size, 1);
}

TEST(World, TorchrunsVariablesMustFitTogether) {
  expect_missing(kTorchrun, {"WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"});
  expect_refused(with(kTorchrun, {{"RANK", "8"}}), "RANK='8'; it must be a whole number from 0 to 7");
  expect_bad(kTorchrun, {{"RANK", "-1"},
                         {"RANK", "two"},
                         {"RANK", "1x"},
                         {"RANK", ""},
                         {"WORLD_SIZE", "0"},
                         {"WORLD_SIZE", "99999999999"},
                         {"LOCAL_RANK", "4"},
                         {"LOCAL_WORLD_SIZE", "9"},
                         {"MASTER_PORT", "65536"},
                         {"MASTER_ADDR", ""},
                         {"TORCHELASTIC_RESTART_COUNT", "x"},
                         {"TORCHELASTIC_USE_AGENT_STORE", "yes"}});
}

TEST(World, Mpirun) {
  const World world = world_of(kMpirun);
  EXPECT_EQ(described(kMpirun), fmt::format("mpirun 1/2, local 1/2, 127.0.0.1:{}, mpirun.prterun-host-4711@1",
                                            world.master_port));
  EXPECT_GE(world.master_port, kFirstDerivedPort);
  EXPECT_LT(world.master_port, kFirstDerivedPort + kDerivedPorts);
  EXPECT_EQ(world_of(with(kMpirun, {{"OMPI_COMM_WORLD_RANK", "0"}})).master_port, world.master_port);
  EXPECT_NE(world_of(with(kMpirun, {{"PMIX_NAMESPACE", "another"}})).master_port, world.master_port);
  EXPECT_FALSE(terminal_is_users(environment_of(kMpirun)));
  EXPECT_TRUE(terminal_is_users(environment_of(kTorchrun)));
}

TEST(World, MpirunOnSeveralHostsNeedsTheHostOfRankZero) {
  const Values several =
      with(kMpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}});
  expect_refused(several, "set MASTER_ADDR");
  const World world = world_of(with(several, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "4000"}}));
  EXPECT_EQ(world.master_address, "node1");
  EXPECT_EQ(world.master_port, 4000);
  expect_missing(kMpirun, {"OMPI_COMM_WORLD_LOCAL_SIZE"});
  expect_bad(kMpirun, {{"OMPI_COMM_WORLD_RANK", "2"}});
  expect_refused(without(kMpirun, "PMIX_NAMESPACE"), "MASTER_PORT is not");
}

TEST(World, Pmi) {
  EXPECT_EQ(described(kHydra), "pmi 2/3, local 2/3, 127.0.0.1:29500, pmi.29500");
  expect_refused(without(kHydra, "MASTER_PORT"), "PMI_RANK is set without PMI_JOBID, but MASTER_PORT is not");
  EXPECT_EQ(world_of(with(without(kHydra, "MASTER_PORT"), {{"PMI_JOBID", "7"}})).job, "pmi.7");
  expect_missing(kHydra, {"MPI_LOCALRANKID"});
}

TEST(World, Srun) {
  EXPECT_EQ(described(kSrun), "srun 5/6, local 1/2, gpu08:29500, 4711.0.0");
  const Values derived = without(kSrun, "MASTER_PORT");
  EXPECT_NE(world_of(with(derived, {{"SLURM_STEP_ID", "1"}})).master_port, world_of(derived).master_port);
  EXPECT_NE(world_of(with(kSrun, {{"SLURM_RESTART_COUNT", "1"}})).job, "4711.0.0");
  EXPECT_EQ(world_of(with(kSrun, {{"MASTER_ADDR", "gpu09"}})).master_address, "gpu09");
  // srun --mpi=pmi2
  EXPECT_EQ(world_of(with(kSrun, {{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}, {"PMI_JOBID", "4711.0"}})).launcher,
            "srun");
  // the tasks of a batch script are not running
  EXPECT_EQ(world_of(without(kSrun, "SLURM_STEP_ID")).launcher, "alone");
  EXPECT_EQ(world_of(with(kSrun, {{"SLURM_STEP_ID", "4294967290"}})).launcher, "alone");
}

TEST(World, SlurmsFirstHost) {
  const Rows rows = {{"gpu[08-10]", "gpu08"},
                     {"node1,login", "node1"},
                     {"node[098-101]-ib", "node098-ib"},
                     {"r[0-1]n[08-09],x", "r0n08"},
                     {"gpu-a-3,gpu-b-[1-2]", "gpu-a-3"}};
  for (const auto& [list, host] : rows)
    EXPECT_EQ(world_of(with(kSrun, {{"SLURM_STEP_NODELIST", list}})).master_address, host);
  expect_bad(
      kSrun,
      {{"SLURM_STEP_NODELIST", "gpu[08-"}, {"SLURM_STEP_NODELIST", "gpu[]"}, {"SLURM_STEP_NODELIST", ",a"}});
  const World alone =
      world_of(with(without(kSrun, "SLURM_STEP_TASKS_PER_NODE"), {{"SLURM_STEP_NODELIST", "gpu3"}}));
  EXPECT_EQ(alone.local_size, 6);
  EXPECT_EQ(alone.master_address, "127.0.0.1");
}

TEST(World, SlurmsTasksOfThisNode) {
  const Values uneven = with(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", "1,3,2"}});
  EXPECT_EQ(world_of(uneven).local_size, 2);
  EXPECT_EQ(world_of(with(uneven, {{"SLURM_NODEID", "1"}, {"SLURM_PROCID", "3"}, {"SLURM_LOCALID", "2"}}))
                .local_size,
            3);
  for (const char* list : {"", "x", "2(x", "2(x)", "2(x0)", "2(x3", "2x3", "2,", "-1", "2(x999999999)"})
    expect_bad(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", list}});
  expect_refused(with(kSrun, {{"SLURM_STEP_TASKS_PER_NODE", "2,2,1"}}), "SLURM_NTASKS=6");
  expect_bad(kSrun, {{"SLURM_NODEID", "3"}, {"SLURM_LOCALID", "2"}});
  expect_missing(kSrun, {"SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_TASKS_PER_NODE"});
}

TEST(World, TheFirstLauncherOfTheOrderDecides) {
  EXPECT_EQ(world_of(with(with(kSrun, kMpirun), kTorchrun)).launcher, "torchrun");
  EXPECT_EQ(world_of(with(kSrun, kMpirun)).launcher, "mpirun");
  EXPECT_EQ(world_of(with(kSrun, kHydra)).launcher, "pmi");
}

TEST(World, TorchrunsDefaultOfOneThread) {
  EXPECT_TRUE(omp_threads_are_torchruns(environment_of(with(kTorchrun, {{"OMP_NUM_THREADS", "1"}}))));
  EXPECT_FALSE(omp_threads_are_torchruns(environment_of(with(kTorchrun, {{"OMP_NUM_THREADS", "4"}}))));
  EXPECT_FALSE(omp_threads_are_torchruns(environment_of({{"RANK", "0"}, {"OMP_NUM_THREADS", "1"}})));
}

}  // namespace
}  // namespace twobw::launch
