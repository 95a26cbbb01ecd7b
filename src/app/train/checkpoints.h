// Assembles the snapshots of all stages into checkpoints for the writer thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/telemetry/event.h"
#include "engine/checkpoint/writer.h"
#include "engine/runtime/microbatches.h"
#include "engine/runtime/setup.h"
#include "engine/runtime/snapshot.h"

namespace twobw::train {

class Checkpoints {
 public:
  // `decided`: the configuration of the DecidedRun. `model_files`: written next to the weights. `position`:
  // where the run was resumed.
  Checkpoints(const runtime::Setup& setup, const Config& decided, checkpoint::ModelFiles model_files,
              const runtime::DataPosition& position = {});

  void add(runtime::Snapshot snapshot);  // from any thread

  // From the thread that writes the metrics. A checkpoint is written after the metrics of its updates, and of
  // its evaluation if one is due.
  void add_update(std::int64_t update);
  void add(const telemetry::Evaluation& evaluation);

  // Checkpoints written, or failed, since the last call. From the same thread.
  std::vector<checkpoint::Written> take_written();
  // At the end of the run: writes the complete cuts and blocks until they are on disk.
  void finish();

 private:
  struct Cut {
    std::vector<runtime::Snapshot> parts;  // of the stages
    std::optional<double> validation_loss;
  };
  bool is_evaluated(std::int64_t update) const;  // or needs no evaluation
  void hand_over(bool at_end);
  checkpoint::Contents contents_of(std::int64_t update, Cut& cut) const;

  const runtime::Setup& setup_;
  std::string run_dir_, config_;
  std::vector<checkpoint::DataFile> data_;
  checkpoint::ModelFiles model_files_;
  runtime::DataPosition position_;
  std::mutex mutex_;
  std::map<std::int64_t, Cut> cuts_;                  // by update
  std::map<std::int64_t, double> validation_losses_;  // by update
  std::int64_t updates_ = 0;                          // whose lines are written
  std::mutex written_mutex_;
  std::vector<checkpoint::Written> written_;
  checkpoint::Writer writer_;
};

}  // namespace twobw::train
