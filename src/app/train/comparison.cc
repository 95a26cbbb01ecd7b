#include "app/train/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/text.h"

namespace twobw::train {
namespace {

std::vector<double> final_losses(const ComparedRuns& runs) {
  std::vector<double> losses;
  for (const ComparedRun& run : runs) losses.push_back(run.curve.back().loss);
  return losses;
}

Json run_json(const ComparedRun& run) {
  Json curve = Json::array();
  for (const CurvePoint& point : run.curve) {
    curve.push_back({{"update", point.update}, {"seconds", point.seconds}, {"validation_loss", point.loss}});
  }
  return {{"schedule", name(run.schedule)},
          {"seed", run.seed},
          {"tokens_per_s", run.tokens_per_s},
          {"seconds", run.seconds},
          {"curve", curve}};
}

constexpr double kStandardErrors = 2;  // a smaller difference may be chance

std::string with_error(const Estimate& value, int decimals) {
  if (!value.error) return fmt::format("{:.{}f}", value.mean, decimals);
  return fmt::format("{:.{}f} +- {:.{}f}", value.mean, decimals, *value.error, decimals);
}

std::string with_sign(const Estimate& value, int decimals) {
  return (value.mean < 0 ? "" : "+") + with_error(value, decimals);
}

Estimate percent_of(Estimate value, double whole) {
  value.mean *= 100 / whole;
  if (value.error) *value.error *= 100 / whole;
  return value;
}

std::string shown_seconds(double seconds) {
  return fmt::format("{:.{}f}", seconds, seconds < 10 ? 2 : 1);
}

template <typename Figure>
double median_of(const ComparedRuns& runs, Figure figure) {
  std::vector<double> values;
  for (const ComparedRun& run : runs) values.push_back(run.*figure);
  return median(values);
}

// Runs of one schedule are equally fast, unless something else used the machine.
std::string busy_note(const ComparedRuns& runs) {
  constexpr double kUsual = 1.1;
  const auto [slowest, fastest] = std::ranges::minmax_element(runs, {}, &ComparedRun::tokens_per_s);
  const double times = fastest->tokens_per_s / slowest->tokens_per_s;
  if (times <= kUsual) return {};
  return fmt::format("the fastest run of {} is {:.2f} times as fast as the slowest: was the machine busy?\n",
                     name(runs.front().schedule), times);
}

std::vector<std::string> schedule_row(const ComparedRuns& runs) {
  return {std::string(name(runs.front().schedule)), with_error(final_loss(runs), 4),
          format_count(median_of(runs, &ComparedRun::tokens_per_s)),
          shown_seconds(median_of(runs, &ComparedRun::seconds))};
}

std::vector<std::string> target_row(const Comparison& comparison, const ComparedRuns& runs, double target) {
  const std::string schedule(name(runs.front().schedule));
  const auto reached = reach(mean_curve(runs), target);
  if (!reached) return {schedule, "not reached", "", ""};
  const char* most = reached->at_first ? "<= " : "";
  return {schedule, fmt::format("{}{:.0f}", most, reached->updates),
          most + format_count(reached->updates * comparison.tokens_per_update),
          most + shown_seconds(reached->seconds)};
}

std::string chance(const Comparison& comparison) {
  const Estimate delta = difference(comparison);
  if (!std::isfinite(delta.mean)) return "not every final loss is a finite number";
  const std::string sentence = fmt::format("the final losses differ by {:+.4f} (2bw - flush)", delta.mean);
  if (!delta.error) return sentence + ", and one seed does not say whether that is chance";
  const bool within = std::abs(delta.mean) <= kStandardErrors * *delta.error;
  return fmt::format("{}, {} two standard errors ({:.4f})", sentence, within ? "within" : "more than",
                     kStandardErrors * *delta.error);
}

// Which, and why.
std::string choice_of(const Comparison& comparison, double target) {
  const auto flush = reach(mean_curve(comparison.flush), target);
  const auto two_bw = reach(mean_curve(comparison.two_bw), target);
  if (!std::isfinite(target)) return "flush, as no schedule ends with a finite loss";
  const std::string loss = fmt::format("a validation loss of {:.4f}", target);
  if (!flush && !two_bw)
    return fmt::format("flush, as neither schedule reaches {} in {} updates", loss, comparison.updates);
  if (!two_bw) return fmt::format("flush, which alone reaches {} in {} updates", loss, comparison.updates);
  if (!flush) return fmt::format("2bw, which alone reaches {} in {} updates", loss, comparison.updates);
  const bool takes_two_bw = two_bw->seconds < flush->seconds;
  const double winner = takes_two_bw ? two_bw->seconds : flush->seconds;
  const double loser = takes_two_bw ? flush->seconds : two_bw->seconds;
  return fmt::format("{}, which reaches {} in {} s instead of {} s, {:.2f} times as fast",
                     takes_two_bw ? "2bw" : "flush", loss, shown_seconds(winner), shown_seconds(loser),
                     loser / winner);
}

}  // namespace

Estimate estimate(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  Estimate result{.mean = std::accumulate(values.begin(), values.end(), 0.0) / count};
  if (values.size() < 2) return result;
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.error = std::sqrt(squares / (count - 1) / count);
  return result;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Estimate final_loss(const ComparedRuns& runs) {
  return estimate(final_losses(runs));
}

Estimate difference(const Comparison& comparison) {
  std::vector<double> differences = final_losses(comparison.two_bw);
  const std::vector<double> flush = final_losses(comparison.flush);
  for (std::size_t seed = 0; seed < flush.size(); ++seed) differences[seed] -= flush[seed];
  return estimate(differences);
}

std::vector<CurvePoint> mean_curve(const ComparedRuns& runs) {
  std::vector<CurvePoint> mean = runs.front().curve;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    std::vector<double> losses, seconds;
    for (const ComparedRun& run : runs) {
      losses.push_back(run.curve.at(i).loss);
      seconds.push_back(run.curve.at(i).seconds);
    }
    mean[i].loss = estimate(losses).mean;
    mean[i].seconds = median(seconds);
  }
  return mean;
}

double default_target(const Comparison& comparison) {
  // fmax ignores NaN.
  return std::fmax(final_loss(comparison.flush).mean, final_loss(comparison.two_bw).mean);
}

std::optional<Reached> reach(const std::vector<CurvePoint>& curve, double target) {
  const auto there =
      std::find_if(curve.begin(), curve.end(), [&](const CurvePoint& point) { return point.loss <= target; });
  if (there == curve.end()) return std::nullopt;
  const auto update = static_cast<double>(there->update);
  if (there == curve.begin()) return Reached{.updates = update, .seconds = there->seconds, .at_first = true};
  const CurvePoint& before = *(there - 1);
  if (!std::isfinite(before.loss)) return Reached{.updates = update, .seconds = there->seconds};
  const double left = (there->loss - target) / (there->loss - before.loss);  // of the way, 0 at `there`
  return Reached{.updates = update - left * static_cast<double>(there->update - before.update),
                 .seconds = there->seconds - left * (there->seconds - before.seconds)};
}

Json to_json(const Comparison& comparison) {
  Json runs = Json::array();
  for (std::size_t seed = 0; seed < comparison.flush.size(); ++seed) {
    runs.push_back(run_json(comparison.flush[seed]));
    runs.push_back(run_json(comparison.two_bw[seed]));
  }
  return {{"updates", comparison.updates},
          {"tokens_per_update", static_cast<std::int64_t>(comparison.tokens_per_update)},
          {"runs", runs}};
}

std::string tabulate(const Comparison& comparison) {
  TextTable table({"schedule", "final validation loss", "tokens/s", "seconds"});
  table.align_right({2, 3});
  table.add(schedule_row(comparison.flush));
  table.add(schedule_row(comparison.two_bw));
  const Estimate delta = difference(comparison);
  const Estimate percent = percent_of(delta, final_loss(comparison.flush).mean);
  return table.text() + fmt::format("2bw - flush: {} ({} %)\n", with_sign(delta, 4), with_sign(percent, 2));
}

std::string tabulate_target(const Comparison& comparison, double target) {
  TextTable table({fmt::format("to {:.4f}", target), "updates", "tokens", "seconds"});
  table.align_right({1, 2, 3});
  table.add(target_row(comparison, comparison.flush, target));
  table.add(target_row(comparison, comparison.two_bw, target));
  return table.text();
}

std::string advise(const Comparison& comparison, double target) {
  return fmt::format("what to take: {}; {}.\n", choice_of(comparison, target), chance(comparison));
}

std::string report(const Comparison& comparison, std::optional<double> target) {
  const double loss = target.value_or(default_target(comparison));
  const std::size_t seeds = comparison.flush.size();
  const std::string over =
      seeds > 1 ? fmt::format(
                      "means +- standard errors over {} seeds, paired in the difference; tokens/s and "
                      "seconds are medians\n",
                      seeds)
                : "one seed: no standard errors\n";
  return tabulate(comparison) + over + busy_note(comparison.flush) + busy_note(comparison.two_bw) + '\n' +
         tabulate_target(comparison, loss) + '\n' + advise(comparison, loss);
}

}  // namespace twobw::train
