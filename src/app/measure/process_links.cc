#include "app/measure/process_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>

#include "app/measure/gpu_links.h"
#include "core/base/bytes.h"

namespace twobw::measure {
namespace {

struct Assignment {
  std::vector<std::vector<RankPair>> rounds;
  double seconds = 0;          // a round
  std::vector<GpuSlice> gpus;  // by rank; none: on cores
  double timeout = 0;
};

std::string to_bytes(const Assignment& assignment) {
  ByteWriter writer;
  writer.add(assignment.seconds).add(static_cast<std::uint64_t>(assignment.rounds.size()));
  for (const std::vector<RankPair>& pairs : assignment.rounds) writer.add(pairs);
  return writer.add(assignment.gpus).add(assignment.timeout).take();
}

Assignment to_assignment(std::string_view bytes) {
  ByteReader reader(bytes);
  Assignment assignment;
  assignment.seconds = reader.take<double>();
  const auto rounds = reader.take<std::uint64_t>();
  for (std::uint64_t i = 0; i < rounds; ++i) assignment.rounds.push_back(reader.take_list<RankPair>());
  assignment.gpus = reader.take_list<GpuSlice>();
  assignment.timeout = reader.take<double>();
  return assignment;
}

// As many rounds as are left time for a link to be known well.
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

// What this rank measured, where it is one who asks.
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

std::string to_bytes(const std::optional<ProcessLink>& link) {
  return ByteWriter().add(link).take();
}

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::vector<std::string> hosts_of(const std::vector<runtime::HostDevices>& processes) {
  std::vector<std::string> hosts;
  for (const runtime::HostDevices& process : processes)
    hosts.push_back(fmt::format("{} {}", process.machine, process.host));
  return hosts;
}

std::vector<ProcessLink> measure_links(transport::Processes& processes, const std::vector<std::string>& hosts,
                                       const LinkBudget& budget, const std::function<double()>& now,
                                       const std::vector<GpuSlice>& gpus) {
  transport::Mail& mail = processes.mail();
  const bool leads = processes.rank() == 0;
  Assignment assignment;
  if (leads) {
    assignment = assign(hosts, budget, gpus);
    mail.send_to_others(to_bytes(assignment));
  } else {
    assignment = to_assignment(mail.receive(0));
  }
  std::optional<GpuLinks> by_gpus;
  if (!assignment.gpus.empty()) {
    const GpuSlice& own = assignment.gpus.at(static_cast<std::size_t>(processes.rank()));
    by_gpus.emplace(processes, device::Device{.gpu = own}, assignment.timeout);
  }
  std::vector<ProcessLink> links;
  for (const std::vector<RankPair>& pairs : assignment.rounds) {
    const std::optional<ProcessLink> own = take_part(processes, pairs, assignment.seconds, now, by_gpus);
    // A round ends for all before the next begins.
    if (!leads) {
      mail.send(0, to_bytes(own));
      mail.receive(0);
      continue;
    }
    if (own) links.push_back(*own);
    for (int rank = 1; rank < processes.size(); ++rank) {
      const std::string bytes = mail.receive(rank);
      if (const auto link = ByteReader(bytes).take_optional<ProcessLink>()) links.push_back(*link);
    }
    mail.send_to_others("next");
  }
  return links;
}

void measure_links(transport::Processes& processes) {
  measure_links(processes, {}, {}, clock_seconds);
}

std::vector<ProcessLink> measure_links(transport::Processes& processes, const std::vector<std::string>& hosts,
                                       const LinkBudget& budget, const std::vector<GpuSlice>& gpus) {
  return measure_links(processes, hosts, budget, clock_seconds, gpus);
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
