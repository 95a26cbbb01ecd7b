#include "app/train/stragglers.h"

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

Stragglers::Verdict Stragglers::add(const std::vector<double>& seconds, double elapsed) {
  Verdict verdict;
  if (++updates_ <= kWarmUp) return verdict;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    worker.expected = expected_of(worker, i);
    ratios.push_back(worker.expected > 0 ? seconds[i] / worker.expected : 0);
  }
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker& worker = workers_[i];
    if (worker.expected > 0)
      judge(worker, seconds[i], worker.expected * std::max(others_pace(ratios, i), 1.0), elapsed, verdict);
    if (!worker.slow.empty() || worker.named) continue;
    worker.past.push_back(seconds[i]);
    if (std::ssize(worker.past) > kPast) worker.past.pop_front();
  }
  return verdict;
}

void Stragglers::judge(Worker& worker, double seconds, double usual, double elapsed, Verdict& verdict) {
  if (worker.named) {
    ++worker.straggler.updates;
    const bool usual_again = seconds <= kRecovered * usual;
    worker.recovered = usual_again ? worker.recovered + 1 : 0;
    worker.recovered_for = usual_again ? worker.recovered_for + elapsed : 0;
    if (worker.recovered < kLeastUpdates || worker.recovered_for < kLeastTime) return;
    worker.named = false;
    worker.straggler.measured = seconds;
    verdict.ended.push_back(worker.straggler);
    return;
  }
  if (seconds <= kSlow * usual || seconds - usual < kLeast) {
    if (!worker.slow.empty() && ++worker.fast >= std::ssize(worker.slow)) forget_slow(worker);
    return;
  }
  worker.slow.push_back(seconds);
  worker.slow_for += elapsed;
  if (std::ssize(worker.slow) < kLeastUpdates || worker.slow_for < kLeastTime) return;
  worker.straggler.measured = lower_median(worker.slow);
  worker.straggler.expected = worker.expected;
  worker.straggler.updates = std::ssize(worker.slow) + worker.fast;
  worker.named = true;
  worker.recovered = 0;
  worker.recovered_for = 0;
  forget_slow(worker);
  verdict.begun.push_back(worker.straggler);
}

void Stragglers::forget_slow(Worker& worker) {
  worker.slow.clear();
  worker.slow_for = 0;
  worker.fast = 0;
}

std::vector<Straggler> Stragglers::current() const {
  std::vector<Straggler> slow;
  for (const Worker& worker : workers_) {
    if (worker.named) slow.push_back(worker.straggler);
  }
  return slow;
}

}  // namespace twobw::train
