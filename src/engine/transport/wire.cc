#include "engine/transport/wire.h"

#include <memory>

namespace twobw::transport {

void barrier(Wire& wire, int tag, const std::vector<int>& ranks) {
  const at::Tensor said = at::zeros({1}, at::kByte), heard = at::zeros({std::ssize(ranks)}, at::kByte);
  std::vector<std::shared_ptr<Transfer>> transfers;
  for (int i = 0; i < std::ssize(ranks); ++i) {
    if (ranks[i] != wire.rank()) transfers.push_back(wire.receive(ranks[i], tag, heard.narrow(0, i, 1)));
  }
  for (const int rank : ranks) {
    if (rank != wire.rank()) transfers.push_back(wire.send(rank, tag, said));
  }
  for (const auto& transfer : transfers) transfer->wait();
}

}  // namespace twobw::transport
