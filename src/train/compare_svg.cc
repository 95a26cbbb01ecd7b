#include "train/compare_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace twobw::train {
namespace {

constexpr int kWidth = 940, kHeight = 400;
constexpr int kPanelTop = 66, kPanelHeight = 270, kPanelWidth = 390;
constexpr int kPanelLefts[] = {72, 530};
constexpr int kMostTicks = 7;
constexpr const char* kStyle = R"(<style>
text { font: 12px -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: #24292f }
.title { font-size: 14px; font-weight: 600 }
.small { font-size: 10px; fill: #57606a }
.middle { text-anchor: middle }
.end { text-anchor: end }
.axis { stroke: #8c959f; fill: none }
.grid { stroke: #eaeef2 }
.seed { fill: none; stroke-width: 1; opacity: .4 }
.mean { fill: none; stroke-width: 2.2 }
.flush { stroke: #b9621b }
.twobw { stroke: #2f6fb5 }
</style>
)";

// One direction of a panel: values to pixels.
struct Axis {
  double low = 0, high = 1;        // values
  double at_low = 0, at_high = 1;  // pixels

  double place(double value) const { return at_low + (value - low) / (high - low) * (at_high - at_low); }
  // At most kMostTicks, at 1, 2 or 5 times a power of ten.
  double step() const {
    double step = std::pow(10, std::floor(std::log10((high - low) / kMostTicks)));
    for (const double factor : {2.0, 2.5, 2.0}) {
      if ((high - low) / step > kMostTicks) step *= factor;
    }
    return step;
  }
  std::vector<double> ticks() const {
    std::vector<double> values;
    for (double i = std::ceil(low / step()); i * step() <= high + step() * 1e-9; ++i)
      values.push_back(i * step());
    return values;
  }
  std::string label(double tick) const {
    const int decimals = static_cast<int>(std::max(0.0, -std::floor(std::log10(step()) + 1e-9)));
    return fmt::format("{:.{}f}", tick, decimals);
  }
};

struct Panel {
  Axis x, y;
  bool over_time = false;  // else over updates

  double value(const CurvePoint& point) const {
    return over_time ? point.seconds : static_cast<double>(point.update);
  }
};

std::string path_of(const Panel& panel, const std::vector<CurvePoint>& curve, const std::string& classes) {
  std::string points;
  bool drawing = false;  // a gap where a loss is not finite
  for (const CurvePoint& point : curve) {
    if (std::isfinite(point.loss)) {
      points += fmt::format("{}{:.2f} {:.2f}", drawing ? "L" : "M", panel.x.place(panel.value(point)),
                            panel.y.place(point.loss));
    }
    drawing = std::isfinite(point.loss);
  }
  return fmt::format("<path d=\"{}\" class=\"{}\"/>\n", points, classes);
}

std::string draw_axes(const Panel& panel, const char* label) {
  const double left = panel.x.at_low, right = panel.x.at_high, bottom = panel.y.at_low, top = panel.y.at_high;
  std::string text;
  for (const double tick : panel.y.ticks()) {
    const double y = panel.y.place(tick);
    text += fmt::format("<path d=\"M{} {:.2f}H{}\" class=\"grid\"/>\n", left, y, right);
    text += fmt::format("<text x=\"{}\" y=\"{:.2f}\" class=\"small end\">{}</text>\n", left - 6, y + 3.5,
                        panel.y.label(tick));
  }
  for (const double tick : panel.x.ticks()) {
    const double x = panel.x.place(tick);
    text += fmt::format("<path d=\"M{:.2f} {}v4\" class=\"axis\"/>\n", x, bottom);
    text += fmt::format("<text x=\"{:.2f}\" y=\"{}\" class=\"small middle\">{}</text>\n", x, bottom + 15,
                        panel.x.label(tick));
  }
  text += fmt::format("<path d=\"M{} {}V{}H{}\" class=\"axis\"/>\n", left, top, bottom, right);
  text += fmt::format("<text x=\"{}\" y=\"{}\" class=\"middle\">{}</text>\n", (left + right) / 2, bottom + 34,
                      label);
  return text;
}

std::string draw_runs(const Panel& panel, const ComparedRuns& runs, const std::string& schedule) {
  std::string text;
  if (runs.size() > 1) {
    for (const ComparedRun& run : runs) text += path_of(panel, run.curve, "seed " + schedule);
  }
  return text + path_of(panel, mean_curve(runs), "mean " + schedule);
}

std::string legend_entry(double x, const ComparedRuns& runs, const std::string& schedule) {
  const Estimate loss = final_loss(runs);
  const std::string error = loss.error ? fmt::format(" ± {:.4f}", *loss.error) : "";
  return fmt::format("<path d=\"M{} 44h24\" class=\"mean {}\"/>\n", x, schedule) +
         fmt::format("<text x=\"{}\" y=\"48\">{}, final loss {:.4f}{}</text>\n", x + 30,
                     name(runs.front().schedule), loss.mean, error);
}

// All runs fit; a little is left above and below.
Axis loss_axis(const Comparison& comparison) {
  std::vector<double> losses;
  for (const ComparedRuns* runs : {&comparison.flush, &comparison.two_bw}) {
    for (const ComparedRun& run : *runs) {
      for (const CurvePoint& point : run.curve) {
        if (std::isfinite(point.loss)) losses.push_back(point.loss);
      }
    }
  }
  Axis axis{.at_low = kPanelTop + kPanelHeight, .at_high = kPanelTop};
  if (losses.empty()) return axis;
  const auto [low, high] = std::minmax_element(losses.begin(), losses.end());
  const double room = *high > *low ? (*high - *low) * 0.04 : 0.5;
  axis.low = *low - room;
  axis.high = *high + room;
  return axis;
}

double longest(const Comparison& comparison) {
  double seconds = 0;
  for (const ComparedRuns* runs : {&comparison.flush, &comparison.two_bw}) {
    for (const ComparedRun& run : *runs) seconds = std::max(seconds, run.curve.back().seconds);
  }
  return seconds;
}

std::string draw_panel(const Comparison& comparison, const Panel& panel, const char* label) {
  return draw_axes(panel, label) + draw_runs(panel, comparison.flush, "flush") +
         draw_runs(panel, comparison.two_bw, "twobw");
}

}  // namespace

std::string draw_svg(const Comparison& comparison) {
  const std::size_t seeds = comparison.flush.size();
  const Axis y = loss_axis(comparison);
  const auto x = [&](int panel, double high) {
    const double left = kPanelLefts[panel];
    return Axis{.low = 0, .high = high, .at_low = left, .at_high = left + kPanelWidth};
  };
  const Panel over_updates{.x = x(0, static_cast<double>(comparison.updates)), .y = y};
  const Panel over_seconds{.x = x(1, longest(comparison)), .y = y, .over_time = true};
  const double middle = kPanelTop + kPanelHeight / 2.0;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
             "viewBox=\"0 0 {0} {1}\">\n",
             kWidth, kHeight) +
         kStyle +
         fmt::format("<rect width=\"{}\" height=\"{}\" rx=\"8\" fill=\"#fff\"/>\n", kWidth, kHeight) +
         fmt::format(
             "<text x=\"16\" y=\"24\" class=\"title\">Validation loss over updates and over time{}</text>\n",
             seeds > 1 ? fmt::format(": mean of {} seeds, each seed thin", seeds) : "") +
         legend_entry(kPanelLefts[0], comparison.flush, "flush") +
         legend_entry(kPanelLefts[0] + 260, comparison.two_bw, "twobw") +
         fmt::format(
             "<text x=\"20\" y=\"{0}\" transform=\"rotate(-90 20 {0})\" class=\"middle\">validation "
             "loss</text>\n",
             middle) +
         draw_panel(comparison, over_updates, "updates") + draw_panel(comparison, over_seconds, "seconds") +
         "</svg>\n";
}

}  // namespace twobw::train
