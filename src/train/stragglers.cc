#include "train/stragglers.h"

#include <algorithm>
#include <utility>

namespace twobw::train {
namespace {

// The lower of the two in the middle; of none: 0.
template <typename Values>
double lower_median(const Values& values) {
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((sorted.size() - 1) / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

// What comes to all, such as longer texts or a busy machine, makes nobody a straggler.
double others_pace(const std::vector<double>& ratios, std::size_t index) {
  std::vector<double> others;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    if (i != index && ratios[i] > 0) others.push_back(ratios[i]);
  }
  return others.empty() ? 1 : lower_median(others);
}

}  // namespace

Stragglers::Stragglers(int workers, std::vector<double> planned)
    : planned_(std::move(planned)), workers_(static_cast<std::size_t>(workers)) {
  for (std::size_t i = 0; i < workers_.size(); ++i) workers_[i].straggler.worker = static_cast<int>(i);
}

double Stragglers::expected_of(const Worker& worker, std::size_t index) const {
  if (!planned_.empty()) return planned_[index];
  return std::ssize(worker.past) < kLeastPast ? 0 : lower_median(worker.past);
}

Stragglers::Verdict Stragglers::add(const std::vector<double>& seconds) {
  Verdict verdict;
  if (++updates_ <= kWarmUp) return verdict;
  std::vector<double> expected, ratios;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    expected.push_back(expected_of(workers_[i], i));
    ratios.push_back(expected[i] > 0 ? seconds[i] / expected[i] : 0);
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    if (expected[i] > 0) judge(workers_[i], seconds[i], expected[i], others_pace(ratios, i), verdict);
    if (!workers_[i].slow.empty() || workers_[i].named) continue;
    workers_[i].past.push_back(seconds[i]);
    if (std::ssize(workers_[i].past) > kPast) workers_[i].past.pop_front();
  }
  return verdict;
}

void Stragglers::judge(Worker& worker, double seconds, double expected, double others, Verdict& verdict) {
  const double usual = expected * std::max(others, 1.0);
  if (worker.named) {
    ++worker.straggler.updates;
    worker.recovered = seconds <= kRecovered * usual ? worker.recovered + 1 : 0;
    if (worker.recovered < kInARow) return;
    worker.named = false;
    worker.straggler.measured = seconds;
    verdict.ended.push_back(worker.straggler);
    return;
  }
  if (seconds <= kSlow * usual || seconds - usual < kLeast) return worker.slow.clear();
  worker.slow.push_back(seconds);
  if (std::ssize(worker.slow) < kInARow) return;
  worker.straggler.measured = lower_median(worker.slow);
  worker.straggler.expected = expected;
  worker.straggler.updates = kInARow;
  worker.named = true;
  worker.recovered = 0;
  worker.slow.clear();
  verdict.begun.push_back(worker.straggler);
}

std::vector<Straggler> Stragglers::current() const {
  std::vector<Straggler> slow;
  for (const Worker& worker : workers_) {
    if (worker.named) slow.push_back(worker.straggler);
  }
  return slow;
}

}  // namespace twobw::train
