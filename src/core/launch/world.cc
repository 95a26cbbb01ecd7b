#include "core/launch/world.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/base/text.h"

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
    const auto number = parse_number<int>(value);
    if (!number || *number < low || *number > high)
      fail_input("the environment has {}='{}'; it must be a whole number from {} to {}", name, value, low,
                 high);
    return *number;
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

// Names of the variables with this process's rank.
struct Places {
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};

// A single process may lack the local variables.
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

// MASTER_ADDR and MASTER_PORT; without them this host, and a port derived from the job.
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
  // LOCAL_WORLD_SIZE may be missing if the user sets the variables on one host.
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

// Several processes without a job id need MASTER_PORT, or two runs on one host would share a port.
World with_job(World world, const Variables& variables, const std::string& id, const std::string& because) {
  if (id.empty() && world.size > 1) variables.need("MASTER_PORT", because);
  world.job = fmt::format("{}.{}", world.launcher, id.empty() ? variables.text("MASTER_PORT") : id);
  find_master(variables, world);
  return world;
}

World of_mpirun(const Variables& variables) {
  const World world = read_places(variables, "mpirun",
                                  {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                   "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"});
  // Open MPI 4 and 5 set the first, 4 the second too.
  const std::string id = variables.text("PMIX_NAMESPACE", variables.text("OMPI_MCA_ess_base_jobid"));
  return with_job(world, variables, id, "OMPI_COMM_WORLD_RANK is set without PMIX_NAMESPACE");
}

// Hydra sets no job id.
World of_pmi(const Variables& variables) {
  const World world =
      read_places(variables, "pmi", {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"});
  return with_job(world, variables, variables.text("PMI_JOBID"), "PMI_RANK is set without PMI_JOBID");
}

// Whether srun started this process: neither a batch script, which has no step, nor the shell of salloc or of
// a batch step, whose ids are Slurm's highest.
bool is_srun_task(const Variables& variables) {
  constexpr std::string_view kShells[] = {"4294967290", "4294967291", "4294967292", "batch", "interactive"};
  return variables.has("SLURM_PROCID") && variables.has("SLURM_STEP_ID") &&
         std::ranges::find(kShells, variables.text("SLURM_STEP_ID")) == std::end(kShells);
}

[[noreturn]] void refuse_list(const char* name, std::string_view list, std::string_view allowed) {
  fail_input("the environment has {}='{}'; it must be {}", name, list, allowed);
}

// The first of Slurm's list of hosts: "node03" of "node[03-05,9],login". Empty if the list is invalid.
std::string first_host(std::string_view list) {
  std::string host;
  for (std::size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      host += list[at];
      continue;
    }
    const std::string_view numbers = list.substr(at + 1);
    const std::size_t close = numbers.find(']'), digits = numbers.find_first_not_of("0123456789");
    if (close == std::string_view::npos || digits == 0) return "";
    host += numbers.substr(0, digits);
    at += close + 1;
  }
  return host;
}

// Slurm's number of tasks on each node: "2(x3),1" is 2, 2, 2, 1.
std::vector<int> tasks_by_node(const char* name, std::string_view list) {
  std::vector<int> tasks;
  for (std::string_view rest = list;;) {
    const std::size_t comma = rest.find(',');
    std::string_view part = rest.substr(0, comma), times = "1";
    if (const std::size_t open = part.find("(x"); open != std::string_view::npos && part.ends_with(')')) {
      times = part.substr(open + 2, part.size() - open - 3);
      part = part.substr(0, open);
    }
    const auto count = parse_number<int>(part), nodes = parse_number<int>(times);
    if (!count || *count < 0 || !nodes || *nodes < 1 || *nodes > kMostProcesses - std::ssize(tasks))
      refuse_list(name, list, "numbers of tasks such as 2(x3),1");
    tasks.insert(tasks.end(), static_cast<std::size_t>(*nodes), *count);
    if (comma == std::string_view::npos) return tasks;
    rest.remove_prefix(comma + 1);
  }
}

World of_srun(const Environment& environment) {
  const Variables outer(environment);
  // The job's own SLURM_NTASKS may differ from the step's.
  const char* const tasks = outer.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
  constexpr const char* kNodes = "SLURM_STEP_NODELIST";
  constexpr const char* kPerNode = "SLURM_STEP_TASKS_PER_NODE";
  const std::string nodes = outer.text(kNodes);
  const bool several = nodes.find_first_of("[,") != std::string::npos;
  const Environment completed = [&](const char* name) -> std::optional<std::string> {
    if (std::string_view(name) == "MASTER_ADDR" && !environment(name) && several) {
      const std::string host = first_host(nodes);
      if (host.empty()) refuse_list(kNodes, nodes, "a list of hosts such as node[03-07,9],login");
      return host;
    }
    if (std::string_view(name) != kPerNode) return environment(name);
    if (!environment(name)) return several || nodes.empty() ? std::nullopt : environment(tasks);
    const std::vector<int> counts = tasks_by_node(kPerNode, *environment(name));
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
  // srun --mpi=pmi2 also sets PMI_RANK, but no variables of the host.
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
