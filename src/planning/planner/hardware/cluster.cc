#include "planning/planner/hardware/cluster.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <set>

#include "core/base/config_values.h"
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/kinds.h"
#include "core/base/text_file.h"
#include "planning/planner/hardware/yaml_fields.h"

namespace twobw::planner {

// The text of devices.yaml, which the build puts into the program: see devices.cc.in.
extern const char* const kDevicesYaml;

namespace {

// Kinds of device

bool is_positive(double value) {
  return value > 0;
}

const Quantity kMemory = {parse_bytes, is_positive, "a size above 0, such as 24GiB"};
const Quantity kTeraflops = {parse_number<double>, is_positive,
                             "a number above 0, or one for each precision, such as {fp32: 15.7, fp16: 125}"};
const Quantity kMemoryBandwidth = {parse_rate, is_positive, "a rate above 0, such as 900GB/s"};
const Quantity kEfficiency = {parse_number<double>, [](double value) { return value > 0 && value <= 1; },
                              "a number above 0 and at most 1"};
const Quantity kOverhead = {parse_seconds, [](double value) { return value >= 0; },
                            "a time of at least 0, such as 20us"};
const Quantity kSpeed = {parse_number<double>, is_positive, "a number above 0"};

constexpr double kTera = 1e12;

void read_rates(const Fields& fields, DeviceKind& kind) {
  if (!fields.has("tflops")) return;
  if (!fields.node("tflops").IsMap()) {
    kind.flops = kTera * fields.number("tflops", kTeraflops);
    return;
  }
  const Fields rates = fields.map("tflops");
  rates.only(precisions());
  for (const std::string& precision : rates.keys()) {
    kind.rates[precision] = kTera * rates.number(precision, kTeraflops);
  }
}

DeviceKind read_kind(const std::string& name, const Fields& fields) {
  fields.only({"memory", "tflops", "memory_bandwidth", "efficiency", "overhead", "speed"});
  DeviceKind kind{.name = name};
  kind.memory = fields.number("memory", kMemory);
  read_rates(fields, kind);
  kind.memory_bandwidth = fields.number("memory_bandwidth", kMemoryBandwidth, kind.memory_bandwidth);
  kind.efficiency = fields.number("efficiency", kEfficiency, kind.efficiency);
  kind.overhead = fields.number("overhead", kOverhead, kind.overhead);
  kind.speed = fields.number("speed", kSpeed, kind.speed);
  return kind;
}

// Every entry of the map is a kind, by its name: in the catalogue, and under `devices` of a cluster file.
std::vector<DeviceKind> read_kinds(const Fields& kinds) {
  kinds.only(kinds.keys());  // none given twice
  std::vector<DeviceKind> all;
  for (const std::string& name : kinds.keys()) all.push_back(read_kind(name, kinds.map(name)));
  return all;
}

// "{memory: 24GiB, tflops: 80, ...}", which reads back to the same kind.
std::string print_kind(const DeviceKind& kind) {
  const DeviceKind usual;
  std::vector<std::string> parts = {"memory: " + print_bytes(kind.memory)};
  if (kind.flops > 0) parts.push_back(fmt::format("tflops: {}", kind.flops / kTera));
  if (!kind.rates.empty()) {
    std::vector<std::string> rates;
    for (const auto& [precision, rate] : kind.rates)
      rates.push_back(fmt::format("{}: {}", precision, rate / kTera));
    parts.push_back(fmt::format("tflops: {{{}}}", fmt::join(rates, ", ")));
  }
  if (kind.memory_bandwidth > 0) parts.push_back("memory_bandwidth: " + print_rate(kind.memory_bandwidth));
  if (kind.efficiency != usual.efficiency) parts.push_back(fmt::format("efficiency: {}", kind.efficiency));
  if (kind.overhead != usual.overhead) parts.push_back("overhead: " + print_seconds(kind.overhead));
  if (kind.speed != usual.speed) parts.push_back(fmt::format("speed: {}", kind.speed));
  return fmt::format("{{{}}}", fmt::join(parts, ", "));
}

// Clusters

constexpr int kMostDevices = 1 << 20;
constexpr std::size_t kMostNodes = 1 << 16;

const Quantity kBandwidth = {parse_rate, is_positive, "a rate above 0, such as 150GB/s or 25Gbit/s"};
const Quantity kLatency = {parse_seconds, [](double value) { return value >= 0; },
                           "a time of at least 0, such as 5us"};
const Quantity kCount = {
    parse_number<double>,
    [](double value) { return value >= 1 && value <= kMostDevices && value == std::floor(value); },
    "a whole number from 1 to 1048576"};

LinkSpec read_link(const Fields& fields) {
  fields.only({"bandwidth", "latency", "shared"});
  return {.latency = fields.number("latency", kLatency, 0),
          .bandwidth = fields.number("bandwidth", kBandwidth),
          .shared = fields.flag("shared", false)};
}

// "8 x V100-16GB" is 8 of them, "V100-16GB" is one.
struct Devices {
  int count = 1;
  std::string kind;
};

Devices parse_devices(const std::string& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::size_t cross = text.find_first_not_of(' ', digits);
  const auto count = parse_number<int>(text.substr(0, digits));
  if (!count || cross == std::string::npos || text[cross] != 'x') return {1, text};
  const std::size_t name = text.find_first_not_of(' ', cross + 1);
  return {*count, name == std::string::npos ? "" : text.substr(name)};
}

// Reads the nodes one after another and collects the kinds that they use.
class NodeReader {
 public:
  NodeReader(std::vector<DeviceKind> own, Cluster& cluster) : own_(std::move(own)), cluster_(cluster) {}

