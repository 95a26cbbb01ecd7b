#include "app/measure/link_wire.h"

#include <cstdint>
#include <map>
#include <utility>

namespace twobw::measure {
namespace {

using transport::Tag;
using transport::Transfer;

// The link keeps what it is given.
class Handed final : public Transfer {
 public:
  void wait() override {}
};

class Expected final : public Transfer {
 public:
  Expected(transport::Link& link, const Tag& tag, at::Tensor into)
      : link_(link), tag_(tag), into_(std::move(into)) {}
  void wait() override { into_.copy_(link_.receive(tag_).front()); }

 private:
  transport::Link& link_;
  Tag tag_;
  at::Tensor into_;
};

class LinkWire final : public transport::Wire {
 public:
  LinkWire(transport::Wire& beneath, std::unique_ptr<transport::Link> link, const at::Device& device)
      : beneath_(beneath), link_(std::move(link)), device_(device) {}

  int rank() const override { return beneath_.rank(); }
  int size() const override { return beneath_.size(); }
  std::shared_ptr<Transfer> send(int, int tag, const at::Tensor& tensor) override {
    link_->send(next(tag), {tensor.to(device_)});
    return std::make_shared<Handed>();
  }
  std::shared_ptr<Transfer> receive(int, int tag, const at::Tensor& into) override {
    return std::make_shared<Expected>(*link_, next(tag), into);
  }
  void abort() override { beneath_.abort(); }

 private:
  // The tag of the link for the next message of the wire's; both ends count alike.
  Tag next(int tag) {
    constexpr std::int64_t kMessages = std::int64_t{1} << 32;
    return {Tag::Kind::Activation, kMessages * tag + messages_[tag]++};
  }

  transport::Wire& beneath_;
  std::unique_ptr<transport::Link> link_;
  at::Device device_;
  std::map<int, std::int64_t> messages_;  // so far, by tag
};

}  // namespace

std::unique_ptr<transport::Wire> link_wire(transport::Wire& beneath, std::unique_ptr<transport::Link> link,
                                           const at::Device& device) {
  return std::make_unique<LinkWire>(beneath, std::move(link), device);
}

}  // namespace twobw::measure
