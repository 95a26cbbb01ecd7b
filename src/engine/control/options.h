// The times of a control, in seconds, and its limits.
#pragma once

namespace twobw::control {

struct Options {
  double arrival_s = 300;  // until all ranks are there
  double heartbeat_s = 2;  // between two signs of life
  double silence_s = 30;   // without one before a rank counts as dead
  double handshake_s = 5;  // for a connection to say who it is
  int strangers = 64;      // connections that have not said it yet; for one more the oldest goes
  double verdict_s = 2;    // for rank 0 to say which of several reasons to abort stands
  double farewell_s = 1;   // at the end, for words that are still on the way
};

}  // namespace twobw::control
