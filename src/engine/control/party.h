// A rank's part in the star, on the control's thread: the center (rank 0) or a member.
#pragma once

#include <poll.h>

#include <vector>

#include "engine/control/connection.h"

namespace twobw::control {

class Party {
 public:
  virtual ~Party() = default;
  // A frame of this rank's own.
  virtual void own(Frame frame) = 0;
  // What to wait for.
  virtual std::vector<pollfd> polled() = 0;
  // The same list, with what has happened.
  virtual void serve(const std::vector<pollfd>& polled) = 0;
  // What is due, after all that has arrived is read. Returns when it must be called again.
  virtual Clock::time_point tick(Clock::time_point now) = 0;
  // The last call: the connections that are still open.
  virtual std::vector<Connection*> finish() = 0;
};

}  // namespace twobw::control
