#include <map>

#include "base/error.h"
#include "device/memory.h"
#include "device/ready.h"
#include "transport/hub.h"
#include "transport/link.h"

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
  }
  return "?";
}

namespace {

// What a received tensor is for. Gradients are used up by the next computation.
device::Term purpose_of(const Tag& tag) {
  const bool gradient = tag.kind == Tag::Kind::Gradient || tag.kind == Tag::Kind::TiedGradient;
  return gradient ? device::Term::Working : device::Term::Inputs;
}

class LocalLink final : public Link {
 public:
  explicit LocalLink(Hub& hub) : hub_(hub) {}

  void send(const Tag& tag, Tensors tensors) override {
    for (const at::Tensor& tensor : tensors) device::set_purpose(tensor, device::Term::Transfer);
    Message message{std::move(tensors), device::record_ready()};
    hub_.update([&] {
      const bool fresh = arrived_.emplace(tag, std::move(message)).second;
      TWOBW_ASSERT(fresh, "{} sent twice", describe(tag));
    });
  }

  void expect(const Tag&) override {}

  Tensors receive(const Tag& tag) override {
    Message message = hub_.wait(
        describe(tag), [&] { return arrived_.contains(tag); },
        [&] { return std::move(arrived_.extract(tag).mapped()); });
    device::await_ready(message.ready);
    for (at::Tensor& tensor : message.tensors) tensor = device::adopt(tensor, purpose_of(tag));
    return std::move(message.tensors);
  }

 private:
  struct Message {
    Tensors tensors;
    device::Ready ready;
  };
  Hub& hub_;
  std::map<Tag, Message> arrived_;
};

}  // namespace

std::unique_ptr<Link> local_link(Hub& hub) {
  return std::make_unique<LocalLink>(hub);
}

}  // namespace twobw::transport
