#include "engine/device/stream_gate.h"

#include <chrono>
#include <thread>

#include "buffer.h"
#include "engine/device/slices.h"
#include "where.h"

namespace twobw::device {
namespace {

using std::chrono::milliseconds;

constexpr int kMultiprocessors = 1024;  // at most
constexpr std::chrono::seconds kLong{10};

// A stream, and two events that are recorded on it.
class Queue {
 public:
  explicit Queue(cudaStream_t stream = nullptr) : stream_(stream), owns_(stream == nullptr) {
    if (owns_) {
      EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    }
    for (cudaEvent_t& event : events_) EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
  }
  ~Queue() {
    cudaStreamSynchronize(stream_);
    for (cudaEvent_t event : events_) cudaEventDestroy(event);
    if (owns_) cudaStreamDestroy(stream_);
  }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  cudaStream_t stream() const { return stream_; }
  void run() { mark_multiprocessors(seen_.data(), 4, stream_); }
  void mark_begin() { EXPECT_EQ(cudaEventRecord(events_[0], stream_), cudaSuccess); }
  void mark_end() { EXPECT_EQ(cudaEventRecord(events_[1], stream_), cudaSuccess); }
  bool is_done() const {
    const cudaError_t state = cudaEventQuery(events_[1]);
    EXPECT_TRUE(state == cudaSuccess || state == cudaErrorNotReady) << cudaGetErrorString(state);
    cudaGetLastError();  // that it is not ready is kept as an error
    return state == cudaSuccess;
  }
  void await() const { EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess); }
  float milliseconds() const {
    float passed = 0;
    EXPECT_EQ(cudaEventElapsedTime(&passed, events_[0], events_[1]), cudaSuccess);
    return passed;
  }

 private:
  cudaStream_t stream_;
  bool owns_;
  cudaEvent_t events_[2] = {};
  Buffer<int> seen_{kMultiprocessors};
};

class StreamGates : public CudaTest {
 protected:
  // Work on `held` runs only once the gate is opened; work on `free` is not affected.
  static void expect_held(Queue& held, Queue& free) {
    for (Queue* queue : {&held, &free}) {  // kernels are loaded when they are first used
      queue->run();
      queue->await();
    }
    StreamGate gate(kLong);
    for (int turn = 0; turn < 3; ++turn) {
      gate.close(held.stream());
      held.run();
      held.mark_end();
      for (int i = 0; i < 3; ++i) {
        free.run();
        free.await();
      }
      EXPECT_FALSE(held.is_done());
      EXPECT_TRUE(gate.open());
      held.await();
      EXPECT_TRUE(held.is_done());
    }
  }
};

TEST_F(StreamGates, HoldAStreamUntilTheyAreOpened) {
  Queue held, free;
  expect_held(held, free);
}

TEST_F(StreamGates, HoldTheStreamOfASlice) {
  Slices slices(0, 4);
  Queue held(slices.make_stream(1)), free(slices.make_stream(2));
  expect_held(held, free);
}

TEST_F(StreamGates, OpenByThemselvesInTime) {
  constexpr milliseconds kLimit(20);
  Queue queue;
  StreamGate gate(kLimit);
  for (int turn = 0; turn < 2; ++turn) {
    queue.mark_begin();
    gate.close(queue.stream());
    queue.mark_end();
    queue.await();
    EXPECT_GE(queue.milliseconds(), 0.9 * static_cast<double>(kLimit.count()));
    EXPECT_FALSE(gate.open());
  }
  // And hold again.
  gate.close(queue.stream());
  queue.mark_end();
  EXPECT_TRUE(gate.open());
  queue.await();
}

// Events measure the GPU's time, however slowly the work was queued.
TEST_F(StreamGates, LetAllRunInARow) {
  Queue queue;
  queue.run();
  queue.await();
  StreamGate gate(kLong);
  gate.close(queue.stream());
  queue.mark_begin();
  for (int i = 0; i < 4; ++i) {
    queue.run();
    std::this_thread::sleep_for(milliseconds(10));
  }
  queue.mark_end();
  EXPECT_TRUE(gate.open());
  queue.await();
  EXPECT_LT(queue.milliseconds(), 5);
}

// One piece is queued while the one before it still runs.
TEST_F(StreamGates, CloseAgainBehindWhatTheyHeld) {
  Queue queue;
  StreamGate gate(kLong);
  for (int piece = 0; piece < 100; ++piece) {
    gate.close(queue.stream());
    queue.run();
    queue.mark_end();
    EXPECT_TRUE(gate.open());
  }
  queue.await();
  EXPECT_TRUE(queue.is_done());
}

TEST_F(StreamGates, OpenWhenTheyGo) {
  Queue queue;
  {
    StreamGate gate(kLong);
    gate.close(queue.stream());
    queue.run();
    queue.mark_end();
  }
  EXPECT_TRUE(queue.is_done());
}

}  // namespace
}  // namespace twobw::device
