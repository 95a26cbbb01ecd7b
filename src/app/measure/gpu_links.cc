#include "app/measure/gpu_links.h"

#include <fmt/format.h>

#include <future>
#include <string>
#include <utility>

#include "app/measure/link_wire.h"
#include "engine/transport/processes.h"

namespace twobw::measure {
namespace {

constexpr std::int64_t kLargestOnGpu = 64 << 20;  // bytes; what takes longer than a word there and back

}  // namespace

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

GpuLinks::~GpuLinks() {
  processes_.detach();
}

// On a thread of its own, which takes its binding and leaves it.
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
  // Both are joined before there is an end, which waits for the other process when it goes.
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
  return link_wire(beneath, std::move(link), device);
}

// Told of by the threads of links and paths; who measures hears of it by the abort.
void GpuLinks::fail(const std::exception_ptr& failure) {
  try {
    transport::abort_on_failure(&processes_, [&] { std::rethrow_exception(failure); });
  } catch (...) {
  }
}

}  // namespace twobw::measure
