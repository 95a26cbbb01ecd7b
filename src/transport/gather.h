// The replicas of one stage hand each other what each has made of a flat buffer, a part each, so that all
// have the whole of it. All come here as often, and in the same order.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/inbox.h"
#include "transport/hub.h"
#include "transport/on_failure.h"
#include "transport/wire.h"
#include "weights/range.h"

namespace twobw::transport {

// Tags of a wire that a gather takes.
constexpr int kGatherTags = 1;

// Of replicas in several processes.
struct RemoteGatherSetup {
  Wire& wire;
  int tag = 0;             // the same in all processes
  std::vector<int> ranks;  // of each replica, rising
  std::string name;        // of the thread
  OnFailure on_failure;
};

// Exchanges parts with other processes, on a thread of its own: whoever waits for them does so in the hub.
class RemoteGather {
 public:
  RemoteGather(RemoteGatherSetup setup, std::vector<weights::Range> parts);
  ~RemoteGather();  // waits for what was begun, unless the wire is aborted
  RemoteGather(const RemoteGather&) = delete;
  RemoteGather& operator=(const RemoteGather&) = delete;

  using ByReplica = std::map<int, at::Tensor>;  // of this process
  // Sends their parts to the others, and receives the others' into the first of them; then `done`.
  void put(ByReplica buffers, std::function<void()> done);

 private:
  struct Job {
    ByReplica buffers;
    std::function<void()> done;
  };
  void work();
  void exchange(const ByReplica& buffers);

  RemoteGatherSetup setup_;
  std::vector<weights::Range> parts_;  // by replica
  Inbox<Job> jobs_;
  std::thread thread_;
};

class Gather {
 public:
  // `parts`: by replica. `here`: replicas in this process; `remote`, which outlives it, brings in the others.
  Gather(Hub& hub, std::vector<weights::Range> parts, int here, RemoteGather* remote = nullptr);

  // `whole` holds the replica's part; on return it holds all, and nobody reads it any more. Throws
  // WaitTimeout or Cancelled.
  void run(int replica, const at::Tensor& whole);

 private:
  struct Turn {
    std::map<int, at::Tensor> buffers;  // by replica
    bool ready = false;
    int left = 0;
  };
  // Copies into the replica's buffer what the others here have.
  void take(int replica, const std::map<int, at::Tensor>& buffers) const;

  Hub& hub_;
  std::vector<weights::Range> parts_;
  int here_;
  RemoteGather* remote_;
  std::vector<std::int64_t> turns_;  // begun, by replica
  std::map<std::int64_t, Turn> open_;
};

}  // namespace twobw::transport
