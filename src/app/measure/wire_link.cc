#include "app/measure/wire_link.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

#include "app/measure/samples.h"

namespace twobw::measure {
namespace {

using transport::Transfer;
using Posted = std::shared_ptr<Transfer>;

enum class Task : std::int64_t { Words, OneWay, BothWays, End };

// On both wires. All transfers are waited for, so pipelines may use the tags again.
constexpr int kRequestTag = 1, kWordTag = 2, kBulkTag = 3;
constexpr std::int64_t kSmallest = 16 << 10;  // bytes; a factor of 4 from size to size
constexpr int kFewWords = 4, kWords = 200, kTurnsOfSize = 5;
constexpr double kShareOfWords = 0.15, kShareOfRate = 0.4;  // of the time there is

at::Tensor word_at(const at::Device& device) {
  return at::zeros({1}, at::TensorOptions(at::kLong).device(device));
}

// On a CPU memory is there once it has been written to.
at::Tensor bulk_at(const at::Device& device, std::int64_t bytes) {
  const auto options = at::TensorOptions(at::kByte).device(device);
  return device.is_cpu() ? at::zeros({bytes}, options) : at::empty({bytes}, options);
}

struct Request {
  Task task = Task::End;
  std::int64_t bytes = 0, turns = 0;
};

// The rank that times. A receive is posted before what it waits for can come, as links do it (remote_link.h);
// else it would cost a way more.
class Asker {
 public:
  explicit Asker(const LinkEnd& end) : end_(end) {}

  Samples time(const Request& request) {
    at::Tensor told = at::empty({3}, at::kLong);
    auto* const values = told.mutable_data_ptr<std::int64_t>();
    values[0] = static_cast<std::int64_t>(request.task);
    values[1] = request.bytes;
    values[2] = request.turns;
    const at::Tensor heard = word_at(end_.device);
    const Posted ready = end_.back.receive(end_.peer, kWordTag, heard);
    end_.there.send(end_.peer, kRequestTag, told)->wait();
    ready->wait();
    Samples samples;
    const at::Tensor word = word_at(end_.device), out = bulk_at(end_.device, request.bytes),
                     in = bulk_at(end_.device, request.bytes);
    for (std::int64_t turn = 0; turn < request.turns; ++turn) samples.add(take_turn(request, word, out, in));
    return samples;
  }

 private:
  double take_turn(const Request& request, const at::Tensor& word, const at::Tensor& out,
                   const at::Tensor& in) {
    const at::Tensor heard = word_at(end_.device);
    const Posted answered = end_.back.receive(end_.peer, kWordTag, heard);
    Posted coming, going, start;
    if (request.task == Task::BothWays) coming = end_.back.receive(end_.peer, kBulkTag, in);
    const double begin = end_.now();
    if (request.task != Task::OneWay) start = end_.there.send(end_.peer, kWordTag, word);
    if (request.task != Task::Words) going = end_.there.send(end_.peer, kBulkTag, out);
    for (const Posted& transfer : {coming, answered, start, going}) {
      if (transfer) transfer->wait();
    }
    return end_.now() - begin;
  }

  const LinkEnd& end_;
};

// The other one. The next turn's receives are posted before this turn is answered.
class Answerer {
 public:
  explicit Answerer(const LinkEnd& end) : end_(end) {}

  // False: that was the last request.
  bool serve() {
    at::Tensor told = at::empty({3}, at::kLong);
    end_.there.receive(end_.peer, kRequestTag, told)->wait();
    const auto* const values = told.const_data_ptr<std::int64_t>();
    const Request request{.task = static_cast<Task>(values[0]), .bytes = values[1], .turns = values[2]};
    Turn next = request.turns > 0 ? expect(request) : Turn();
    const at::Tensor word = word_at(end_.device), out = bulk_at(end_.device, request.bytes);
    Posted said = end_.back.send(end_.peer, kWordTag, word);
    for (std::int64_t turn = 0; turn < request.turns; ++turn) {
      const Turn now = std::exchange(next, Turn());
      Posted sent;
      if (now.started) now.started->wait();
      if (request.task == Task::BothWays) sent = end_.back.send(end_.peer, kBulkTag, out);
      if (turn + 1 < request.turns) next = expect(request);
      if (now.coming) now.coming->wait();
      said->wait();
      said = end_.back.send(end_.peer, kWordTag, word);
      if (sent) sent->wait();
    }
    said->wait();
    return request.task != Task::End;
  }

