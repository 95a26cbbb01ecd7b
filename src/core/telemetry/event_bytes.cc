#include "core/telemetry/event_bytes.h"

#include "core/base/bytes.h"

namespace twobw::telemetry {

std::string to_bytes(const StageUpdate& update) {
  return ByteWriter()
      .add(update.replica)
      .add(update.stage)
      .add(update.update)
      .add(update.time)
      .add(update.waiting)
      .add(update.elapsed)
      .add(update.evaluating)
      .add(update.saving)
      .add(update.data_wait)
      .add(update.learning_rate)
      .add(update.gradient_norm)
      .add(update.skipped)
      .add(update.loss_scale)
      .add(update.peak)
      .add(update.loss)
      .add(update.miss)
      .add(update.checksums)
      .take();
}

StageUpdate to_update(std::string_view bytes) {
  ByteReader reader(bytes);
  StageUpdate update;
  update.replica = reader.take<int>();
  update.stage = reader.take<int>();
  update.update = reader.take<std::int64_t>();
  update.time = reader.take<double>();
  update.waiting = reader.take<double>();
  update.elapsed = reader.take<double>();
  update.evaluating = reader.take<double>();
  update.saving = reader.take<double>();
  update.data_wait = reader.take<double>();
  update.learning_rate = reader.take<double>();
  update.gradient_norm = reader.take<double>();
  update.skipped = reader.take<bool>();
  update.loss_scale = reader.take<double>();
  update.peak = reader.take<Footprint>();
  update.loss = reader.take_optional<double>();
  update.miss = reader.take_optional<PredictionMiss>();
  update.checksums = reader.take_list<std::uint64_t>();
  return update;
}

std::string to_bytes(const Evaluation& evaluation) {
  return ByteWriter().add(evaluation.update).add(evaluation.loss).take();
}

Evaluation to_evaluation(std::string_view bytes) {
  ByteReader reader(bytes);
  Evaluation evaluation;
  evaluation.update = reader.take<std::int64_t>();
  evaluation.loss = reader.take<double>();
  return evaluation;
}

}  // namespace twobw::telemetry
