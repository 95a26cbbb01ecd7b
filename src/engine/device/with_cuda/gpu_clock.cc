#include "engine/device/gpu_clock.h"

#include <optional>

#include "engine/device/gpu.h"
#include "engine/device/gpu_events.h"
#include "engine/device/stream_gate.h"

namespace twobw::device {
namespace {

class StreamClock final : public Clock {
 public:
  StreamClock(cudaStream_t stream, std::chrono::steady_clock::time_point start)
      : stream_(stream), origin_(timed_events().take()) {
    check_cuda(cudaEventRecord(event(origin_), stream_), "cudaEventRecord");
    check_cuda(cudaEventSynchronize(event(origin_)), "cudaEventSynchronize");
    before_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Timestamp now() override {
    Timestamp mark{.event = timed_events().take()};
    check_cuda(cudaEventRecord(event(mark.event), stream_), "cudaEventRecord");
    return mark;
  }

  void await(const Timestamp& mark) override {
    check_cuda(cudaEventSynchronize(event(mark.event)), "cudaEventSynchronize");
  }

  double seconds(const Timestamp& mark) const override { return before_ + between({.event = origin_}, mark); }

  // CUDA tells it in half a microsecond, and in a float: seconds() tells less the longer ago the start is.
  double between(const Timestamp& from, const Timestamp& to) const override {
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, event(from.event), event(to.event)),
               "cudaEventElapsedTime");
    return milliseconds * 1e-3;
  }

  bool can_hold() const override { return true; }
  void hold() override {
    if (!gate_) gate_.emplace();
    gate_->close(stream_);
  }
  bool release() override { return !gate_ || gate_->open(); }

 private:
  static cudaEvent_t event(const std::shared_ptr<void>& event) {
    return static_cast<cudaEvent_t>(event.get());
  }

  cudaStream_t stream_;
  std::shared_ptr<void> origin_;
  double before_ = 0;
  std::optional<StreamGate> gate_;  // once it was asked for
};

}  // namespace

std::unique_ptr<Clock> make_stream_clock(cudaStream_t stream, std::chrono::steady_clock::time_point start) {
  return std::make_unique<StreamClock>(stream, start);
}

}  // namespace twobw::device
