// A link carries tensors from one worker to another. The runtime cannot tell implementations apart.
//
// send() never blocks; receive() waits. The sender may write to what it sent again only when the schedule
// tells it that the receiver has used it: a stage on a GPU, whose buffers are fixed, relies on that.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace twobw::transport {

struct Tag {
  // Taken: no tensors, the word that a stage has taken what was sent for an evaluation.
  enum class Kind : std::uint8_t { Activation, Gradient, Evaluation, TiedGradient, Taken } kind;
  std::int64_t index = 0;  // microbatch, or update

  friend auto operator<=>(const Tag&, const Tag&) = default;
};

std::string describe(const Tag& tag);

// Microbatches of an evaluation that a stage may send before the next has taken them. Training has a window
// of its own, the microbatches in flight; forwards alone would run ahead and fill the memory.
inline constexpr int kEvaluatedAhead = 2;

using Tensors = std::vector<at::Tensor>;

class Link {
 public:
  virtual ~Link() = default;
  virtual void send(const Tag& tag, Tensors tensors) = 0;
  virtual Tensors receive(const Tag& tag) = 0;
};

class Hub;

// Both ends in one process, on CPUs or on one GPU: the tensor itself changes hands, on a GPU with the word
// when it will be there. Its memory is the sender's: on a GPU the receiver keeps it until it has used it.
std::unique_ptr<Link> local_link(Hub& hub);

// Both ends in one process, on two GPUs: what arrives is a copy, made on a stream of the link's own.
std::unique_ptr<Link> peer_link(Hub& hub);

}  // namespace twobw::transport
