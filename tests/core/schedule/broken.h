// Lists that are broken on purpose, one defect at a time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/schedule/checker.h"

namespace twobw::schedule {

class Broken {
 public:
  explicit Broken(const Spec& spec) : spec_(spec), lists_(all_instructions(spec)) {}

  // The op of microbatch `number`, or of batch `number` for ops of a batch, at a stage.
  Instruction& at(std::size_t stage, Op op, std::int64_t number) { return *find(stage, op, number); }

  Broken& swap(std::size_t stage, Op a, std::int64_t number_a, Op b, std::int64_t number_b) {
    std::swap(at(stage, a, number_a), at(stage, b, number_b));
    return *this;
  }
  Broken& drop(std::size_t stage, Op op, std::int64_t number) {
    lists_[stage].erase(find(stage, op, number));
    return *this;
  }
  Broken& repeat(std::size_t stage, Op op, std::int64_t number) {
    const Instruction again = at(stage, op, number);
    lists_[stage].insert(find(stage, op, number), again);
    return *this;
  }
  // Moves an instruction to right before, or right after, another.
  Broken& move_before(std::size_t stage, Op op, std::int64_t number, Op mark, std::int64_t at_number) {
    const Instruction moved = at(stage, op, number);
    drop(stage, op, number);
    lists_[stage].insert(find(stage, mark, at_number), moved);
    return *this;
  }
  Broken& move_after(std::size_t stage, Op op, std::int64_t number, Op mark, std::int64_t at_number) {
    const Instruction moved = at(stage, op, number);
    drop(stage, op, number);
    lists_[stage].insert(find(stage, mark, at_number) + 1, moved);
    return *this;
  }
  Broken& append(std::size_t stage, const Instruction& instruction) {
    lists_[stage].push_back(instruction);
    return *this;
  }

  // Sets the version, or the slot, of a microbatch's forward and backward.
  Broken& set_version(std::size_t stage, std::int64_t microbatch, std::int64_t version) {
    at(stage, Op::Forward, microbatch).version = version;
    at(stage, Op::Backward, microbatch).version = version;
    return *this;
  }
  Broken& set_slot(std::size_t stage, std::int64_t microbatch, int slot) {
    at(stage, Op::Forward, microbatch).slot = slot;
    at(stage, Op::Backward, microbatch).slot = slot;
    return *this;
  }

  // The problem with a property; empty if it holds.
  std::string finding(Property property) const {
    for (const Finding& finding : check(spec_, lists_).findings)
      if (finding.property == property) return finding.problem;
    return "not checked";
  }
  bool breaks(Property property) const { return !check(spec_, lists_).holds(property); }

 private:
  std::vector<Instruction>::iterator find(std::size_t stage, Op op, std::int64_t number) {
    auto found = std::ranges::find_if(lists_[stage], [&](const Instruction& i) {
      return i.op == op && (i.microbatch >= 0 ? i.microbatch : i.batch) == number;
    });
    if (found == lists_[stage].end()) throw std::logic_error("no such instruction to break");
    return found;
  }

  Spec spec_;
  Lists lists_;
};

// Any instruction that is lost or done twice is noticed.
inline void expect_no_idle_instruction(const Spec& spec) {
  const Lists good = all_instructions(spec);
  ASSERT_EQ(check(spec, good).problem(), "");
  for (std::size_t r = 0; r < good.size(); ++r) {
    for (std::size_t i = 0; i < good[r].size(); ++i) {
      Lists lost = good;
      lost[r].erase(lost[r].begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_FALSE(check(spec, lost).ok()) << "stage " << r << " without " << describe(good[r][i]);
      Lists twice = good;
      twice[r].insert(twice[r].begin() + static_cast<std::ptrdiff_t>(i), good[r][i]);
      EXPECT_FALSE(check(spec, twice).ok()) << "stage " << r << " twice " << describe(good[r][i]);
    }
  }
}

}  // namespace twobw::schedule
