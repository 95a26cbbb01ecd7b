// Trains the same model from the same start under flush and under 2bw, seed by seed, and compares the
// results: their statistics and the report. All but compare() are pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/train/run_directory.h"
#include "core/base/config.h"
#include "core/base/json.h"

namespace twobw::train {

struct ComparedRun {
  ScheduleKind schedule = ScheduleKind::Flush;
  std::uint64_t seed = 0;
  std::vector<CurvePoint> curve;  // ends with the last update; never empty
  double tokens_per_s = 0;
  double seconds = 0;
};

using ComparedRuns = std::vector<ComparedRun>;

struct Comparison {
  std::int64_t updates = 0;
  double tokens_per_update = 0;
  ComparedRuns flush, two_bw;  // the same seeds in the same order, evaluated after the same updates
};

// A mean over seeds and its standard error, which needs two seeds.
struct Estimate {
  double mean = 0;
  std::optional<double> error;
};

Estimate estimate(const std::vector<double>& values);
double median(std::vector<double> values);

Estimate final_loss(const ComparedRuns& runs);
// Final losses, 2bw - flush, each seed with itself.
Estimate difference(const Comparison& comparison);

// At every evaluation the mean loss of the runs, and the median of their times.
std::vector<CurvePoint> mean_curve(const ComparedRuns& runs);

// The worse of the two mean final losses; the finite one if only one is.
double default_target(const Comparison& comparison);

// The point at which a curve first reaches a loss, interpolated between two evaluations.
struct Reached {
  double updates = 0;
  double seconds = 0;
  bool at_first = false;  // at the first evaluation, so possibly earlier
};

std::optional<Reached> reach(const std::vector<CurvePoint>& curve, double target);

// The raw numbers, as in compare.json.
Json to_json(const Comparison& comparison);

// One line a schedule, and the difference.
std::string tabulate(const Comparison& comparison);

// Updates, tokens and seconds to a validation loss.
std::string tabulate_target(const Comparison& comparison, double target);

// One sentence, "what to take: ...": 2bw if it reaches the target sooner, else flush.
std::string advise(const Comparison& comparison, double target);

// Both tables and the advice.
std::string report(const Comparison& comparison, std::optional<double> target);

struct CompareRequest {
  Config config;  // of the runs under 2bw; see to_compare
  int seeds = 3;  // train.seed and those after it
};

// The configuration for compare(): `updates` if given, and ten evaluations if train.eval_every gives fewer
// than four. Throws InputError unless pipeline.schedule is 2bw and makes other updates than flush.
Config to_compare(Config config, std::optional<std::int64_t> updates);

// Runs flush, then 2bw for each seed, each in RUN_DIR/SCHEDULE-seedN, and prints progress to stdout. Rewrites
// RUN_DIR/compare.json after every seed. After Ctrl-C the result has the complete seeds. Throws InputError,
// and RunError if no seed is complete.
Comparison compare(const CompareRequest& request);

}  // namespace twobw::train
