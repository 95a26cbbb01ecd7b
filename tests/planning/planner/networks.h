// Planning problems on slow networks, whose traffic decides which plan is best.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "planning/architecture/families.h"
#include "planning/planner/costs/cost_tables.h"
#include "planning/planner/costs/plan.h"
#include "planning/planner/costs/state_bytes.h"

namespace twobw::planner {

// `count` identical hosts with `devices` devices of one kind each.
struct Hosts {
  std::string device;
  int count = 1, devices = 1;
};

inline constexpr LinkSpec kNvLink{.latency = 5e-6, .bandwidth = 150e9};
inline constexpr LinkSpec kPcie{.latency = 10e-6, .bandwidth = 25e9};

// Every host has one network card with `gigabits` a second in each direction.
inline Cluster hosts_on_network(const std::string& name, const std::vector<Hosts>& all,
                                const LinkSpec& inside, double gigabits) {
  Cluster cluster{.name = name};
  for (const Hosts& like : all) {
    cluster.kinds.push_back(known_device(like.device));
    const int kind = static_cast<int>(std::ssize(cluster.kinds)) - 1;
    for (int i = 0; i < like.count; ++i) {
      cluster.nodes.push_back({.name = fmt::format("{}-{}", like.device, i),
                               .islands = {{.kind = kind, .count = like.devices}},
                               .link = inside});
    }
  }
  cluster.network = {.latency = 50e-6, .bandwidth = gigabits * 1e9 / 8, .shared = true};
  return cluster;
}

inline std::vector<Cluster> slow_clusters() {
  return {
      hosts_on_network("H100, 3 x RTX 4090 on one host, 10G", {{"H100"}, {"RTX 4090", 1, 3}}, kPcie, 10),
      hosts_on_network("H100, 3 hosts of RTX 4090, 10G", {{"H100"}, {"RTX 4090", 3, 1}}, kPcie, 10),
      hosts_on_network("8 x 8 V100, 25G", {{"V100-16GB", 8, 8}}, kNvLink, 25),
      hosts_on_network("8 x 8 V100, 10G", {{"V100-16GB", 8, 8}}, kNvLink, 10),
      hosts_on_network("2 x 4 A100, 25G", {{"A100-40GB", 2, 4}}, kNvLink, 25),
      hosts_on_network("2 x 4 A100, 100G", {{"A100-40GB", 2, 4}}, kNvLink, 100),
      hosts_on_network("4 hosts of A100, 1G", {{"A100-40GB", 4, 1}}, kPcie, 1),
      hosts_on_network("4 hosts of A100, 10G", {{"A100-40GB", 4, 1}}, kPcie, 10),
      hosts_on_network("4 hosts of RTX 4090, 1G", {{"RTX 4090", 4, 1}}, kPcie, 1),
      hosts_on_network("4 hosts of RTX 4090, 10G", {{"RTX 4090", 4, 1}}, kPcie, 10),
      hosts_on_network("2 x 2 A100, 10G", {{"A100-40GB", 2, 2}}, kPcie, 10),
  };
}

struct NamedModel {
  std::string name;
  ModelConfig config;
};

inline ModelConfig gpt_model(int layers, int width, int context) {
  return {.layers = layers, .width = width, .heads = width / 64, .vocab = 51200, .context = context};
}

inline std::vector<NamedModel> usual_models() {
  return {
      {"GPT 350M", gpt_model(24, 1024, 1024)},
      {"GPT 1.3B", gpt_model(24, 2048, 1024)},
      {"GPT 2.2B", gpt_model(32, 2304, 512)},
      {"GPT 8B", gpt_model(36, 4352, 2048)},
      {"BERT-large",
       {.family = "bert", .layers = 24, .width = 1024, .heads = 16, .vocab = 30522, .context = 512}},
      {"Llama 1B",
       {.family = "llama",
        .layers = 16,
        .width = 2048,
        .heads = 32,
        .vocab = 128256,
        .context = 2048,
        .kv_heads = 8,
        .hidden = 8192}},
  };
}

// With modelled times, in fp16: all devices of the catalogue but CPUs have it.
inline Problem problem_on(const Cluster& cluster, const ModelConfig& model, int batch) {
  Config config;
  config.model = model;
  config.train.precision = "fp16";
  Problem problem{.cluster = cluster,
                  .layers = shapes_of(architecture::model_of(model)),
                  .costs = modelled_tables(config, cluster, usual_microbatches(batch, {})),
                  .state = state_bytes(config.optimizer, "fp16", /*predicts=*/true),
                  .synchronous_state = state_bytes(config.optimizer, "fp16", /*predicts=*/false),
                  .batch = batch,
                  .context = model.context};
  return problem;
}

// "2bw w=2 d=4 b=1 m=16 e=3 late tie".
inline std::string in_short(const Plan& plan) {
  return fmt::format("{} w={} d={} b={} m={} e={}{}{}", schedule::name(plan.shape.schedule),
                     plan.shape.replicas, plan.stages.size(), plan.shape.microbatch, plan.shape.microbatches,
                     plan.shape.extra, plan.shape.double_buffer_gradients ? "" : " one gradient",
                     plan.shape.defer_tied_update ? " late tie" : "");
}

}  // namespace twobw::planner
