// Tensor parallelism as Megatron does it: t devices share every block. Each product of a pair is cut by
// columns, then by rows, so that a pair needs one sum over the devices in the forward, and one in the
// backward; every device computes the rest (norms, dropout, residual sums) in full. Blocks are
// recomputed, as Megatron-LM's examples do it, and with them their forward's sums.
#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/simulator/simulate.h"
#include "planning/architecture/families.h"
#include "planning/planner/costs/roofline.h"
#include "systems.h"

namespace twobw::paper {
namespace {

using architecture::Layer;

constexpr double kElement = 2;

struct Share {
  architecture::Model layers;  // of one device
  double outputs = 0;          // bytes of the hidden states of one sequence
  int sums = 0;                // over the devices, in a forward; as many again in a backward
};

// Hidden states that a layer reads and writes outside of its products, which are not cut.
double whole_streams(const std::string& kind) {
  if (kind == "attention_out" || kind == "mlp_down") return 7;  // dropout and the residual sum
  if (kind == "mlp_activation") return 0;
  return kind == "embedding" ? 9 : 2;  // else a norm
}

// The part of a layer on one of several devices; `outputs`: bytes of the hidden states of one sequence.
Layer part_of(const Layer& layer, int ways, double outputs) {
  const auto elements = static_cast<std::int64_t>(architecture::parameter_count(layer) / ways);
  Layer part{.kind = layer.kind, .parameters = {{.name = layer.kind, .shape = {elements}}}};
  part.work = [layer, ways, outputs](const architecture::Extent& extent) {
    architecture::Work work = layer.work(extent);
    const double states = outputs * extent.sequences;
    const double whole = std::min(work.element_bytes, whole_streams(layer.kind) * states);
    work.element_bytes = whole + (work.element_bytes - whole) / ways;
    work.matrix_flops /= ways;
    work.matrix_bytes /= ways;
    if (layer.kind != "embedding") work.saved_bytes = work.saved_bytes / ways + (whole > 0 ? states : 0);
    work.working /= ways;
    return work;
  };
  return part;
}

Share share_of(const ModelConfig& model, int ways) {
  Share share{.outputs = static_cast<double>(model.context) * model.width * kElement};
  for (const Layer& layer : architecture::model_of(model)) {
    share.sums += layer.kind == "attention_out" || layer.kind == "mlp_down" || layer.kind == "embedding";
    share.layers.push_back(part_of(layer, ways, share.outputs));
  }
  return share;
}

// One ring over all devices, as NCCL makes it: across nodes it is as slow as the network.
double sum_seconds(double bytes, int ways, const planner::Cluster& cluster) {
  const planner::LinkSpec& link = ways > kDevicesPerNode ? cluster.network : cluster.nodes[0].link;
  return simulator::ring_all_reduce(bytes, ways, {link.latency, link.bandwidth});
}

}  // namespace

std::optional<Outcome> run_tensor(const Row& row, const Fitted& fitted) {
  const planner::Cluster cluster = paper::cluster(row.nodes, kDevicesPerNode, fitted, fitted.network.sums);
  const planner::DeviceKind& device = cluster.kinds[0];
  const ModelConfig model = paper::model(row.model);
  const Share share = share_of(model, row.stages);
  const planner::CostTable table = planner::modelled_costs(
      share.layers, device, kPrecision, kState, model.context, {kMicrobatches.begin(), kMicrobatches.end()});
  double parameters = 0;
  for (const Layer& layer : share.layers) parameters += architecture::parameter_count(layer);
  const double state = (kState.weights + kState.master + kState.gradients + kState.optimizer) * parameters;
  // Every device of a node sums its part of the gradients with those of other replicas, over one card.
  const double reduce =
      simulator::ring_all_reduce(kDevicesPerNode * kState.gradients * parameters, row.replicas,
                                 {cluster.network.latency, cluster.network.bandwidth});
  const double step = table.step_per_parameter * parameters;

  std::optional<Outcome> best;
  for (const planner::CostColumn& column : table.columns) {
    const int b = column.microbatch;
    if (b * row.replicas > row.batch) break;
    const int m = row.batch / (b * row.replicas);
    double forward = 0, backward = 0, largest = 0, working = 0;
    for (const planner::LayerCost& layer : column.layers) {
      forward += layer.forward;
      backward += layer.backward;
      largest = std::max(largest, layer.saved_bytes);
      working = std::max(working, layer.working);
    }
    const double sum = share.sums * sum_seconds(b * share.outputs, row.stages, cluster);
    // Keeps the input of every block, and the activations of one block.
    const double kept = model.layers * b * share.outputs + 4 * largest;
    if (state + kept + working > 0.9 * device.memory) continue;
    const double compute = 2 * forward + backward + 3 * sum;
    const double sequences = static_cast<double>(b) * m * row.replicas;
    const Outcome outcome = {sequences / (m * compute + reduce + step), fmt::format("b={} recomputing", b)};
    if (!best || outcome.sequences_per_s > best->sequences_per_s) best = outcome;
  }
  return best;
}

}  // namespace twobw::paper
