#include "core/launch/world.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/launch/slurm.h"

namespace twobw::launch {
namespace {

constexpr int kMostProcesses = 1 << 20;
constexpr const char* kByHand =
    "several processes that no launcher starts need RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, "
    "MASTER_ADDR and MASTER_PORT";

// Variables of the environment as numbers; throws InputError that names them.
class Variables {
 public:
  // `needed`: the end of a missing variable's sentence.
  explicit Variables(const Environment& environment,
                     std::string needed = "the launcher of several processes sets both")
      : environment_(environment), needed_(std::move(needed)) {}

  bool has(const char* name) const { return environment_(name).has_value(); }
  std::string text(const char* name, const std::string& otherwise = "") const {
    return environment_(name).value_or(otherwise);
  }
  int number(const char* name, int low, int high) const {
    const std::string value = text(name);
    int number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc() && end == value.data() + value.size();
    if (!whole || number < low || number > high)
      fail_input("the environment has {}='{}'; it must be a whole number from {} to {}", name, value, low,
                 high);
    return number;
  }
  int number(const char* name, int low, int high, int otherwise) const {
    return has(name) ? number(name, low, high) : otherwise;
  }
  // `because`: why it is required: "RANK is set".
  void need(const char* name, const std::string& because) const {
    if (!has(name)) fail_input("{}, but {} is not; {}", because, name, needed_);
  }

