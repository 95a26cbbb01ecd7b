#include "planning/planner/report/report.h"

namespace twobw::planner {
namespace {

Json bytes_of(const Footprint& memory) {
  Json json;
  for (int term = 0; term < kTerms; ++term) {
    json[std::string(name(static_cast<Term>(term)))] = memory[static_cast<Term>(term)];
  }
  return json;
}

Json stage_json(const Cluster& cluster, const Plan& plan, int r) {
  const StagePlan& stage = plan.stages[static_cast<std::size_t>(r)];
  const schedule::Spec spec{.shape = plan.shape};
  const Json devices = devices_json(cluster, stage);
  return {{"first_layer", stage.first_layer},
          {"last_layer", stage.last_layer - 1},
          {"recompute", stage.recompute},
          {"in_flight", schedule::in_flight_bound(spec, r)},
          {"weight_versions", schedule::versions_kept(spec, r)},
          {"gradient_buffers", schedule::gradient_buffers(spec, r)},
          {"kind", devices["kind"]},
          {"replicas", devices["replicas"]},
          {"forward_seconds", stage.forward},
          {"backward_seconds", stage.backward},
          {"step_seconds", stage.step},
          {"reduce_seconds", stage.reduce},
          {"send_seconds", stage.send},
          {"busy", stage.busy},
          {"memory_bytes", stage.memory.total()},
          {"memory_bytes_by_term", bytes_of(stage.memory)},
          {"capacity_bytes", stage.capacity}};
}

Json setting_json(const Plan& plan) {
  return {{"schedule", schedule::name(plan.shape.schedule)},
          {"stages", plan.stages.size()},
          {"replicas", plan.shape.replicas},
          {"microbatch", plan.shape.microbatch},
          {"microbatches", plan.shape.microbatches},
          {"extra", plan.shape.extra},
          {"double_buffer_gradients", plan.shape.double_buffer_gradients},
          {"defer_tied_update", plan.shape.defer_tied_update},
          {"predict", plan.shape.predict},
          {"step_slack", plan.shape.step_slack},
          {"shard_state", plan.shape.shard_state}};
}

Json simulated_json(const Plan& plan) {
  return plan.simulated_tokens_per_s > 0 ? Json(plan.simulated_tokens_per_s) : Json();
}

Json plan_json(const Problem& problem, const Estimate& estimate) {
  const Plan& plan = estimate.plan;
  Json stages = Json::array();
  for (int r = 0; r < std::ssize(plan.stages); ++r) stages.push_back(stage_json(problem.cluster, plan, r));
  Json json = setting_json(plan);
  json["update_seconds"] = plan.update_seconds;
  json["sequences_per_s"] = plan.sequences_per_s;
  json["tokens_per_s"] = plan.tokens_per_s;
  json["simulated_tokens_per_s"] = simulated_json(plan);
  json["utilisation"] = plan.utilisation;
  json["communication_share"] = communication_share(problem, plan);
  json["fits"] = estimate.fits();
  json["tightest_stage"] = estimate.tightest;
  json["bytes_over_capacity"] = estimate.over;
  json["stage_plans"] = stages;
  return json;
}

Json family_json(const Candidate& candidate) {
  const bool fits = candidate.best && candidate.best->fits();
  return {{"schedule", schedule::name(candidate.schedule)},
          {"replicas", candidate.replicas},
          {"chosen", candidate.status == Status::Best},
          {"best", candidate.best ? setting_json(candidate.best->plan) : Json()},
          {"tokens_per_s", fits ? Json(candidate.best->plan.tokens_per_s) : Json()},
          {"simulated_tokens_per_s", fits ? simulated_json(candidate.best->plan) : Json()},
          {"ratio", fits ? Json(candidate.ratio) : Json()},
          {"reason", candidate.reason}};
}

}  // namespace

std::string to_json(const Problem& problem, const SearchResult& result) {
  bool modelled = false;
  for (const CostTable& costs : problem.costs) modelled |= costs.modelled;
  Json candidates = Json::array();
  for (const Candidate& candidate : result.candidates) candidates.push_back(family_json(candidate));
  Json json = {{"cluster", problem.cluster.name},
               {"devices", problem.cluster.device_count()},
               {"parameters", parameter_count(problem)},
               {"layers", problem.layers.size()},
               {"batch", problem.batch},
               {"context", problem.context},
               {"margin", problem.margin},
               {"modelled", modelled},
               {"exact", result.exact},
               {"restriction", result.exact ? Json() : Json(result.restriction)},
               {"plan", result.best ? plan_json(problem, *result.best) : Json()}};
  if (result.infeasibility) {
    json["closest"] = plan_json(problem, result.infeasibility->closest);
    json["remedies"] = result.infeasibility->suggestions;
  }
  json["candidates"] = candidates;
  return pretty(json);
}

Json devices_json(const Cluster& cluster, const StagePlan& stage) {
  Json replicas = Json::array();
  for (std::size_t i = 0; i < stage.nodes.size(); ++i) {
    replicas.push_back({{"node", cluster.nodes[static_cast<std::size_t>(stage.nodes[i])].name},
                        {"device", stage.devices[i]}});
  }
  return {{"kind", cluster.kinds[static_cast<std::size_t>(stage.kind)].name}, {"replicas", replicas}};
}

}  // namespace twobw::planner
