// Messages between workers of one process, which wait here until they are taken, each by its tag.
#pragma once

#include <map>

#include "engine/device/stream_event.h"
#include "engine/transport/hub.h"
#include "engine/transport/link.h"

namespace twobw::transport {

struct Message {
  Tensors tensors;
  device::StreamEvent ready;  // when they will be there
};

class Mailbox {
 public:
  explicit Mailbox(Hub& hub) : hub_(hub) {}

  void put(const Tag& tag, Message message);
  Message take(const Tag& tag);  // waits for it

 private:
  Hub& hub_;
  std::map<Tag, Message> messages_;
};

}  // namespace twobw::transport