 private:
  const Environment& environment_;
  std::string needed_;
};

bool is_this_host(const std::string& address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

// Names of the variables that say who one is.
struct Places {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

// Of one process alone the local ones may be missing.
World read_places(const Variables& variables, const char* launcher, const Places& names) {
  World world{.launcher = launcher};
  const char* first = variables.has(names.rank) ? names.rank : names.size;
  variables.need(names.rank, fmt::format("{} is set", first));
  variables.need(names.size, fmt::format("{} is set", first));
  world.size = variables.number(names.size, 1, kMostProcesses);
  world.rank = variables.number(names.rank, 0, world.size - 1);
  if (world.size > 1) {
    variables.need(names.local_rank, fmt::format("{} is set", names.rank));
    variables.need(names.local_size, fmt::format("{} is set", names.rank));
  }
  world.local_size = variables.number(names.local_size, 1, world.size, 1);
  world.local_rank = variables.number(names.local_rank, 0, world.local_size - 1, 0);
  return world;
}

// MASTER_ADDR and MASTER_PORT, else what follows from the rest.
void find_master(const Variables& variables, World& world) {
  world.master_address = variables.text("MASTER_ADDR", "127.0.0.1");
  if (world.master_address.empty()) fail_input("the environment has MASTER_ADDR=''; it must be a host");
  const bool named = variables.has("MASTER_ADDR");
  if (!world.on_one_host() && !named) {
    fail_input(
        "{} of the {} processes run on this host and {} does not say where process 0 is; set MASTER_ADDR to "
        "its host",
        world.local_size, world.size, world.launcher);
  }
  const int derived = kFirstDerivedPort + static_cast<int>(scramble(hash_text(world.job)) % kDerivedPorts);
  world.master_port = variables.number("MASTER_PORT", 1, 65535, derived);
}

World of_torchrun(const Environment& environment) {
  const Variables outer(environment);
  const std::string master = outer.text("MASTER_ADDR");
  // By hand on one host LOCAL_WORLD_SIZE may be left out.
  const Environment completed = [&](const char* name) {
    const bool left_out = std::string_view(name) == "LOCAL_WORLD_SIZE" && !environment(name);
    return environment(left_out && is_this_host(master) ? "WORLD_SIZE" : name);
  };
  const Variables variables =
      outer.has("TORCHELASTIC_RUN_ID") ? Variables(completed) : Variables(completed, kByHand);
  World world = read_places(variables, "torchrun", {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
  if (world.size > 1) {
    variables.need("MASTER_ADDR", "RANK is set");
    variables.need("MASTER_PORT", "RANK is set");
  }
  world.restart = variables.number("TORCHELASTIC_RESTART_COUNT", 0, kMostProcesses, 0);
  const std::string use = variables.text("TORCHELASTIC_USE_AGENT_STORE", "False");
  if (use != "True" && use != "False")
    fail_input("the environment has TORCHELASTIC_USE_AGENT_STORE='{}'; it must be True or False", use);
  world.agent_store = use == "True" && world.size > 1;
  const std::string by_hand = fmt::format("{}:{}", master, variables.text("MASTER_PORT"));
  world.job = fmt::format("{}.{}", variables.text("TORCHELASTIC_RUN_ID", by_hand), world.restart);
  find_master(variables, world);
  return world;
}

World of_mpirun(const Variables& variables) {
  World world = read_places(variables, "mpirun",
                            {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                             "OMPI_COMM_WORLD_LOCAL_SIZE"});
  // Open MPI 4 and 5 set the first, 4 the second too.
  const std::string id = variables.text("PMIX_NAMESPACE", variables.text("OMPI_MCA_ess_base_jobid"));
  if (id.empty() && world.size > 1)
    variables.need("MASTER_PORT", "OMPI_COMM_WORLD_RANK is set without PMIX_NAMESPACE");
  world.job = "mpirun." + (id.empty() ? variables.text("MASTER_PORT") : id);
  find_master(variables, world);
  return world;
}

World of_pmi(const Variables& variables) {
  World world = read_places(variables, "pmi", {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"});
  const std::string id = variables.text("PMI_JOBID");
  // Hydra names no job: two runs on one host would meet at one port.
  if (id.empty() && world.size > 1) variables.need("MASTER_PORT", "PMI_RANK is set without PMI_JOBID");
  world.job = "pmi." + (id.empty() ? variables.text("MASTER_PORT") : id);
  find_master(variables, world);
  return world;
}

// Whether srun started this process: neither a batch script, which has no step, nor the shell of salloc or of
// a batch step, whose ids are Slurm's highest.
bool is_srun_task(const Variables& variables) {
  constexpr std::string_view kShells[] = {"4294967290", "4294967291", "4294967292", "batch", "interactive"};
  return variables.has("SLURM_PROCID") && variables.has("SLURM_STEP_ID") &&
         std::ranges::find(kShells, variables.text("SLURM_STEP_ID")) == std::end(kShells);
}

World of_srun(const Environment& environment) {
  const Variables outer(environment);
  // The job's own SLURM_NTASKS may differ from the step's.
  const char* const tasks = outer.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  constexpr const char* kNodes = "SLURM_STEP_NODELIST";
  constexpr const char* kPerNode = "SLURM_STEP_TASKS_PER_NODE";
  std::vector<std::string> hosts;
  if (outer.has(kNodes)) hosts = expand_hosts(outer.text(kNodes), kNodes);
  const Environment completed = [&](const char* name) -> std::optional<std::string> {
    if (std::string_view(name) == "MASTER_ADDR" && !environment(name) && hosts.size() > 1)
      return hosts.front();
    if (std::string_view(name) != kPerNode) return environment(name);
    if (!environment(name)) return hosts.size() == 1 ? environment(tasks) : std::nullopt;
    const std::vector<int> counts = expand_counts(*environment(name), kPerNode);
    if (!hosts.empty() && hosts.size() != counts.size())
      fail_input("the environment has {}='{}', but {}='{}' has {} hosts", kPerNode, *environment(name),
                 kNodes, outer.text(kNodes), hosts.size());
    if (std::accumulate(counts.begin(), counts.end(), 0L) != outer.number(tasks, 1, kMostProcesses))
      fail_input("the environment has {}='{}', but {}={}", kPerNode, *environment(name), tasks,
                 outer.text(tasks));
    const int node =
        counts.size() == 1 ? 0 : outer.number("SLURM_NODEID", 0, static_cast<int>(counts.size()) - 1);
    return std::to_string(counts[static_cast<std::size_t>(node)]);
  };
  const Variables variables(completed);
  World world = read_places(variables, "srun", {"SLURM_PROCID", tasks, "SLURM_LOCALID", kPerNode});
  variables.need("SLURM_JOB_ID", "SLURM_STEP_ID is set");
  world.restart = variables.number("SLURM_RESTART_COUNT", 0, kMostProcesses, 0);
  world.job =
      fmt::format("{}.{}.{}", variables.text("SLURM_JOB_ID"), variables.text("SLURM_STEP_ID"), world.restart);
  find_master(variables, world);
  return world;
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
}

World read_world(const Environment& environment) {
  const Variables variables(environment);
  if (variables.has("RANK") || variables.has("WORLD_SIZE")) return of_torchrun(environment);
  if (variables.has("OMPI_COMM_WORLD_RANK") || variables.has("OMPI_COMM_WORLD_SIZE"))
    return of_mpirun(variables);
  // srun --mpi=pmi2 sets PMI_RANK too, but nothing of the host.
  const bool pmi = variables.has("PMI_RANK") || variables.has("PMI_SIZE");
  if (pmi && (variables.has("MPI_LOCALRANKID") || !is_srun_task(variables))) return of_pmi(variables);
  if (is_srun_task(variables)) return of_srun(environment);
  return {};
}

bool terminal_is_users(const Environment& environment) {
  return !environment("OMPI_COMM_WORLD_RANK").has_value();
}

bool omp_threads_are_torchruns(const Environment& environment) {
  return environment("TORCHELASTIC_RUN_ID").has_value() && environment("OMP_NUM_THREADS") == "1";
}

}  // namespace twobw::launch
