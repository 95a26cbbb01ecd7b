// The plot of `twobw compare` in a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "train/compare_report.h"

namespace twobw::train {
namespace {

constexpr int kRows = 16, kLabel = 8, kColumns = 72 - kLabel - 1;  // beside the labels and the axis
constexpr int kLabelEvery = 5;                                     // rows
constexpr char kFlushMark = 'f', kTwoBwMark = '2', kBothMark = '*';

struct LossRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(const std::vector<CurvePoint>& curve) {
    for (const CurvePoint& point : curve) {
      if (!std::isfinite(point.loss)) continue;
      low = std::min(low, point.loss);
      high = std::max(high, point.loss);
    }
  }
  // Row 0 is the top; the losses of two neighbouring rows differ by one step.
  double step() const { return high > low ? (high - low) / (kRows - 1) : 1; }
  double loss_at(int row) const { return high - row * step(); }
  int row_of(double loss) const { return static_cast<int>(std::lround((high - loss) / step())); }
};

// Not a number outside the curve.
double loss_at(const std::vector<CurvePoint>& curve, double update) {
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const auto begin = static_cast<double>(curve[i - 1].update), end = static_cast<double>(curve[i].update);
    if (update < begin || update > end) continue;
    return curve[i - 1].loss + (curve[i].loss - curve[i - 1].loss) * (update - begin) / (end - begin);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

int column_of(double update, double updates) {
  return static_cast<int>(std::lround(update / updates * (kColumns - 1)));
}

void draw_curve(std::vector<std::string>& rows, const std::vector<CurvePoint>& curve, const LossRange& range,
                double updates, char mark) {
  const auto put = [&](int column, double loss) {
    if (!std::isfinite(loss)) return;
    char& cell = rows[range.row_of(loss)][column];
    cell = cell == ' ' || cell == mark ? mark : kBothMark;
  };
  for (int column = 0; column < kColumns; ++column)
    put(column, loss_at(curve, column * updates / (kColumns - 1)));
  if (curve.size() == 1) put(column_of(static_cast<double>(curve[0].update), updates), curve[0].loss);
}

}  // namespace

std::string plot(const Comparison& comparison) {
  const std::vector<CurvePoint> flush = mean_curve(comparison.flush), two_bw = mean_curve(comparison.two_bw);
  const std::size_t seeds = comparison.flush.size();
  LossRange range;
  range.add(flush);
  range.add(two_bw);
  if (!(range.low <= range.high)) return "no validation loss is finite\n";
  std::vector<std::string> rows(kRows, std::string(kColumns, ' '));
  const auto updates = static_cast<double>(comparison.updates);
  draw_curve(rows, flush, range, updates, kFlushMark);
  draw_curve(rows, two_bw, range, updates, kTwoBwMark);

  std::string text = fmt::format("validation loss{}: {} flush, {} 2bw, {} both\n",
                                 seeds > 1 ? fmt::format(", mean of {} seeds", seeds) : "", kFlushMark,
                                 kTwoBwMark, kBothMark);
  for (int row = 0; row < kRows; ++row) {
    const std::string label = row % kLabelEvery == 0 ? fmt::format("{:.4f}", range.loss_at(row)) : "";
    std::string line = fmt::format("{:>{}} |{}", label, kLabel - 1, rows[row]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  const std::string last = fmt::format("{}", comparison.updates);
  text += fmt::format("{:>{}}+{:-<{}}\n", "", kLabel, "", kColumns);
  text += fmt::format("{:>{}}0{:^{}}{}\n", "", kLabel + 1, "updates", kColumns - 1 - last.size(), last);
  return text;
}

}  // namespace twobw::train
