#include "engine/transport/link.h"

#include "core/base/error.h"
#include "engine/device/memory.h"

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
      return fmt::format("acknowledgment of validation microbatch {}", tag.index);
  }
  return "?";
}

Term purpose_of(const Tag& tag) {
  const bool gradient = tag.kind == Tag::Kind::Gradient || tag.kind == Tag::Kind::TiedGradient;
  return gradient ? Term::Working : Term::Inputs;
}

TensorShapes shapes_of(const Tensors& tensors) {
  TensorShapes shapes;
  for (const at::Tensor& tensor : tensors)
    shapes.push_back({.type = tensor.scalar_type(), .sizes = tensor.sizes().vec()});
  return shapes;
}

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

namespace {

class LocalLink final : public Link {
 public:
  explicit LocalLink(WaitHub& hub) : mailbox_(hub) {}

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

std::unique_ptr<Link> local_link(WaitHub& hub) {
  return std::make_unique<LocalLink>(hub);
}

}  // namespace twobw::transport
