#include "engine/transport/remote_link.h"

#include <cstring>
#include <deque>
#include <optional>
#include <thread>

#include "core/base/codec.h"
#include "core/base/error.h"
#include "core/base/threads.h"
#include "engine/device/memory.h"

namespace twobw::transport {
namespace {

constexpr std::int64_t kHeaderBytes = 1024;
constexpr int kReceivedAhead = 2;                          // messages whose receives are posted ahead
constexpr int kHeaders = 0, kIrregular = 1, kRegular = 2;  // the link's tags
constexpr int kEnds = kRegular;                            // in the opposite direction, for GPUs

using Transfers = std::vector<std::shared_ptr<Transfer>>;

TensorShape header_shape() {
  return {.type = at::kByte, .sizes = {kHeaderBytes}};
}

bool is_of_microbatch(const Tag& tag) {
  return tag.kind == Tag::Kind::Activation || tag.kind == Tag::Kind::Gradient;
}

// The shapes of the first microbatch's message; both ends see it, so both know them.
class RegularShapes {
 public:
  bool are(const Tag& tag, const TensorShapes& shapes) const {
    return known_ && is_of_microbatch(tag) && shapes == *known_;
  }
  // Returns true the first time.
  bool learn(const Tag& tag, const TensorShapes& shapes) {
    if (known_ || !is_of_microbatch(tag)) return false;
    known_ = shapes;
    return true;
  }
  const TensorShapes& get() const { return *known_; }

 private:
  std::optional<TensorShapes> known_;
};

std::thread start_end(const RemoteEnd& end, std::function<void()> work) {
  return start_helper_thread(end.name, end.on_failure, std::move(work));
}

class SendingEnd final : public Link {
 public:
  explicit SendingEnd(RemoteEnd end)
      : end_(std::move(end)), thread_(start_end(end_, [this] { send_all(); })) {}
  ~SendingEnd() override {
    queue_.close();
    thread_.join();
  }

  void send(const Tag& tag, Tensors tensors) override {
    for (at::Tensor& tensor : tensors) {
      tensor = tensor.contiguous();
      device::set_purpose(tensor, Term::Transfer);
    }
    queue_.put({tag, {std::move(tensors), device::record_stream_event()}});
  }
  Tensors receive(const Tag& tag) override {
    TWOBW_ASSERT(false, "{} is received at its sending end", describe(tag));
    return {};
  }

 private:
  struct Outgoing {
    Tag tag;
    Message message;
  };

  void send_all() {
    RegularShapes regular;
    while (std::optional<Outgoing> next = queue_.take()) {
      MessageHeader header{.tag = next->tag, .shapes = shapes_of(next->message.tensors)};
      if (end_.gpu) {
        send_from_gpu(header, std::move(next->message));
        continue;
      }
      header.regular = regular.are(header.tag, header.shapes);
      regular.learn(header.tag, header.shapes);
      send_from_cpu(header, next->message.tensors);
    }
    if (end_.gpu) end_.gpu->drain();
    const at::Tensor last = to_tensor({.ends = true});
    post(kHeaders, last)->wait();
    if (end_.gpu) await_end();
  }

  void send_from_cpu(const MessageHeader& header, const Tensors& tensors) {
    const at::Tensor first = to_tensor(header);
    Transfers transfers = {post(kHeaders, first)};
    for (const at::Tensor& tensor : tensors) {
      if (tensor.numel() > 0) transfers.push_back(post(header.regular ? kRegular : kIrregular, tensor));
    }
    for (const auto& transfer : transfers) transfer->wait();
  }

  void send_from_gpu(const MessageHeader& header, Message message) {
    end_.gpu->await(message.ready);
    const at::Tensor first = to_tensor(header);
    const auto transfer = post(kHeaders, first);
    if (!message.tensors.empty()) end_.gpu->send(std::move(message.tensors));
    transfer->wait();
  }

  // The other end may still read this GPU's memory.
  void await_end() {
    const at::Tensor word = at::empty({1}, at::kByte);
    end_.wire.receive(end_.peer, end_.tag + kEnds, word)->wait();
  }

  std::shared_ptr<Transfer> post(int tag, const at::Tensor& tensor) {
    return end_.wire.send(end_.peer, end_.tag + tag, tensor);
  }