  void read(const Fields& fields, std::size_t index) {
    fields.only({"name", "count", "devices", "link"});
    Node node{.name = fields.text("name", fmt::format("node{}", index)), .link = kNoLink};
    read_devices(fields, node);
    if (fields.has("link")) node.link = read_link(fields.map("link"));
    if (!fields.has("link") && node.device_count() > 1)
      fields.refuse("link", "give bandwidth and latency between the node's devices");
    const int count = static_cast<int>(fields.number("count", kCount, 1));
    check_size(fields, node, count);
    const std::string name = node.name;
    for (int i = 0; i < count; ++i) {
      if (count > 1) node.name = fmt::format("{}-{}", name, i);
      if (!names_.insert(node.name).second)
        fields.refuse("name", "differ from the other nodes', and there is another " + shown_name(node.name));
      cluster_.nodes.push_back(node);
    }
  }

 private:
  // Checks the size before the nodes are created.
  void check_size(const Fields& fields, const Node& node, int count) {
    devices_ += std::int64_t{count} * node.device_count();
    if (devices_ > kMostDevices)
      fields.refuse("count", fmt::format("leave the cluster with at most {} devices", kMostDevices));
    if (cluster_.nodes.size() + static_cast<std::size_t>(count) > kMostNodes)
      fields.refuse("count", fmt::format("leave the cluster with at most {} nodes", kMostNodes));
  }

  void read_devices(const Fields& fields, Node& node) {
    const YAML::Node written = fields.node("devices");
    std::vector<std::string> entries;
    if (written.IsDefined() && written.IsSequence()) {
      for (const YAML::Node& each : written) entries.push_back(parse_scalar<std::string>(each).value_or(""));
    } else if (written.IsDefined() && written.IsScalar()) {
      entries.push_back(written.Scalar());
    }
    if (entries.empty())
      fields.refuse("devices", "name devices, such as 8 x V100-16GB, or be a list of such");
    for (const std::string& entry : entries) {
      const Devices devices = parse_devices(entry);
      if (devices.count < 1 || devices.count > kMostDevices)
        fields.refuse("devices", fmt::format("have counts from 1 to {}", kMostDevices));
      if (devices.count > kMostDevices - node.device_count())
        fields.refuse("devices", fmt::format("be at most {} devices", kMostDevices));
      node.islands.push_back({.kind = kind_index(fields, devices.kind), .count = devices.count});
    }
  }

  int kind_index(const Fields& fields, const std::string& name) {
    auto& used = cluster_.kinds;
    const auto there = std::ranges::find(used, name, &DeviceKind::name);
    if (there != used.end()) return static_cast<int>(there - used.begin());
    std::vector<std::string> known;
    for (const auto* kinds : {&own_, &device_catalogue()}) {
      for (const DeviceKind& kind : *kinds) {
        if (kind.name == name) {
          used.push_back(kind);
          return static_cast<int>(used.size()) - 1;
        }
        known.push_back(kind.name);
      }
    }
    fields.refuse("devices", fmt::format("name kinds of device that this file or the catalogue has: {}",
                                         fmt::join(known, ", ")));
  }

