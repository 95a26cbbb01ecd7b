// The instruction list of one stage, one instruction at a time: a run of a million updates needs no memory
// for it and may end early. Pure: depends only on (spec, stage), stop_before and save_before.
//
// 2BW, d=4, m=4. A column is the time of a forward, a backward takes two; the number is the microbatch. Once
// the pipeline is full no column is idle, although batch 1 (4..7) follows batch 0:
//
//   r=0  0 1 2 3 . . . . . . 0 0 4 1 1 5 2 2 6 3 3 7 4 4 ...
//   r=1  . 0 1 2 . . . . 0 0 3 1 1 4 2 2 5 3 3 6 4 4 7 ...
//   r=2  . . 0 1 . . 0 0 2 1 1 3 2 2 4 3 3 5 4 4 6 ...
//   r=3  . . . 0 0 0 1 1 1 2 2 2 3 3 3 4 4 4 5 5 5 ...
//
// (`twobw schedule 2bw --stages 4 --microbatches 4` draws it with the versions.)
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <vector>

#include "core/schedule/instruction.h"
#include "core/schedule/spec.h"

namespace twobw::schedule {

class Stream {
 public:
  // Throws InputError if the spec is not valid.
  Stream(const Spec& spec, int stage);

  // The next instruction; null at the end of the list.
  std::optional<Instruction> next();

  // The instruction after the last one that next() returned; null if it is not decided yet.
  const Instruction* upcoming() const { return ready_.empty() ? nullptr : &ready_.front(); }

  // Ends the run early: batch `batch` and later ones never begin. Every stage must call it when it takes the
  // BeginBatch of that batch.
  void stop_before(std::int64_t batch);
  // Saves the cut before batch `batch`, due or not. Every stage must call it, as for stop_before().
  void save_before(std::int64_t batch);

 private:
  void refill();
  bool may_forward() const;
  void emit_begin(std::int64_t batch);
  void emit_compute(Op op, std::int64_t microbatch);
  void emit_forward();
  void emit_backward();
  void emit_step(std::int64_t batch);
  void emit_evaluate(std::int64_t batch);
  void emit_save_compute(std::int64_t batch);
  void emit_save(std::int64_t batch);
  void evaluate_up_to(std::int64_t updates);
  std::int64_t total() const { return batches_ * spec_.shape.microbatches; }

  Spec spec_;
  int stage_;
  std::int64_t batches_;            // batches that run, lowered by stop_before
  std::int64_t begun_ = 0;          // batches announced by BeginBatch
  std::int64_t forwards_ = 0;       // next microbatch to forward
  std::int64_t backwards_ = 0;      // next microbatch to run backward
  std::int64_t steps_ = 0;          // updates made
  std::int64_t written_ = 0;        // the newest generation
  std::int64_t evaluated_ = 0;      // the newest version evaluated so far
  std::set<std::int64_t> to_save_;  // cuts, as updates, whose batch has begun and whose save is pending
  bool ended_ = false;
  std::deque<Instruction> ready_;
};

// The whole list of one stage.
std::vector<Instruction> instructions(const Spec& spec, int stage);

// The lists of all stages: lists[r] is stage r's.
using Lists = std::vector<std::vector<Instruction>>;
Lists all_instructions(const Spec& spec);

// Lists of all workers from those of replica 0: the other replicas run the same, but neither evaluate nor
// save.
Lists of_all_replicas(const Spec& spec, const Lists& first);

}  // namespace twobw::schedule
