// The link between two processes, measured over the wires that training uses: one of them asks and times, the
// other answers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/transport/wire.h"
#include "planning/planner/hardware/cluster.h"

namespace twobw::measure {

struct WireLink {
  double latency = 0;    // seconds from the send of a word to its receipt
  double one_way = 0;    // bytes a second, while nothing comes back
  double both_ways = 0;  // bytes a second in each direction, while both are full
};

// One of the two ranks. What the asking rank sends goes by `there`, what it receives by `back`: as
// activations and gradients do, each by connections of its own.
struct LinkEnd {
  transport::Wire& there;
  transport::Wire& back;
  int peer = 0;
  std::function<double()> now;      // seconds; used where it is asked
  at::Device device = at::kCPU;     // of the tensors that are timed
  std::int64_t largest = 16 << 20;  // bytes of a tensor
};

// Medians over words, and over tensors of growing size as long as the next size fits; the bandwidths are
// those of the largest. Takes at most about `seconds`, more only where a single tensor of the smallest size
// does.
WireLink ask(const LinkEnd& end, double seconds);
void answer(const LinkEnd& end);

// What the planner counts with. Under 2bw activations go one way while gradients come back, so its bandwidth,
// which is that of each direction, is what a direction has left while the other is full: on a link that
// carries both ways at once all of it, on one whose ends are busy with both (a memory bus, a core that
// copies) less.
planner::LinkSpec spec_of(const WireLink& link);

// "10 Gbit/s", "94.1 Mbit/s"; "25 us", "1.2 ms".
std::string format_bandwidth(double bytes_per_second);
std::string format_latency(double seconds);

}  // namespace twobw::measure
