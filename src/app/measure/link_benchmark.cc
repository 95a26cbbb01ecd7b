#include "app/measure/link_benchmark.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <thread>
#include <utility>

#include "core/base/threads.h"
#include "engine/transport/link.h"
#include "engine/transport/wait_hub.h"

namespace twobw::measure {
namespace {

using transport::Transfer;
using Posted = std::shared_ptr<Transfer>;

enum class Task : std::int64_t { Words, OneWay, BothWays, End };

// Tags on both wires. All transfers complete, so pipelines may reuse the tags.
constexpr int kRequestTag = 1, kWordTag = 2, kBulkTag = 3;
constexpr std::int64_t kSmallest = 16 << 10;  // bytes; sizes grow by a factor of 4
constexpr int kFewWords = 4, kWords = 200, kTurnsOfSize = 5;
constexpr double kShareOfWords = 0.15, kShareOfRate = 0.4;  // of the budget

at::Tensor word_at(const at::Device& device) {
  return at::zeros({1}, at::TensorOptions(at::kLong).device(device));
}

// zeros() on a CPU: memory is mapped on first write.
at::Tensor bulk_at(const at::Device& device, std::int64_t bytes) {
  const auto options = at::TensorOptions(at::kByte).device(device);
  return device.is_cpu() ? at::zeros({bytes}, options) : at::empty({bytes}, options);
}

struct Request {
  Task task = Task::End;
  std::int64_t bytes = 0, turns = 0;
};

double take_turn(const LinkEnd& end, const Request& request, const at::Tensor& word, const at::Tensor& out,
                 const at::Tensor& in) {
  const at::Tensor reply = word_at(end.device);
  const Posted answered = end.back.receive(end.peer, kWordTag, reply);
  Posted coming, going, start;
  if (request.task == Task::BothWays) coming = end.back.receive(end.peer, kBulkTag, in);
  const double begin = end.now();
  if (request.task != Task::OneWay) start = end.there.send(end.peer, kWordTag, word);
  if (request.task != Task::Words) going = end.there.send(end.peer, kBulkTag, out);
  for (const Posted& transfer : {coming, answered, start, going}) {
    if (transfer) transfer->wait();
  }
  return end.now() - begin;
}

// On the rank that measures. Receives are posted before the peer can send, as in remote_link.h; else a turn
// would include one more latency.
Samples time_turns(const LinkEnd& end, const Request& request) {
  at::Tensor message = at::empty({3}, at::kLong);
  auto* const values = message.mutable_data_ptr<std::int64_t>();
  values[0] = static_cast<std::int64_t>(request.task);
  values[1] = request.bytes;
  values[2] = request.turns;
  const at::Tensor reply = word_at(end.device);
  const Posted ready = end.back.receive(end.peer, kWordTag, reply);
  end.there.send(end.peer, kRequestTag, message)->wait();
  ready->wait();
  Samples samples;
  const at::Tensor word = word_at(end.device), out = bulk_at(end.device, request.bytes),
                   in = bulk_at(end.device, request.bytes);
  for (std::int64_t turn = 0; turn < request.turns; ++turn)
    samples.add(take_turn(end, request, word, out, in));
  return samples;
}

struct Turn {
  at::Tensor word, bulk;
  Posted started, coming;
};

Turn expect_turn(const LinkEnd& end, const Request& request) {
  Turn turn{.word = word_at(end.device), .bulk = bulk_at(end.device, request.bytes)};
  if (request.task != Task::OneWay) turn.started = end.there.receive(end.peer, kWordTag, turn.word);
  if (request.task != Task::Words) turn.coming = end.there.receive(end.peer, kBulkTag, turn.bulk);
  return turn;
}

// On its peer: answers a request. The next turn's receives are posted before it answers this turn. Returns
// false after the last request.
bool serve(const LinkEnd& end) {
  at::Tensor message = at::empty({3}, at::kLong);
  end.there.receive(end.peer, kRequestTag, message)->wait();
  const auto* const values = message.const_data_ptr<std::int64_t>();
  const Request request{.task = static_cast<Task>(values[0]), .bytes = values[1], .turns = values[2]};
  Turn next = request.turns > 0 ? expect_turn(end, request) : Turn();
  const at::Tensor word = word_at(end.device), out = bulk_at(end.device, request.bytes);
  Posted said = end.back.send(end.peer, kWordTag, word);
  for (std::int64_t turn = 0; turn < request.turns; ++turn) {
    const Turn now = std::exchange(next, Turn());
    Posted sent;
    if (now.started) now.started->wait();
    if (request.task == Task::BothWays) sent = end.back.send(end.peer, kBulkTag, out);
    if (turn + 1 < request.turns) next = expect_turn(end, request);
    if (now.coming) now.coming->wait();
    said->wait();
    said = end.back.send(end.peer, kWordTag, word);
    if (sent) sent->wait();
  }
  said->wait();
  return request.task != Task::End;
}

// Seconds of a round trip.
double time_words(const LinkEnd& end, double seconds) {
  const double few = time_turns(end, {.task = Task::Words, .turns = kFewWords}).summary().median;
  const auto more = static_cast<std::int64_t>(seconds / std::max(few, 1e-6));
  if (more <= kFewWords) return few;
  return time_turns(end, {.task = Task::Words, .turns = std::min<std::int64_t>(more, kWords)})
      .summary()
      .median;
}

// Bytes per second, from the time of a turn less a round trip.
double time_bytes(const LinkEnd& end, Task task, double round_trip, double seconds) {
  constexpr double kFar = 5e-3;  // seconds; the latency hides small tensors
  double spent = 0;
  for (std::int64_t bytes = round_trip > kFar ? 16 * kSmallest : kSmallest;; bytes *= 4) {
    double turn = time_turns(end, {.task = task, .bytes = bytes, .turns = 1}).summary().median;
    spent += turn + round_trip;  // until the peer is ready
    const auto moving = [&] { return std::max(turn - round_trip, turn / 100); };
    const auto is_last = [&] {
      const double next = 4 * moving() + 2 * round_trip;
      return bytes >= end.largest || spent + 2 * next > seconds;
    };
    if (!is_last() && turn < 2 * round_trip) continue;
    const auto more = static_cast<std::int64_t>((seconds - spent) / 2 / std::max(turn, 1e-6));
    if (more > 0) {
      const std::int64_t turns = std::min<std::int64_t>(more, kTurnsOfSize);
      turn = time_turns(end, {.task = task, .bytes = bytes, .turns = turns}).summary().median;
      spent += static_cast<double>(turns) * turn + round_trip;
    }
    if (is_last()) return static_cast<double>(bytes) / moving();
  }
}

// Three significant digits.
double rounded(double value) {
  const double digits = 2 - std::floor(std::log10(value));
  const double scale = std::pow(10, std::abs(digits));
  return digits > 0 ? std::round(value * scale) / scale : std::round(value / scale) * scale;
}

std::string three_digits(double value) {
  return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

using Clock = std::chrono::steady_clock;
using transport::Tag;

constexpr int kTurns = 200, kReads = 30;
constexpr double kTimeout = 60;  // seconds

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Seconds to read the tensor.
double time_read(const at::Tensor& tensor) {
  const std::span values(tensor.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(tensor.numel()));
  const auto begin = Clock::now();
  const volatile std::int64_t sum = std::reduce(values.begin(), values.end());
  static_cast<void>(sum);
  return seconds_since(begin);
}

std::optional<int> other_core(const device::CoreSet& cores) {
  for (const int core : device::available_cores()) {
    if (std::find(cores.cores.begin(), cores.cores.end(), core) == cores.cores.end()) return core;
  }
  if (cores.cores.size() > 1) return cores.cores.back();
  return std::nullopt;
}

// A link and one in the opposite direction.
class Pair {
 public:
  // The near worker: round trips of a word, then tensors there and a word back.
  double play_near(std::int64_t elements) {
    Samples turns;
    const at::Tensor word = at::zeros({1}, at::kLong);
    for (int i = 0; i < kTurns; ++i) {
      const auto begin = Clock::now();
      there_->send({Tag::Kind::Activation, i}, {word});
      back_->receive({Tag::Kind::Gradient, i});
      turns.add(seconds_since(begin) / 2);
    }
    for (int i = kTurns; i < kTurns + kReads; ++i) {
      there_->send({Tag::Kind::Activation, i}, {at::full({elements}, i, at::kLong)});
      back_->receive({Tag::Kind::Gradient, i});
    }
    return turns.summary().median;
  }

  double play_far() {
    Samples reads;
    for (int i = 0; i < kTurns + kReads; ++i) {
      const at::Tensor received = there_->receive({Tag::Kind::Activation, i}).front();
      if (i >= kTurns) reads.add(time_read(received));
      back_->send({Tag::Kind::Gradient, i}, {received});
    }
    return reads.summary().median;
  }

 private:
  transport::WaitHub hub_{std::chrono::duration<double>(kTimeout)};
  std::unique_ptr<transport::Link> there_ = transport::local_link(hub_), back_ = transport::local_link(hub_);
};

// Slices of a GPU exchange addresses and the receiver copies: times copies of a word and of `bytes`.
planner::LinkSpec measure_on_gpu(const device::Device& device, double bytes) {
  const device::DeviceBinding binding("link", device);
  const auto time_copy = [&](std::int64_t elements) {
    const at::Tensor from = at::zeros({elements}, binding.compute("fp32").dtype(at::kByte)),
                     to = at::empty_like(from);
    Samples copies;
    for (int i = 0; i < kReads; ++i) {
      const device::Timestamp begin = binding.clock().now();
      to.copy_(from);
      const device::Timestamp end = binding.clock().now();
      binding.clock().await(end);
      copies.add(binding.clock().between(begin, end));
    }
    return copies.summary().median;
  };
  const double latency = time_copy(1), all = time_copy(static_cast<std::int64_t>(bytes));
  return {.latency = latency, .bandwidth = bytes / std::max(all - latency, 1e-9)};
}

}  // namespace

WireLink ask(const LinkEnd& end, double seconds) {
  const double round_trip = time_words(end, kShareOfWords * seconds);
  WireLink link{.latency = round_trip / 2};
  link.one_way = time_bytes(end, Task::OneWay, round_trip, kShareOfRate * seconds);
  link.both_ways = time_bytes(end, Task::BothWays, round_trip, kShareOfRate * seconds);
  time_turns(end, {.task = Task::End});
  return link;
}

void answer(const LinkEnd& end) {
  while (serve(end)) {
  }
}

std::string format_bandwidth(double bytes_per_second) {
  const double bits = 8 * bytes_per_second;
  return bits < 1e9 ? three_digits(bits / 1e6) + " Mbit/s" : three_digits(bits / 1e9) + " Gbit/s";
}

std::string format_latency(double seconds) {
  return seconds < 1e-3 ? three_digits(1e6 * seconds) + " us" : three_digits(1e3 * seconds) + " ms";
}

planner::LinkSpec spec_of(const WireLink& link) {
  return {.latency = rounded(std::max(link.latency, 1e-9)),
          .bandwidth = rounded(std::min(link.one_way, link.both_ways))};
}

std::optional<planner::LinkSpec> measure_local_link(const device::Device& device, double bytes) {
  if (device.gpu) {
    planner::LinkSpec link;
    std::jthread([&] { link = measure_on_gpu(device, std::max(bytes, 65536.0)); }).join();
    return link;
  }
  const device::CoreSet& cores = device.cores;
  const auto far = other_core(cores);
  if (!far || cores.cores.empty()) return std::nullopt;
  const auto elements = std::max<std::int64_t>(8192, static_cast<std::int64_t>(bytes) / 8);
  Pair pair;
  double latency = 0, seconds = 0;
  run_on_threads(2, [&](int end) {
    if (end == 0) {
      device::bind_thread("link near", {.cores = {cores.cores.front()}});
      latency = pair.play_near(elements);
    } else {
      device::bind_thread("link far", {.cores = {*far}});
      seconds = pair.play_far();
    }
  });
  return planner::LinkSpec{.latency = latency, .bandwidth = 8.0 * static_cast<double>(elements) / seconds};
}

}  // namespace twobw::measure
