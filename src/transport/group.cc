#include "transport/group.h"

#include <fmt/format.h>

namespace twobw::transport {

void StageGroup::contribute(std::int64_t update, int stage, Norms norms) {
  hub_.update([&] { entries_[update].parts[stage] = std::move(norms); });
}

std::vector<Norms> StageGroup::collect(std::int64_t update) {
  return hub_.wait(
      fmt::format("gradient norms of update {} from all {} stages", update, stages_),
      [&] { return static_cast<int>(entries_[update].parts.size()) == stages_; },
      [&] {
        Entry& entry = entries_[update];
        std::vector<Norms> all;
        for (const auto& [stage, norms] : entry.parts) all.push_back(norms);
        if (++entry.collected == stages_ * replicas_) entries_.erase(update);
        return all;
      });
}

void BatchGate::request_stop() {
  hub_.update([&] { stop_requested_ = true; });
}

bool BatchGate::decide(std::int64_t batch) {
  bool begins = true;
  hub_.update([&] {
    if (first_refused_ < 0 && stop_requested_) first_refused_ = batch;
    begins = first_refused_ < 0 || batch < first_refused_;
    decided_ = batch + 1;
  });
  return begins;
}

bool BatchGate::await(std::int64_t batch) {
  return hub_.wait(
      fmt::format("decision on batch {} from stage 0", batch), [&] { return decided_ > batch; },
      [&] { return first_refused_ < 0 || batch < first_refused_; });
}

}  // namespace twobw::transport