  RemoteEnd end_;
  Inbox<Outgoing> queue_;
  std::thread thread_;
};

class ReceivingEnd final : public Link {
 public:
  ReceivingEnd(WaitHub& hub, RemoteEnd end)
      : end_(std::move(end)), mailbox_(hub), thread_(start_end(end_, [this] { receive_all(); })) {}
  ~ReceivingEnd() override { thread_.join(); }

  void send(const Tag& tag, Tensors) override {
    TWOBW_ASSERT(false, "{} is sent at its receiving end", describe(tag));
  }
  Tensors receive(const Tag& tag) override {
    Message message = mailbox_.take(tag);
    if (end_.gpu && !message.tensors.empty()) return end_.gpu->take(std::move(message));
    for (at::Tensor& tensor : message.tensors) tensor = device::adopt(tensor, purpose_of(tag));
    return std::move(message.tensors);
  }

 private:
  // Tensors are declared first: transfers end before the memory is freed.
  struct Incoming {
    Tensors tensors;
    Transfers transfers;
  };

  Incoming post(int tag, const TensorShapes& shapes) {
    Incoming incoming;
    for (const TensorShape& shape : shapes) {
      incoming.tensors.push_back(at::empty(shape.sizes, at::TensorOptions(shape.type)));
      if (incoming.tensors.back().numel() == 0) continue;
      incoming.transfers.push_back(end_.wire.receive(end_.peer, end_.tag + tag, incoming.tensors.back()));
    }
    return incoming;
  }

  static Tensors finish(Incoming incoming) {
    for (const auto& transfer : incoming.transfers) transfer->wait();
    incoming.transfers.clear();
    return std::move(incoming.tensors);
  }

  static Tensors finish_next(std::deque<Incoming>& posted) {
    Incoming next = std::move(posted.front());
    posted.pop_front();
    return finish(std::move(next));
  }

  void receive_all() {
    const device::PoolScope scope(pool_);
    RegularShapes regular;
    std::deque<Incoming> headers, ahead;
    for (int i = 0; i < kReceivedAhead; ++i) headers.push_back(post(kHeaders, {header_shape()}));
    while (true) {
      const MessageHeader header = to_header(finish_next(headers).front());
      if (header.ends) break;
      headers.push_back(post(kHeaders, {header_shape()}));
      if (header.shapes.empty()) {
        mailbox_.put(header.tag, {});
        continue;
      }
      if (end_.gpu) {
        mailbox_.put(header.tag, end_.gpu->receive(header.shapes));
        continue;
      }
      mailbox_.put(header.tag,
                   {header.regular ? finish_next(ahead) : finish(post(kIrregular, header.shapes)), {}});
      const bool first = regular.learn(header.tag, header.shapes);
      const int posts = first ? kReceivedAhead : header.regular ? 1 : 0;
      for (int i = 0; i < posts; ++i) ahead.push_back(post(kRegular, regular.get()));
    }
    if (end_.gpu) send_end();
  }

  void send_end() {
    end_.gpu->drain();
    const at::Tensor word = at::zeros({1}, at::kByte);
    end_.wire.send(end_.peer, end_.tag + kEnds, word)->wait();
  }

  RemoteEnd end_;
  device::MemoryPool pool_;  // reuses the memory of earlier messages
  Mailbox mailbox_;
  std::thread thread_;
};

}  // namespace

at::Tensor to_tensor(const MessageHeader& header) {
  const std::string bytes = to_bytes(header);
  TWOBW_ASSERT(std::ssize(bytes) <= kHeaderBytes, "{} has {} tensors, too many for a message",
               describe(header.tag), header.shapes.size());
  at::Tensor tensor = at::zeros({kHeaderBytes}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

MessageHeader to_header(const at::Tensor& tensor) {
  return Decoder({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}).take<MessageHeader>();
}

std::unique_ptr<Link> sending_end(RemoteEnd end) {
  return std::make_unique<SendingEnd>(std::move(end));
}

std::unique_ptr<Link> receiving_end(WaitHub& hub, RemoteEnd end) {
  return std::make_unique<ReceivingEnd>(hub, std::move(end));
}

}  // namespace twobw::transport
