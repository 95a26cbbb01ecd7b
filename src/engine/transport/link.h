// Links carry tensors from one worker to another. All implementations behave the same.
//
// Thread-safe. send() never blocks; receive() blocks until a message with the tag has arrived, and throws
// WaitTimeout or Cancelled. The sender may overwrite sent tensors only once the schedule proves that the
// receiver has used them: a stage on a GPU, whose buffers are fixed, relies on that.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/memory_terms.h"
#include "engine/device/clock.h"
#include "engine/transport/wait_hub.h"

namespace twobw::transport {

struct Tag {
  // Taken: no tensors; acknowledges that a stage has taken an evaluation's activations.
  enum class Kind : std::uint8_t { Activation, Gradient, Evaluation, TiedGradient, Taken } kind;
  std::int64_t index = 0;  // microbatch, or update

  static void fields(auto& self, auto&& visit) { visit(self.kind, self.index); }
  friend auto operator<=>(const Tag&, const Tag&) = default;
};

std::string describe(const Tag& tag);
// The memory term of a received tensor. Gradients are consumed by the next computation.
Term purpose_of(const Tag& tag);

// Microbatches of an evaluation in flight between two stages. Training is limited by its microbatches in
// flight; forwards alone would run ahead and fill the memory.
inline constexpr int kEvaluatedAhead = 2;

using Tensors = std::vector<at::Tensor>;

class Link {
 public:
  virtual ~Link() = default;
  virtual void send(const Tag& tag, Tensors tensors) = 0;
  virtual Tensors receive(const Tag& tag) = 0;
};

// Both ends in one process, on CPUs or on one GPU: hands over the tensor itself, on a GPU with the event of
// its completion. The memory is the sender's: on a GPU the receiver keeps it until it has used it.
std::unique_ptr<Link> local_link(WaitHub& hub);

// Both ends in one process, on two GPUs: a copy arrives, made on a stream of the link.
std::unique_ptr<Link> peer_link(WaitHub& hub);

struct TensorShape {
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> sizes;

  static void fields(auto& self, auto&& visit) { visit(self.type, self.sizes); }
  friend bool operator==(const TensorShape&, const TensorShape&) = default;
};
using TensorShapes = std::vector<TensorShape>;
TensorShapes shapes_of(const Tensors& tensors);

struct Message {
  Tensors tensors;
  device::StreamEvent ready;  // when they are complete
};

// Messages between workers of one process, kept by tag until they are taken.
class Mailbox {
 public:
  explicit Mailbox(WaitHub& hub) : hub_(hub) {}

  void put(const Tag& tag, Message message);
  Message take(const Tag& tag);  // blocks until it is there

 private:
  WaitHub& hub_;
  std::map<Tag, Message> messages_;
};

}  // namespace twobw::transport
