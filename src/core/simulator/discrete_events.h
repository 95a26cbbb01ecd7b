// Discrete-event simulation behind simulate(): every stage executes its list in order; transfers, sums and
// decisions between stages happen as early as possible.
//
// A stage runs ahead of the others until it must wait for an event that has not happened yet. The order of
// requests matters only for channels with several users: before it requests one, a stage lets all stages that
// are earlier in simulated time run first.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "core/schedule/schedule_rule.h"
#include "core/simulator/simulate.h"

namespace twobw::simulator {

// End of a stage's last backward of a batch, and all its time until then by use.
struct BatchEnd {
  double time = 0;
  StageUse use;
};

struct Recording {
  bool batch_ends = false;
  bool events = false;
};

class DiscreteEvents {
 public:
  DiscreteEvents(const schedule::Spec& spec, const System& system, Recording recording);

  // Runs until stage 0, the last stage to do so, has ended one more batch.
  void run_batch();
  // Runs all lists to their end.
  void run();

  double time() const;  // when the last instruction so far ended
  const BatchEnd& batch_end(int stage, std::int64_t batch) const;
  std::vector<schedule::Event> take_events();  // stage after stage

 private:
  // More than the updates that can be in progress at once: a stage makes update j before it forwards batch
  // j+2, and no stage ends a batch before all stages have forwarded it.
  static constexpr std::int64_t kUpdates = 4;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Stage {
    Stage(const schedule::Spec& spec, int stage) : stream(spec, stage) {}

    schedule::Stream stream;
    schedule::Instruction next;
    bool ended = false;
    bool waiting = false;       // for an event of another stage
    double clock = 0;           // end of the last instruction
    bool sums_partial = false;  // the sum to predict from is in progress
    double partial_end = 0;     // end of the last such sum
    std::int64_t evaluations = 0;
    std::array<double, kUpdates> evaluation_end{};
    StageUse use;
    std::vector<BatchEnd> batch_ends;
    std::vector<schedule::Event> events;
  };

  // Arrivals at a stage from one neighbor, by microbatch.
  struct Mailbox {
    std::size_t first = 0;  // in arrivals_
    std::int64_t mask = 0;
    std::int64_t sent = 0;
    double bytes = 0;
    int channel = -1;
  };

  struct Update {
    std::int64_t batch = -1;
    int missing = 0;      // contributions still to come
    double complete = 0;  // the latest so far
    // When the parts of a tied gradient reach the other end: the primary's the copy, and back.
    double at_copy = 0, at_primary = 0;
    bool primary_contributed = true;
  };

  // Sums that use a channel beside the compute, one after the other: the all-reduces of a stage, or one end
  // of a tied gradient. On a shared channel they are sent in pieces, so that its other users need not wait
  // for a whole sum.
  struct Sum {
    std::int64_t batch = 0;
    bool partial = false;  // the all-reduce of the gradients to predict from
    double ready = 0;
  };
  struct Flow {
    int channel = -1;
    double bytes = 0, piece = 0;
    double after = 0;  // seconds of an all-reduce in addition to its bytes
    double left = 0;   // bytes of the current sum that are still to be sent
    double free = 0;   // end of the sum before
    std::deque<Sum> sums;
  };

  struct Turn {
    double time;
    int who;  // a stage, or stages() + a flow
  };

  int stages() const { return static_cast<int>(stages_.size()); }
  bool tied() const { return system_.tie_bytes > 0 && stages() > 1; }
  // Without replicas the first stage takes the copy's part when it steps.
  bool takes_tie_in_step(int r) const { return r == 0 && tied() && spec_.shape.replicas == 1; }
  bool is_shared(int channel) const { return channel >= 0 && users_[channel] > 1; }

  // Flows: the all-reduces of every stage, then the tie's end at the first stage and that at the last.
  int tie_flow(int end) const { return stages() + end; }
  double piece_of(int channel, double bytes) const;
  void take_turn();
  void queue(double time, int who);
  std::string describe_waiting() const;
  void fetch(Stage& stage);
  void advance(int r);
  bool must_let_others_pass(int r) const;
  bool carry_out(int r);

  bool begin_batch(int r);
  bool receive(int r, const Mailbox& mailbox, double StageUse::*wait);
  bool send(int r, Mailbox& mailbox, int to, schedule::Op awaited);
  bool reduce(int r);
  bool reduce_partial(int r);
  bool step(int r);
  bool predict(int r);
  bool evaluate(int r);

  void wait_until(Stage& stage, double time, double StageUse::*wait);
  bool work(Stage& stage, double seconds, double StageUse::*use);
  void wake(int r, schedule::Op awaited, std::int64_t batch, double time);
  // When `bytes`, ready at `time`, have left the channel; they arrive its latency later.
  double occupy(int channel, double time, double bytes);
  double latency(int channel) const { return channel < 0 ? 0 : system_.channels[channel].latency; }

  Update& update_of(std::int64_t batch);
  void contribute(std::int64_t batch, double time);
  void enter(int flow, const Sum& sum);
  void advance_flow(int flow, double time);
  void summed(int r, const Sum& sum, double time);
  void exchanged(int end, std::int64_t batch, double time);

  schedule::Spec spec_;
  const System& system_;
  Recording recording_;
  std::vector<Stage> stages_;
  std::vector<Turn> turns_;  // a heap with the earliest on top; in any order if no channel is shared
  bool in_order_ = false;
  std::vector<Mailbox> activations_, gradients_;  // by receiver
  std::vector<double> arrivals_;
  std::vector<double> begun_;                           // when stage 0 began the last batches
  std::int64_t batches_begun_ = 0, batches_ended_ = 0;  // by stage 0
  std::array<Update, kUpdates> updates_;
  std::vector<Flow> flows_;
  std::vector<double> channel_free_;
  std::vector<int> users_;
};

}  // namespace twobw::simulator
