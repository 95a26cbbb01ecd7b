#include "app/measure/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <future>
#include <iterator>
#include <map>
#include <utility>

#include "core/base/codec.h"

namespace twobw::measure {
namespace {

using transport::Tag;
using transport::Transfer;

// Complete at once: the link keeps the tensor.
class SentByLink final : public Transfer {
 public:
  void wait() override {}
};

class ReceivedByLink final : public Transfer {
 public:
  ReceivedByLink(transport::Link& link, const Tag& tag, at::Tensor into)
      : link_(link), tag_(tag), into_(std::move(into)) {}
  void wait() override { into_.copy_(link_.receive(tag_).front()); }

 private:
  transport::Link& link_;
  Tag tag_;
  at::Tensor into_;
};

// Adapts an endpoint of a link to Wire, so that one benchmark measures both. One end only sends, the other
// only receives. Received tensors are ready for work queued later on the calling thread.
class LinkAsWire final : public transport::Wire {
 public:
  LinkAsWire(transport::Wire& beneath, std::unique_ptr<transport::Link> link, const at::Device& device)
      : beneath_(beneath), link_(std::move(link)), device_(device) {}

  int rank() const override { return beneath_.rank(); }
  int size() const override { return beneath_.size(); }
  std::shared_ptr<Transfer> send(int, int tag, const at::Tensor& tensor) override {
    link_->send(next(tag), {tensor.to(device_)});
    return std::make_shared<SentByLink>();
  }
  std::shared_ptr<Transfer> receive(int, int tag, const at::Tensor& into) override {
    return std::make_shared<ReceivedByLink>(*link_, next(tag), into);
  }
  void abort() override { beneath_.abort(); }

 private:
  // The link's tag for the next message with a wire's tag; both ends count the same.
  Tag next(int tag) {
    constexpr std::int64_t kMessages = std::int64_t{1} << 32;
    return {Tag::Kind::Activation, kMessages * tag + messages_[tag]++};
  }

  transport::Wire& beneath_;
  std::unique_ptr<transport::Link> link_;
  at::Device device_;
  std::map<int, std::int64_t> messages_;  // by tag
};

constexpr std::int64_t kLargestOnGpu = 64 << 20;  // bytes; takes longer than a round trip

struct Assignment {
  std::vector<std::vector<RankPair>> rounds;
  double seconds = 0;          // per round
  std::vector<GpuSlice> gpus;  // by rank; empty: cores
  double timeout = 0;

  static void fields(auto& self, auto&& visit) { visit(self.rounds, self.seconds, self.gpus, self.timeout); }
};

// Drops rounds that would leave too little time per link.
Assignment assign(const std::vector<std::string>& hosts, const LinkBudget& budget,
                  const std::vector<GpuSlice>& gpus) {
  constexpr double kLeast = 0.2;  // seconds a round
  Assignment assignment{.rounds = rounds_of(hosts), .gpus = gpus, .timeout = budget.timeout};
  const auto most = static_cast<std::size_t>(std::max(1.0, budget.all / std::min(kLeast, budget.round)));
  if (assignment.rounds.size() > most) assignment.rounds.resize(most);
  const double rounds = std::max(1.0, static_cast<double>(assignment.rounds.size()));
  assignment.seconds = std::min(budget.round, budget.all / rounds);
  return assignment;
}

// The link that this rank measured, if it asks in a pair.
std::optional<ProcessLink> take_part(transport::Processes& processes, const std::vector<RankPair>& pairs,
                                     double seconds, const std::function<double()>& now,
                                     std::optional<GpuLinks>& gpus) {
  const transport::Wires& wires = processes.wires();
  const auto end = [&](int peer) {
    return LinkEnd{.there = *wires.activations, .back = *wires.gradients, .peer = peer, .now = now};
  };
  for (const RankPair& pair : pairs) {
    if (pair.asks != processes.rank() && pair.answers != processes.rank()) continue;
    if (gpus) {
      const std::optional<WireLink> link = gpus->measure(pair, seconds);
      return link ? std::optional(ProcessLink{pair, *link}) : std::nullopt;
    }
    if (pair.asks == processes.rank()) return ProcessLink{pair, ask(end(pair.answers), seconds)};
    answer(end(pair.asks));
  }
  return std::nullopt;
}

}  // namespace

std::vector<std::vector<int>> ranks_by_host(const std::vector<std::string>& hosts) {
  std::vector<std::vector<int>> ranks;
  std::map<std::string, std::size_t> known;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [found, added] = known.try_emplace(hosts[rank], ranks.size());
    if (added) ranks.emplace_back();
    ranks[found->second].push_back(static_cast<int>(rank));
  }
  return ranks;
}

