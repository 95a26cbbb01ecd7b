#include "engine/transport/group.h"

#include <fmt/format.h>

#include "core/base/error.h"

namespace twobw::transport {

void NormExchange::share(int collectors, OnContribution on_contribution) {
  collectors_ = collectors;
  on_contribution_ = std::move(on_contribution);
}

void NormExchange::contribute(std::int64_t update, int part, Norms norms) {
  if (on_contribution_) on_contribution_(update, part, norms);
  contribute_from_afar(update, part, std::move(norms));
}

void NormExchange::contribute_from_afar(std::int64_t update, int part, Norms norms) {
  hub_.update([&] { entries_[update].parts[part] = std::move(norms); });
}

std::vector<Norms> NormExchange::collect(std::int64_t update) {
  return hub_.wait(
      fmt::format("gradient norms of update {} from all {} stages", update, parts_ / owners_),
      [&] { return static_cast<int>(entries_[update].parts.size()) == parts_; },
      [&] {
        Entry& entry = entries_[update];
        std::vector<Norms> all;
        for (const auto& [part, norms] : entry.parts) all.push_back(norms);
        if (++entry.collected == collectors_) entries_.erase(update);
        return all;
      });
}

void BatchGate::request_stop() {
  hub_.update([&] { stop_requested_ = true; });
}

void BatchGate::request_save(bool stop) {
  hub_.update([&] {
    save_requested_ = true;
    stop_after_save_ = stop_after_save_ || stop;
  });
}

bool BatchGate::saves_before(std::int64_t batch) {
  bool saves = false;
  hub_.update([&] { saves = saves_.contains(batch); });
  return saves;
}

bool BatchGate::decide(std::int64_t batch) {
  Decision decision{.batch = batch};
  hub_.update([&] {
    if (first_refused_ < 0 && stop_requested_) first_refused_ = batch;
    if (save_requested_ && first_refused_ < 0) {
      saves_.insert(batch);
      save_requested_ = false;
      if (stop_after_save_) first_refused_ = batch + 1;
    }
    decided_ = batch + 1;
    decision.begins = begins(batch);
    decision.saves = saves_.contains(batch);
  });
  if (on_decision_) on_decision_(decision);
  return decision.begins;
}

void BatchGate::share(std::function<void(const Decision&)> on_decision) {
  on_decision_ = std::move(on_decision);
}

void BatchGate::learn(const Decision& decision) {
  hub_.update([&] {
    if (!decision.begins && first_refused_ < 0) first_refused_ = decision.batch;
    if (decision.saves) saves_.insert(decision.batch);
    decided_ = decision.batch + 1;
  });
}

bool BatchGate::await(std::int64_t batch) {
  return hub_.wait(
      fmt::format("decision on batch {} from stage 0", batch), [&] { return decided_ > batch; },
      [&] { return begins(batch); });
}

}  // namespace twobw::transport
