// How long the planner computes (seconds of one core, the median of some repetitions), with every candidate
// of candidates worked out and the best of them simulated: GPT models on clusters of like nodes and on mixed
// ones. Prints one line a problem; takes the number of repetitions and, if given, a part of the problems'
// names.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "planning/architecture/families.h"
#include "planning/planner/costs/cost_tables.h"
#include "planning/planner/costs/roofline.h"
#include "planning/planner/costs/state_bytes.h"
#include "planning/planner/search/search.h"

namespace {

using namespace twobw;
using namespace twobw::planner;

struct Machines {
  std::string device;
  int nodes, devices;
};

Problem problem_of(const std::vector<Machines>& machines, const ModelConfig& model, int batch) {
  Problem problem;
  for (const Machines& like : machines) {
    problem.cluster.kinds.push_back(known_device(like.device));
    const int kind = static_cast<int>(problem.cluster.kinds.size()) - 1;
    const Node node{.islands = {{.kind = kind, .count = like.devices}},
                    .link = {.latency = 5e-6, .bandwidth = 120e9}};
    problem.cluster.nodes.insert(problem.cluster.nodes.end(), like.nodes, node);
  }
  problem.cluster.network = {.latency = 2e-5, .bandwidth = 25e9 / 8, .shared = true};
  Config config;
  config.model = model;
  config.train.precision = "fp16";
  problem.layers = shapes_of(architecture::model_of(model));
  problem.costs = modelled_tables(config, problem.cluster, usual_microbatches(batch, {}));
  problem.state = state_bytes(config.optimizer, "fp16", /*predicts=*/true);
  problem.synchronous_state = state_bytes(config.optimizer, "fp16", /*predicts=*/false);
  problem.batch = batch;
  problem.context = model.context;
  return problem;
}

// As a profile would have it: few microbatch sizes, and every kind of layer off its modelled time by a part
// of its own.
Problem measured(Problem problem) {
  std::mt19937 random(1);
  for (CostTable& table : problem.costs) {
    table.modelled = false;
    std::erase_if(table.columns, [](const CostColumn& column) { return column.microbatch > 8; });
    for (CostColumn& column : table.columns) {
      std::map<std::string, double> factors;
      for (std::size_t i = 0; i < column.layers.size(); ++i) {
        const double factor = 0.85 + 0.3 * static_cast<double>(random()) / std::mt19937::max();
        const double part = factors.try_emplace(problem.layers[i].kind, factor).first->second;
        column.layers[i].forward *= part;
        column.layers[i].backward *= part;
      }
    }
  }
  return problem;
}

ModelConfig gpt(int layers, int width) {
  return {.layers = layers, .width = width, .heads = width / 64, .vocab = 51200, .context = 512};
}

void measure(const std::string& name, const Problem& problem, int repetitions) {
  std::vector<double> seconds;
  SearchResult result;
  for (int i = 0; i < repetitions; ++i) {
    const std::clock_t begin = std::clock();
    result = search(problem);
    seconds.push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  std::sort(seconds.begin(), seconds.end());
  const Plan& plan = result.best ? result.best->plan : result.infeasibility->closest.plan;
  fmt::print(
      "{:<40}{:>5} layers{:>8.3f} s {:>4} candidates {:>5} settings {:>9} stages  {}  {} w={} d={} b={} m={} "
      "e={} {:.2f} sequences/s{}\n",
      name, problem.layers.size(), seconds[seconds.size() / 2], result.candidates.size(), result.settings,
      result.stages, result.exact ? "exact" : "cut  ", schedule::name(plan.shape.schedule),
      plan.shape.replicas, plan.stages.size(), plan.shape.microbatch, plan.shape.microbatches,
      plan.shape.extra, plan.sequences_per_s, result.best ? "" : "  (does not fit)");
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::max(1, std::atoi(argv[1])) : 3;
  const std::vector<Machines> v64 = {{"V100-16GB", 8, 8}}, v1024 = {{"V100-16GB", 128, 8}};
  // A block is several layers to the planner; the embedding and the head come on top.
  const std::string wanted = argc > 2 ? argv[2] : "";
  const auto both = [&](const std::string& name, const Problem& problem) {
    if (name.find(wanted) == std::string::npos) return;
    measure(name, problem, repetitions);
    measure(name + ", measured", measured(problem), repetitions);
  };
  both("64 devices, 12 blocks", problem_of(v64, gpt(12, 2304), 512));
  both("64 devices, 48 blocks", problem_of(v64, gpt(48, 2304), 512));
  both("1,024 devices, 50 blocks", problem_of(v1024, gpt(50, 6144), 2048));
  both("1,024 devices, 200 blocks", problem_of(v1024, gpt(200, 4096), 2048));
  both("1,024 devices, 24 blocks, small", problem_of(v1024, gpt(24, 1024), 2048));
  both("32 V100 and 32 A100, 24 blocks",
       problem_of({{"V100-16GB", 4, 8}, {"A100-40GB", 4, 8}}, gpt(24, 2304), 512));
  both("512 V100 and 512 A100, 50 blocks",
       problem_of({{"V100-16GB", 64, 8}, {"A100-40GB", 64, 8}}, gpt(50, 4096), 2048));
}