std::vector<std::vector<RankPair>> rounds_of(const std::vector<std::string>& hosts) {
  const std::vector<std::vector<int>> ranks = ranks_by_host(hosts);
  std::vector<std::vector<RankPair>> rounds;
  std::vector<RankPair> inside;
  for (const std::vector<int>& host : ranks) {
    if (host.size() > 1) inside.push_back({host[0], host[1]});
  }
  if (!inside.empty()) rounds.push_back(inside);
  // Circle method: all but the first rotate by one seat, and opposite seats meet. Odd numbers leave one seat
  // empty.
  const std::size_t seats = ranks.size() + ranks.size() % 2;
  for (std::size_t round = 0; round + 1 < seats; ++round) {
    const auto host_at = [&](std::size_t seat) {
      return seat == 0 ? 0 : 1 + (seat - 1 + round) % (seats - 1);
    };
    std::vector<RankPair> pairs;
    for (std::size_t seat = 0; seat < seats / 2; ++seat) {
      const auto [one, other] = std::minmax({host_at(seat), host_at(seats - 1 - seat)});
      if (other < ranks.size()) pairs.push_back({ranks[one].front(), ranks[other].front()});
    }
    if (!pairs.empty()) rounds.push_back(pairs);
  }
  return rounds;
}

GpuLinks::GpuLinks(transport::Processes& processes, const device::Device& device, double timeout,
                   const MakePaths& make_paths)
    : processes_(processes), device_(device), hub_(std::chrono::duration<double>(timeout)) {
  paths_ = make_paths(std::chrono::duration<double>(timeout),
                      [this](const std::string&, const std::exception_ptr& failure) { fail(failure); });
  const int number = processes_.attach({.on_message = [](auto, int, std::string_view) {},
                                        .on_abort =
                                            [this](const control::Failure&) {
                                              hub_.cancel();
                                              paths_->abort();
                                            }});
  tag_ = number * transport::kTagsOfPipeline;
}

// Runs on a new thread, which leaves the caller's device binding alone.
std::optional<WireLink> GpuLinks::measure(const RankPair& pair, double seconds) {
  const std::optional<WireLink> link =
      std::async(std::launch::async, [&] { return measure_bound(pair, seconds); }).get();
  if (device_.gpu) device::release_unused_gpu_memory();
  return link;
}

std::optional<WireLink> GpuLinks::measure_bound(const RankPair& pair, double seconds) {
  const device::DeviceBinding binding("links", device_);
  const at::Device device = binding.compute("fp32").device();
  const bool asks = pair.asks == processes_.rank();
  const int peer = asks ? pair.answers : pair.asks;
  const transport::Wires& wires = processes_.wires();
  // Both connect before either end exists: destroying an end waits for the peer.
  transport::RemoteEnd joined_there = join(*wires.activations, peer, asks),
                       joined_back = join(*wires.gradients, peer, !asks);
  const auto there = open(std::move(joined_there), asks, device),
             back = open(std::move(joined_back), !asks, device);
  const LinkEnd end{.there = *there,
                    .back = *back,
                    .peer = peer,
                    .now =
                        [&] {
                          const device::Timestamp now = binding.clock().now();
                          binding.clock().await(now);
                          return binding.clock().seconds(now);
                        },
                    .device = device,
                    .largest = kLargestOnGpu};
  return transport::abort_on_failure(&processes_, [&]() -> std::optional<WireLink> {
    if (asks) return ask(end, seconds);
    answer(end);
    return std::nullopt;
  });
}