 private:
  struct Turn {
    at::Tensor word, bulk;
    Posted started, coming;
  };

  Turn expect(const Request& request) {
    Turn turn{.word = word_at(end_.device), .bulk = bulk_at(end_.device, request.bytes)};
    if (request.task != Task::OneWay) turn.started = end_.there.receive(end_.peer, kWordTag, turn.word);
    if (request.task != Task::Words) turn.coming = end_.there.receive(end_.peer, kBulkTag, turn.bulk);
    return turn;
  }

  const LinkEnd& end_;
};

// Seconds for a word there and one back.
double time_words(Asker& asker, double seconds) {
  const double few = asker.time({.task = Task::Words, .turns = kFewWords}).summary().median;
  const auto more = static_cast<std::int64_t>(seconds / std::max(few, 1e-6));
  if (more <= kFewWords) return few;
  return asker.time({.task = Task::Words, .turns = std::min<std::int64_t>(more, kWords)}).summary().median;
}

// Bytes a second. The time of a turn is that of the bytes and of a word there and back.
double time_bytes(Asker& asker, Task task, double round_trip, double seconds, std::int64_t largest) {
  constexpr double kFar = 5e-3;  // seconds; then small tensors tell nothing but that
  double spent = 0;
  for (std::int64_t bytes = round_trip > kFar ? 16 * kSmallest : kSmallest;; bytes *= 4) {
    double turn = asker.time({.task = task, .bytes = bytes, .turns = 1}).summary().median;
    spent += turn + round_trip;  // until the other is ready
    const auto moving = [&] { return std::max(turn - round_trip, turn / 100); };
    const auto is_last = [&] {
      const double next = 4 * moving() + 2 * round_trip;
      return bytes >= largest || spent + 2 * next > seconds;
    };
    if (!is_last() && turn < 2 * round_trip) continue;
    const auto more = static_cast<std::int64_t>((seconds - spent) / 2 / std::max(turn, 1e-6));
    if (more > 0) {
      const std::int64_t turns = std::min<std::int64_t>(more, kTurnsOfSize);
      turn = asker.time({.task = task, .bytes = bytes, .turns = turns}).summary().median;
      spent += static_cast<double>(turns) * turn + round_trip;
    }
    if (is_last()) return static_cast<double>(bytes) / moving();
  }
}

// To three digits, which is more than a measurement is worth.
double rounded(double value) {
  const double digits = 2 - std::floor(std::log10(value));
  const double scale = std::pow(10, std::abs(digits));
  return digits > 0 ? std::round(value * scale) / scale : std::round(value / scale) * scale;
}

std::string three_digits(double value) {
  return value < 100 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
}

}  // namespace

WireLink ask(const LinkEnd& end, double seconds) {
  Asker asker(end);
  const double round_trip = time_words(asker, kShareOfWords * seconds);
  WireLink link{.latency = round_trip / 2};
  link.one_way = time_bytes(asker, Task::OneWay, round_trip, kShareOfRate * seconds, end.largest);
  link.both_ways = time_bytes(asker, Task::BothWays, round_trip, kShareOfRate * seconds, end.largest);
  asker.time({.task = Task::End});
  return link;
}

void answer(const LinkEnd& end) {
  Answerer answerer(end);
  while (answerer.serve()) {
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

}  // namespace twobw::measure
