// The hardware a plan is made for: devices in nodes, links within a node and between nodes.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <vector>

namespace twobw::planner {

struct LinkSpec {
  double latency = 0;    // seconds
  double bandwidth = 0;  // bytes a second, in each direction
  // All devices of a node share the one link (a network card, a memory bus); else each has its own.
  bool shared = false;

  double seconds(double bytes) const { return latency + bytes / bandwidth; }
  bool operator==(const LinkSpec&) const = default;
};

// A link that a file may leave out, because nothing ever crosses it.
inline constexpr LinkSpec kNoLink{.bandwidth = std::numeric_limits<double>::infinity()};

// A kind of device. Without a profile, times are modelled from these figures.
struct DeviceKind {
  std::string name;
  double memory = 0;            // bytes
  double flops = 0;             // peak rate a second, of any precision `rates` does not name; 0: not known
  double memory_bandwidth = 0;  // bytes a second
  double efficiency = 0.5;      // fraction of the peak rate that large matrix products reach
  double overhead = 0;          // additional seconds per layer, such as launches
  // Times of a profile are divided by this: a device of one kind may be faster than the profiled one.
  double speed = 1;
  std::map<std::string, double> rates = {};  // peak rates a second by precision: "fp32", "fp16", "bf16"

  bool operator==(const DeviceKind&) const = default;
};

// `count` devices of one kind that see each other over one link. A machine with unlike devices has
// several of these.
struct Island {
  int kind = 0;  // index into Cluster::kinds
  int count = 0;

  bool operator==(const Island&) const = default;
};

struct Node {
  std::string name;
  std::vector<Island> islands;
  LinkSpec link;  // between devices of this node

  int device_count() const;
  bool operator==(const Node&) const = default;
};

struct Cluster {
  std::string name;
  std::vector<DeviceKind> kinds;
  std::vector<Node> nodes;
  LinkSpec network;  // between nodes

  int device_count() const;
  bool operator==(const Cluster&) const = default;
};

// Reads cluster.yaml; throws InputError (file and key, what is allowed): no node, no device, a bandwidth or
// memory of 0 or less, an unknown device kind (names the catalogue), an unknown key.
Cluster load_cluster(const std::string& path);
// Overload for a text; `name` identifies it in messages.
Cluster parse_cluster(const std::string& text, const std::string& name);
// Reads back to the same cluster.
std::string to_yaml(const Cluster& cluster);

// The devices whose public figures ship with the program: "V100-16GB", "H200", ...; throws InputError.
const std::vector<DeviceKind>& device_catalogue();
const DeviceKind& known_device(const std::string& name);

}  // namespace twobw::planner
