#include "app/measure/layer_marks.h"

namespace twobw::measure {

LayerMarks::~LayerMarks() {
  if (held_ > 0) clock_.release();
}

void LayerMarks::begin() {
  if (held_ > 0) clock_.hold();
  queued_ = 0;
  from_ = clock_.now();
}

void LayerMarks::end(double& seconds) {
  const device::Timestamp now = clock_.now();
  spans_.push_back({.seconds = &seconds, .from = from_, .to = now});
  from_ = now;
  if (held_ == 0 || ++queued_ < held_) return;
  finish();
  begin();
}

void LayerMarks::finish() {
  if (held_ == 0 || clock_.release()) return;
  held_ = 0;
  gave_up_ = true;
}

bool LayerMarks::read() {
  if (!spans_.empty()) clock_.await(spans_.back().to);
  for (const Span& span : spans_) *span.seconds = clock_.between(span.from, span.to);
  return !gave_up_;
}

}  // namespace twobw::measure
