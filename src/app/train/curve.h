// The validation loss in the course of a run.
#pragma once

#include <cstdint>

namespace twobw::train {

struct CurvePoint {
  std::int64_t update = 0;  // the updates made, so from 1
  double seconds = 0;       // from the start of the run to the end of that update
  double loss = 0;
};

}  // namespace twobw::train
