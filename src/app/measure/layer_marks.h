// When layers that are run in a row begin and end. A GPU is held back until several of them are queued:
// layers of a run are launched together, as a graph, and small ones take longer to queue than to run.
#pragma once

#include <vector>

#include "engine/device/clock.h"

namespace twobw::measure {

class LayerMarks {
 public:
  // `held`: so many layers at once; 0: nothing is held back. Where the device did not wait until they were
  // queued, what follows is not held either.
  LayerMarks(device::Clock& clock, int held) : clock_(clock), held_(held) {}
  ~LayerMarks();
  LayerMarks(const LayerMarks&) = delete;
  LayerMarks& operator=(const LayerMarks&) = delete;

  // A row of layers follows.
  void begin();
  // A layer of it is queued, and the next one follows: read() puts the seconds that it took there.
  void end(double& seconds);
  // The row is over.
  void finish();

  // Waits for the device. False: it did not wait for all that it should have.
  bool read();

 private:
  struct Span {
    double* seconds;
    device::Timestamp from, to;
  };

  device::Clock& clock_;
  int held_;
  int queued_ = 0;  // layers since the device was held back
  bool gave_up_ = false;
  device::Timestamp from_;
  std::vector<Span> spans_;
};

}  // namespace twobw::measure