  const std::vector<DeviceKind> own_;
  Cluster& cluster_;
  std::set<std::string> names_;
  std::int64_t devices_ = 0;
};

std::string print_link(const LinkSpec& link) {
  std::string text =
      fmt::format("{{bandwidth: {}, latency: {}", print_rate(link.bandwidth), print_seconds(link.latency));
  return text + (link.shared ? ", shared: true}" : "}");
}

// Number of nodes from `first` on that differ only in their numbered names: a-0, a-1, ...
std::size_t like_nodes(const std::vector<Node>& nodes, std::size_t first) {
  const std::string& name = nodes[first].name;
  if (!name.ends_with("-0")) return 1;
  Node expected = nodes[first];
  std::size_t count = 1;
  for (; first + count < nodes.size(); ++count) {
    expected.name = fmt::format("{}-{}", name.substr(0, name.size() - 2), count);
    if (nodes[first + count] != expected) break;
  }
  return count;
}

std::string print_node(const Cluster& cluster, const Node& node, std::size_t count) {
  std::vector<std::string> devices;
  for (const Island& island : node.islands) {
    devices.push_back(print_scalar(
        fmt::format("{} x {}", island.count, cluster.kinds[static_cast<std::size_t>(island.kind)].name)));
  }
  std::string name = node.name;
  if (count > 1) name.resize(name.size() - 2);
  std::string text = fmt::format("  - name: {}\n", print_scalar(name));
  if (count > 1) text += fmt::format("    count: {}\n", count);
  text += devices.size() == 1 ? fmt::format("    devices: {}\n", devices[0])
                              : fmt::format("    devices: [{}]\n", fmt::join(devices, ", "));
  if (node.link != kNoLink) text += fmt::format("    link: {}\n", print_link(node.link));
  return text;
}

}  // namespace

int Node::device_count() const {
  return std::accumulate(islands.begin(), islands.end(), 0,
                         [](int sum, const Island& island) { return sum + island.count; });
}

int Cluster::device_count() const {
  return std::accumulate(nodes.begin(), nodes.end(), 0,
                         [](int sum, const Node& node) { return sum + node.device_count(); });
}

const std::vector<DeviceKind>& device_catalogue() {
  static const std::vector<DeviceKind> kinds =
      read_kinds(Fields(parse_yaml(kDevicesYaml, "devices.yaml", true), "devices.yaml", ""));
  return kinds;
}

const DeviceKind& known_device(const std::string& name) {
  std::vector<std::string> known;
  for (const DeviceKind& kind : device_catalogue()) {
    if (kind.name == name) return kind;
    known.push_back(kind.name);
  }
  const std::string best = nearest(name, known);
  fail_input("the device '{}' is not known; {}", name,
             best.empty() ? fmt::format("the catalogue has {}", fmt::join(known, ", "))
                          : fmt::format("did you mean '{}'?", best));
}

Cluster parse_cluster(const std::string& text, const std::string& name) {
  const YAML::Node root = parse_yaml(text, name, true);
  if (!root.IsMap()) {
    fail_input("{} holds {}; it must hold a cluster: nodes with their devices, such as 8 x V100-16GB", name,
               root.IsNull() ? "nothing" : shown(describe(root)));
  }
  const Fields fields(root, name, "");
  fields.only({"name", "devices", "nodes", "network"});
  Cluster cluster{.name = fields.text("name", name), .network = kNoLink};
  NodeReader reader(fields.has("devices") ? read_kinds(fields.map("devices")) : std::vector<DeviceKind>{},
                    cluster);
  const std::vector<Fields> nodes = fields.maps("nodes");
  for (std::size_t i = 0; i < nodes.size(); ++i) reader.read(nodes[i], i);
  if (fields.has("network")) cluster.network = read_link(fields.map("network"));
  if (!fields.has("network") && cluster.nodes.size() > 1)
    fields.refuse("network", "give bandwidth and latency between the nodes");
  return cluster;
}

Cluster load_cluster(const std::string& path) {
  return parse_cluster(read_text("cluster file", path, kLargestConfig), path);
}

std::string to_yaml(const Cluster& cluster) {
  std::string text = fmt::format("name: {}\n", print_scalar(cluster.name));
  bool first = true;
  for (const DeviceKind& kind : cluster.kinds) {
    if (std::ranges::find(device_catalogue(), kind) != device_catalogue().end()) continue;
    text += first ? "devices:\n" : "";
    text += fmt::format("  {}: {}\n", print_scalar(kind.name), print_kind(kind));
    first = false;
  }
  text += "nodes:\n";
  for (std::size_t i = 0; i < cluster.nodes.size();) {
    const std::size_t count = like_nodes(cluster.nodes, i);
    text += print_node(cluster, cluster.nodes[i], count);
    i += count;
  }
  if (cluster.network != kNoLink) text += fmt::format("network: {}\n", print_link(cluster.network));
  return text;
}

}  // namespace twobw::planner
