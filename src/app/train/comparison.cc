#include "app/train/comparison.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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
  // fmax passes over what is not a number.
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

}  // namespace twobw::train
