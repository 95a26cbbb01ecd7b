// The data of microbatches: tensors and random keys as functions of a microbatch's number, for pipeline and
// oracle, and their reading ahead of a stage.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/config.h"
#include "engine/data/tokens.h"
#include "engine/models/layer.h"

namespace twobw::runtime {

// Number of sequences trained on before an update, of a resumed run, whose batch size may have changed.
struct DataPosition {
  std::int64_t update = 0;
  std::int64_t sequences = 0;
};

// Used by one thread.
class MicrobatchSource {
 public:
  // `fields`: the fields to read.
  MicrobatchSource(const Config& config, const data::Source& training, const data::Source& validation,
                   architecture::BatchFields fields, const DataPosition& position = {});

  // Microbatch k = 0, 1, 2, ... of one replica. Replica p runs m microbatches of update j: numbers p*m to
  // p*m + m-1 among those of all replicas. That number keys data and dropout.
  models::MicrobatchContext training(int replica, std::int64_t k);
  // Its keys, without tensors.
  models::MicrobatchContext keys(int replica, std::int64_t k) const;
  // Microbatch `index` of an evaluation.
  models::MicrobatchContext validation(std::int64_t index);
  std::int64_t validation_microbatches() const { return evaluated_.size(); }

  architecture::BatchFields fields() const { return fields_; }

  // Pads sequences to the context from now on; else, on CPU cores, microbatches of texts are as wide as their
  // longest.
  void keep_padding() { keeps_padding_ = true; }

 private:
  // The batch that `read` returns, with padding that all sequences share removed.
  template <typename Read>
  data::Batch without_padding(const data::Source& source, Read read) const;
  data::Batch training_batch(std::int64_t update, std::int64_t microbatch,
                             architecture::BatchFields fields) const;
  data::Batch validation_batch(std::int64_t index, architecture::BatchFields fields) const;
  // A mean in the loss, over the labels of these fields.
  struct Mean {
    architecture::BatchFields fields;
    // Counted labels: of the last update, and of an evaluation.
    std::int64_t counted = -1;
    double scale = 0;
    std::optional<double> validation_scale = {};
  };
  double training_scale(std::int64_t update, Mean& mean) const;
  double validation_scale(Mean& mean) const;

  const Config& config_;
  const data::Source& training_;
  const data::Source& validation_;
  data::Portions evaluated_;
  architecture::BatchFields fields_;
  DataPosition position_;
  bool keeps_padding_;
  Mean loss_, labels_;  // labels have their own if the model reads LabelScale
};

// Bounded prefetch queue over the caller's buffers: a thread fills numbered places ahead of one consumer. A
// place's content is a function of its number.
struct ReadAheadSetup {
  std::string name;      // of the thread
  int ahead = 0;         // places to fill in advance; 0: no thread, await() fills
  int held = 0;          // places that the caller keeps after it awaits the next
  double timeout = 300;  // seconds that await() may take
};

class ReadAhead {
 public:
  // Fills place `number % places()`. await() rethrows its exceptions.
  using Fill = std::function<void(std::int64_t number)>;

  ReadAhead(ReadAheadSetup setup, Fill fill);
  ~ReadAhead();  // waits for the place that is being filled

  int places() const { return places_; }

  // Waits until the place of `number` is filled. Numbers ascend by one; any other begins a new sequence with
  // all places free. Throws transport::WaitTimeout.
  void await(std::int64_t number);

  // Allows the places up to `number` to be filled again.
  void release(std::int64_t number);

  // Seconds spent in await() since the beginning.
  double waited() const { return waited_; }

 private:
  void run();
  void begin_at(std::int64_t number);
  void fill_next(std::unique_lock<std::mutex>& lock);

  ReadAheadSetup setup_;
  int places_;
  Fill fill_;
  double waited_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t sequence_ = 0;   // number of sequences begun
  std::int64_t wanted_ = -1;    // number that continues the sequence
  std::int64_t first_ = 0;      // not released
  std::int64_t next_ = 0;       // to be filled; those from first_ up to it are
  std::int64_t end_ = 0;        // one past the last that may be filled
  std::exception_ptr failure_;  // to fill next_
  bool stops_ = false;
  std::thread thread_;
};

// How a stage reads its microbatches ahead.
ReadAheadSetup read_ahead_setup(const Config& config, const MicrobatchSource& microbatches, int held = 0);

// The training microbatches of a stage on CPU cores, read ahead of it.
class Feed {
 public:
  Feed(const Config& config, const MicrobatchSource& microbatches, int replica);

  // The next microbatch, in order, counted in the calling thread's pool.
  models::MicrobatchContext take(std::int64_t microbatch);

  double waited() const { return ahead_.waited(); }  // seconds in total

 private:
  MicrobatchSource microbatches_;  // of the thread that reads
  int replica_;
  std::vector<models::MicrobatchContext> read_;
  ReadAhead ahead_;  // the last: its thread uses the others
};

}  // namespace twobw::runtime
