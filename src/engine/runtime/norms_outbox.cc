#include "engine/runtime/norms_outbox.h"

#include <utility>

#include "planning/host/cores.h"

namespace twobw::runtime {
namespace {

std::vector<double> read_norms(const transport::Norms& norms) {
  device::block_until(norms.ready, [] { return false; });  // whatever is queued on a GPU ends
  const at::Tensor values = norms.on_gpu.to(at::kCPU).contiguous();
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

}  // namespace

NormsOutbox::NormsOutbox(Send send, std::function<void(const std::string& reason)> fail)
    : send_(std::move(send)), fail_(std::move(fail)), thread_([this] { run(); }) {}

NormsOutbox::~NormsOutbox() {
  waiting_.close();
  thread_.join();
}

void NormsOutbox::put(std::int64_t update, int part, const transport::Norms& norms) {
  waiting_.put({update, part, norms});
}

void NormsOutbox::run() {
  device::unbind_thread("norms");
  try {
    while (const std::optional<Outgoing> next = waiting_.take())
      send_(next->update, next->part, read_norms(next->norms));
  } catch (const std::exception& error) {
    fail_(error.what());
  }
}

}  // namespace twobw::runtime
