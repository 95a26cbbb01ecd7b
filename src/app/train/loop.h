// What follows from the reports of a run: metrics, the guard's verdicts, and what is said. On the thread that
// writes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/train/checkpoints.h"
#include "app/train/collector.h"
#include "app/train/guard.h"
#include "app/train/metrics_file.h"
#include "app/train/run_directory.h"
#include "app/train/statistics.h"
#include "app/train/straggler_report.h"
#include "core/telemetry/progress.h"
#include "engine/checkpoint/writer.h"
#include "engine/runtime/setup.h"

namespace twobw::train {

class Loop {
 public:
  // `brief`: introduction and evaluations go to the log only. All that is passed by reference outlives it.
  Loop(const runtime::Setup& setup, RunDirectory& directory, telemetry::Progress& progress, bool brief);

  // Of a resumed run, before the first update: the guard judges what it has seen before.
  void continue_from(const Past& past);
  // To be told of what is written to the metrics.
  void save_with(Checkpoints& checkpoints) { checkpoints_ = &checkpoints; }
  // Names those who are slow; before the first update.
  void watch_with(StragglerReport stragglers) { stragglers_.emplace(std::move(stragglers)); }

  void handle(const CompleteUpdate& update);
  void handle(const telemetry::Evaluation& evaluation);
  void handle(const checkpoint::Written& written);

  void say(const std::string& line);
  // What is said unless the run is to be brief.
  void note(const std::string& line);

  const Statistics& statistics() const { return statistics_; }

 private:
  void report_skip(const CompleteUpdate& update);

  const runtime::Setup& setup_;
  RunDirectory& directory_;
  telemetry::Progress& progress_;
  bool brief_;
  Statistics statistics_;
  Guard guard_;
  std::optional<StragglerReport> stragglers_;
  Checkpoints* checkpoints_ = nullptr;
};

}  // namespace twobw::train
