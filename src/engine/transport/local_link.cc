#include "engine/device/memory.h"
#include "engine/device/stream_event.h"
#include "engine/transport/link.h"
#include "engine/transport/mailbox.h"

namespace twobw::transport {

std::string describe(const Tag& tag) {
  switch (tag.kind) {
    case Tag::Kind::Activation:
      return fmt::format("activation of microbatch {}", tag.index);
    case Tag::Kind::Gradient:
      return fmt::format("gradient of microbatch {}", tag.index);
    case Tag::Kind::Evaluation:
      return fmt::format("activation of validation microbatch {}", tag.index);
    case Tag::Kind::TiedGradient:
      return fmt::format("tied gradient of update {}", tag.index);
    case Tag::Kind::Taken:
      return fmt::format("word that validation microbatch {} was taken", tag.index);
  }
  return "?";
}

namespace {

// What a received tensor is for. Gradients are used up by the next computation.
Term purpose_of(const Tag& tag) {
  const bool gradient = tag.kind == Tag::Kind::Gradient || tag.kind == Tag::Kind::TiedGradient;
  return gradient ? Term::Working : Term::Inputs;
}

class LocalLink final : public Link {
 public:
  explicit LocalLink(Hub& hub) : mailbox_(hub) {}

  void send(const Tag& tag, Tensors tensors) override {
    for (const at::Tensor& tensor : tensors) device::set_purpose(tensor, Term::Transfer);
    mailbox_.put(tag, {std::move(tensors), device::record_stream_event()});
  }

  Tensors receive(const Tag& tag) override {
    Message message = mailbox_.take(tag);
    device::await_stream_event(message.ready);
    for (at::Tensor& tensor : message.tensors) tensor = device::adopt(tensor, purpose_of(tag));
    return std::move(message.tensors);
  }

 private:
  Mailbox mailbox_;
};

}  // namespace

std::unique_ptr<Link> local_link(Hub& hub) {
  return std::make_unique<LocalLink>(hub);
}

}  // namespace twobw::transport