transport::RemoteEnd GpuLinks::join(transport::Wire& wire, int peer, bool sends) {
  const int gpu = device_.gpu ? device_.gpu->gpu : 0;
  return {.wire = wire,
          .peer = peer,
          .tag = tag_,
          .name = fmt::format("{} process {}", sends ? "to" : "from", peer),
          .on_failure = [this](const std::string&, const std::exception_ptr& failure) { fail(failure); },
          .gpu = paths_->connect({.wire = wire, .peer = peer, .tag = tag_, .sends = sends, .gpu = gpu})};
}

std::unique_ptr<transport::Wire> GpuLinks::open(transport::RemoteEnd end, bool sends,
                                                const at::Device& device) {
  transport::Wire& beneath = end.wire;
  auto link = sends ? transport::sending_end(std::move(end)) : transport::receiving_end(hub_, std::move(end));
  return std::make_unique<LinkAsWire>(beneath, std::move(link), device);
}

// Called by the threads of links and paths; the abort ends the measurement.
void GpuLinks::fail(const std::exception_ptr& failure) {
  try {
    transport::abort_on_failure(&processes_, [&] { std::rethrow_exception(failure); });
  } catch (...) {
  }
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<std::string> hosts_of(const std::vector<runtime::HostDevices>& processes) {
  std::vector<std::string> hosts;
  for (const runtime::HostDevices& process : processes)
    hosts.push_back(fmt::format("{} {}", process.machine, process.host));
  return hosts;
}

std::vector<ProcessLink> measure_links(transport::Processes& processes, const std::vector<std::string>& hosts,
                                       const LinkBudget& budget, const std::vector<GpuSlice>& gpus,
                                       const std::function<double()>& now) {
  control::Mail& mail = processes.mail();
  const bool leads = processes.rank() == 0;
  Assignment assignment;
  if (leads) {
    assignment = assign(hosts, budget, gpus);
    mail.send_to_others(to_bytes(assignment));
  } else {
    assignment = from_bytes<Assignment>(mail.receive(0));
  }
  std::optional<GpuLinks> by_gpus;
  if (!assignment.gpus.empty()) {
    const GpuSlice& own = assignment.gpus.at(static_cast<std::size_t>(processes.rank()));
    by_gpus.emplace(processes, device::Device{.gpu = own}, assignment.timeout);
  }
  std::vector<ProcessLink> links;
  for (const std::vector<RankPair>& pairs : assignment.rounds) {
    const std::optional<ProcessLink> own = take_part(processes, pairs, assignment.seconds, now, by_gpus);
    // Barrier between rounds.
    if (!leads) {
      mail.send(0, to_bytes(own));
      mail.receive(0);
      continue;
    }
    if (own) links.push_back(*own);
    for (int rank = 1; rank < processes.size(); ++rank) {
      if (const auto link = from_bytes<std::optional<ProcessLink>>(mail.receive(rank)))
        links.push_back(*link);
    }
    mail.send_to_others("next");
  }
  return links;
}

LinksByHost links_by_host(const std::vector<ProcessLink>& links, const std::vector<std::string>& hosts) {
  LinksByHost found;
  std::ranges::partition_copy(
      links, std::back_inserter(found.inside), std::back_inserter(found.between),
      [&](const ProcessLink& link) { return hosts.at(link.ranks.asks) == hosts.at(link.ranks.answers); });
  return found;
}

planner::LinkSpec slowest(const std::vector<ProcessLink>& links) {
  planner::LinkSpec slow = planner::kNoLink;
  for (const ProcessLink& each : links) {
    const planner::LinkSpec spec = spec_of(each.link);
    slow.latency = std::max(slow.latency, spec.latency);
    slow.bandwidth = std::min(slow.bandwidth, spec.bandwidth);
  }
  return slow;
}

}  // namespace twobw::measure
