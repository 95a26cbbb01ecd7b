#include "engine/transport/mailbox.h"

#include "core/base/error.h"

namespace twobw::transport {

void Mailbox::put(const Tag& tag, Message message) {
  hub_.update([&] {
    const bool fresh = messages_.emplace(tag, std::move(message)).second;
    TWOBW_ASSERT(fresh, "{} sent twice", describe(tag));
  });
}

Message Mailbox::take(const Tag& tag) {
  return hub_.wait(
      describe(tag), [&] { return messages_.contains(tag); },
      [&] { return std::move(messages_.extract(tag).mapped()); });
}

}  // namespace twobw::transport
