#include "engine/runtime/exchange.h"

#include <algorithm>
#include <utility>

#include "core/base/codec.h"
#include "core/base/error.h"

namespace twobw::runtime {
namespace {

using transport::BatchGate;

// Kinds of messages to the gate.
enum class GateWord : std::uint8_t { Decision, Stop, Save, SaveAndStop };

std::vector<double> read_norms(const transport::Norms& norms) {
  device::block_until(norms.ready, [] { return false; });  // queued work always ends
  const at::Tensor values = norms.on_gpu.to(at::kCPU).contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

}  // namespace

Exchange::Exchange(transport::Processes& processes, const RankMap& rank_map, transport::WaitHub& hub,
                   transport::NormExchange& norms, int owners, transport::BatchGate& gate,
                   const Observer& observer, OnAbort on_abort)
    : processes_(processes),
      rank_map_(rank_map),
      hub_(hub),
      norms_(norms),
      owners_(owners),
      gate_(gate),
      observer_(observer) {
  norms_.share(rank_map_.workers_here(),
               [this](std::int64_t update, int part, const transport::Norms& values) {
                 send_norms(update, part, values);
               });
  if (decides()) gate_.share([this](const BatchGate::Decision& decision) { send_decision(decision); });
  number_ = processes_.attach(
      {.on_message = [this](Topic topic, int from, std::string_view body) { handle(topic, from, body); },
       .on_abort = std::move(on_abort)});
}

Exchange::~Exchange() {
  outbox_.close();
  if (sender_.joinable()) sender_.join();
  processes_.detach();
}

Observer Exchange::observer() const {
  if (decides()) return observer_;
  return {.on_update =
              [this](const telemetry::StageUpdate& update) {
                processes_.send(0, Topic::Update, to_bytes(update));
              },
          .on_evaluation =
              [this](const telemetry::Evaluation& evaluation) {
                processes_.send(0, Topic::Evaluation, to_bytes(evaluation));
              },
          .on_snapshot = observer_.on_snapshot};
}

// Every process with a stage contributes its norms locally; the first of them sends them to processes without
// the stage. A shard's norms are sent by its owner's process.
void Exchange::send_norms(std::int64_t update, int part, const transport::Norms& norms) {
  if (owners_ == 1 && rank_map_.ranks_of_stage(part).front() != rank_map_.rank()) return;
  if (!norms.on_gpu.defined()) return send_values(update, part, norms.values);
  // A thread of its own waits for norms on a GPU, so that no worker does. They stay valid until all stages
  // have collected them.
  std::call_once(sender_started_, [this] {
    const auto abort = [this](const std::string&, const std::exception_ptr& failure) {
      try {
        std::rethrow_exception(failure);
      } catch (const std::exception& error) {
        processes_.abort(control::Failure::of(error));
      }
    };
    sender_ = transport::start_helper_thread("norms", abort, [this] {
      while (const std::optional<OutgoingNorms> next = outbox_.take())
        send_values(next->update, next->part, read_norms(next->norms));
    });
  });
  outbox_.put({update, part, norms});
}

void Exchange::send_values(std::int64_t update, int part, const std::vector<double>& values) {
  const std::string body = to_bytes(update, part, values);
  if (owners_ > 1) return processes_.send_to_others(Topic::Norms, body);
  const std::vector<int> ranks = rank_map_.ranks_of_stage(part);
  for (int rank = 0; rank < processes_.size(); ++rank) {
    if (std::ranges::find(ranks, rank) == ranks.end()) processes_.send(rank, Topic::Norms, body);
  }
}

void Exchange::send_decision(const BatchGate::Decision& decision) {
  processes_.send_to_others(Topic::Gate,
                            to_bytes(GateWord::Decision, decision.batch, decision.begins, decision.saves));
}

void Exchange::request_stop() {
  if (decides()) return gate_.request_stop();
  processes_.send(0, Topic::Gate, to_bytes(GateWord::Stop));
}

void Exchange::request_save(bool stop) {
  if (decides()) return gate_.request_save(stop);
  processes_.send(0, Topic::Gate, to_bytes(stop ? GateWord::SaveAndStop : GateWord::Save));
}

void Exchange::handle_gate(std::string_view body) {
  Decoder decoder(body);
  switch (decoder.take<GateWord>()) {
    case GateWord::Stop:
      return gate_.request_stop();
    case GateWord::Save:
      return gate_.request_save(/*stop=*/false);
    case GateWord::SaveAndStop:
      return gate_.request_save(/*stop=*/true);
    case GateWord::Decision:
      BatchGate::Decision decision;
      decoder(decision.batch, decision.begins, decision.saves);
      return gate_.learn(decision);
  }
}

void Exchange::handle(Topic topic, int from, std::string_view body) {
  switch (topic) {
    case Topic::Gate:
      return handle_gate(body);
    case Topic::Norms: {
      auto [update, part, values] = from_bytes<std::int64_t, int, std::vector<double>>(body);
      return norms_.contribute_from_afar(update, part, {.values = std::move(values)});
    }
    case Topic::Update:
      return observer_.on_update(from_bytes<telemetry::StageUpdate>(body));
    case Topic::Evaluation:
      return observer_.on_evaluation(from_bytes<telemetry::Evaluation>(body));
    case Topic::Other:
      return hub_.update([&] { ended_.insert(from); });
    default:
      return;
  }
}

void Exchange::finish() {
  processes_.send_to_others(Topic::Other, {});
  const int others = processes_.size() - 1;
  hub_.wait(
      fmt::format("word from all {} other processes that their workers have ended", others),
      [&] { return std::ssize(ended_) == others; }, [] { return true; });
}

std::string describe_others(const transport::Processes& processes) {
  std::string text;
  for (const control::Liveness& life : processes.control().liveness()) {
    text += life.has_left
                ? fmt::format("  process {}: has left\n", life.rank)
                : fmt::format("  process {}: last heard of {:.1f} s ago\n", life.rank, life.silent_s);
  }
  return text;
}

}  // namespace twobw::runtime
