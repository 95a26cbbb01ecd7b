// The events behind simulate(): every stage carries out its list, one instruction after the other, and
// what lies between stages (transfers, sums, decisions) happens as early as it can.
//
// A stage runs ahead of the others until it must wait for something that has not happened yet. Only
// where two may ask for one channel does it matter who asks first, so there, and only there, a stage
// lets all others catch up before it asks: those that are earlier in time are served earlier.
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

// A stage at the end of its last backward of a batch: when, and all its time until then by use.
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

  // Runs until stage 0, which is the last to, has ended one more batch.
  void run_batch();
  // Runs all lists to their end.
  void run();

  double time() const;  // when the last instruction so far ended
  const BatchEnd& batch_end(int stage, std::int64_t batch) const;
  std::vector<schedule::Event> take_events();  // stage after stage

 private:
  // Updates, and so the waits between stages, that can be under way at once are fewer than this: a
  // stage makes update j before it forwards batch j+2, and nobody ends a batch before all forwarded it.
  static constexpr std::int64_t kUpdates = 4;
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  struct Stage {
    Stage(const schedule::Spec& spec, int stage) : stream(spec, stage) {}

    schedule::Stream stream;
    schedule::Instruction next;
    bool ended = false;
    bool waiting = false;  // for what another stage has not done yet
    double clock = 0;      // end of the last instruction
    double partly = 0;     // when the sum to predict from is there
    bool sums = false;     // what is predicted from, and it is not there yet
    std::int64_t evaluations = 0;
    std::array<double, kUpdates> evaluation_end{};
    StageUse use;
    std::vector<BatchEnd> batch_ends;
    std::vector<schedule::Event> events;
  };

  // What stage r sends to a neighbour arrives here, by microbatch.
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
    // When the parts of a tied gradient come to the other end: the primary's to the copy, and back.
    double at_copy = 0, at_primary = 0;
    bool primary_contributed = true;
  };

  // What passes a channel beside the compute, one after the other: the all-reduces of a stage, or an end of a
  // tied gradient. In pieces where others share the channel, so that those need not wait for all of it.
  struct Parcel {
    std::int64_t batch = 0;
    bool partial = false;  // an all-reduce of what is predicted from
    double ready = 0;
  };
  struct Flow {
    int channel = -1;
    double bytes = 0, piece = 0;
    double after = 0;  // seconds that an all-reduce takes besides
    double left = 0;   // bytes of the parcel that is being sent
    double free = 0;   // when the parcel before is done
    std::deque<Parcel> parcels;
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
  void send(int r, Mailbox& mailbox, int to, schedule::Op awaited);
  void reduce(int r);
  void reduce_partly(int r);
  bool step(int r);
  bool predict(int r);
  bool evaluate(int r);

  void wait_until(Stage& stage, double time, double StageUse::*wait);
  void work(Stage& stage, double seconds, double StageUse::*use);
  void wake(int r, schedule::Op awaited, std::int64_t batch, double time);
  // When `bytes` that are ready at `time` have passed the channel; they arrive its latency later.
  double occupy(int channel, double time, double bytes);
  double latency(int channel) const { return channel < 0 ? 0 : system_.channels[channel].latency; }

  Update& update_of(std::int64_t batch);
  void contribute(std::int64_t batch, double time);
  void enter(int flow, const Parcel& parcel);
  void advance_flow(int flow, double time);
  void summed(int r, const Parcel& parcel, double time);
  void exchanged(int end, std::int64_t batch, double time);

  schedule::Spec spec_;
  const System& system_;
  Recording recording_;
  std::vector<Stage> stages_;
  std::vector<Turn> turns_;  // a heap, the earliest on top; where no channel is shared any order will do
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
