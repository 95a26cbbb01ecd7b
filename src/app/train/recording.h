// The files and lines of a run, on rank 0: header, then metrics, checkpoints and warnings as reports arrive,
// then results.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/train/checkpoints.h"
#include "app/train/decision.h"
#include "app/train/guard.h"
#include "app/train/model_files.h"
#include "app/train/run_directory.h"
#include "app/train/statistics.h"
#include "app/train/stragglers.h"
#include "app/train/trainer.h"
#include "core/telemetry/event.h"
#include "core/telemetry/progress.h"

namespace twobw::train {

class Recording {
 public:
  // Creates the run directory, or continues that of a resumed run. `early`: lines printed before the log
  // existed. options.brief: header and evaluations go to the log only. All references must outlive the
  // object.
  Recording(const Config& asked, const Decision& decision, FolderLock lock,
            const std::vector<std::string>& early, telemetry::Progress& progress, const RunOptions& options);

  void begin(const transport::Processes* processes);  // prints the header

  void add(runtime::Snapshot snapshot) { checkpoints_->add(std::move(snapshot)); }  // from any thread
  void handle(const CompleteUpdate& update);
  void handle(const telemetry::Evaluation& evaluation);
  void handle_written();  // checkpoints since the last call
  void say(const std::string& line);

  // After the run. Reports a trace that cannot be written, so that the model is still saved.
  void write_trace(const std::string& file, const std::vector<telemetry::Event>& events);
  void write_results(const StageWeights& weights_of, bool interrupted);
  Outcome finish();

 private:
  void begin_branch(const Config& asked);
  void continue_metrics(const std::string& resumed);
  void handle(const checkpoint::Written& written);
  void report_skip(const CompleteUpdate& update);
  void add_metrics(const nlohmann::ordered_json& line);
  // Repeats `write` for a minute while the disk is full: a moment without room must not cost a run its model.
  void write_when_there_is_room(const std::function<void()>& write);
  void note(const std::string& line);  // printed unless the run is brief

  const Decision& decision_;
  telemetry::Progress& progress_;
  const RunOptions& options_;
  RunDirectory directory_;
  Statistics statistics_;
  Guard guard_;
  StragglerReport stragglers_;
  checkpoint::ModelFiles model_files_;
  std::optional<Checkpoints> checkpoints_;
  Outcome outcome_;
};

}  // namespace twobw::train
