#include "transport/nccl.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace twobw::transport {

void check_nccl(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) fail_run("NCCL: {} failed: {}", what, ncclGetErrorString(result));
}

ncclUniqueId Communicator::make_id() {
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  return id;
}

Communicator::Communicator(const ncclUniqueId& id, int ranks, int rank) {
  // NCCL would take it for an address.
  if (std::all_of(std::begin(id.internal), std::end(id.internal), [](char byte) { return byte == 0; }))
    fail_run("NCCL: rank {} of {} has no id to join by", rank, ranks);
  ncclComm_t joined = nullptr;
  const ncclResult_t result = ncclCommInitRank(&joined, ranks, id, rank);
  if (result != ncclSuccess)
    fail_run("NCCL: rank {} of {} could not join: {}", rank, ranks, ncclGetErrorString(result));
  communicator_ = joined;
}

std::vector<std::unique_ptr<Communicator>> Communicator::join(const std::vector<int>& gpus) {
  std::vector<ncclComm_t> joined(gpus.size());
  const ncclResult_t result = ncclCommInitAll(joined.data(), static_cast<int>(gpus.size()), gpus.data());
  if (result != ncclSuccess)
    fail_run("NCCL: GPUs {} could not join: {}", fmt::join(gpus, ", "), ncclGetErrorString(result));
  std::vector<std::unique_ptr<Communicator>> all;
  for (ncclComm_t communicator : joined)
    all.push_back(std::unique_ptr<Communicator>(new Communicator(communicator)));
  return all;
}

Communicator::~Communicator() {
  if (ncclComm_t communicator = communicator_.exchange(nullptr)) ncclCommDestroy(communicator);
}

ncclComm_t Communicator::get() const {
  ncclComm_t communicator = communicator_;
  if (communicator == nullptr) fail_run("NCCL: this set of GPUs was given up");
  return communicator;
}

int Communicator::rank() const {
  int rank = 0;
  check_nccl(ncclCommUserRank(get(), &rank), "ncclCommUserRank");
  return rank;
}

int Communicator::gpu() const {
  int gpu = 0;
  check_nccl(ncclCommCuDevice(get(), &gpu), "ncclCommCuDevice");
  return gpu;
}

void Communicator::abort() {
  if (ncclComm_t communicator = communicator_.exchange(nullptr)) ncclCommAbort(communicator);
}

}  // namespace twobw::transport
