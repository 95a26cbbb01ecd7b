// Gloo's headers may be older than the Gloo inside LibTorch: only the type names that c10d's header needs are
// used.
#define USE_C10D_GLOO
#include "engine/transport/gloo_wire.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <mutex>
#include <set>

#include "core/base/error.h"
#include "core/base/failures.h"
#include "engine/control/socket.h"
#include "engine/transport/wait_hub.h"

namespace twobw::transport {
namespace {

using Work = c10::intrusive_ptr<c10d::Work>;

// Transfers in flight, for abort().
class OpenWorks {
 public:
  void add(c10d::Work* work) {
    std::lock_guard lock(mutex_);
    open_.insert(work);
    if (aborted_) work->abort();
  }
  void remove(c10d::Work* work) {
    std::lock_guard lock(mutex_);
    open_.erase(work);
  }
  void abort() {
    std::lock_guard lock(mutex_);
    aborted_ = true;
    for (c10d::Work* work : open_) work->abort();
  }
  bool aborted() const {
    std::lock_guard lock(mutex_);
    return aborted_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<c10d::Work*> open_;
  bool aborted_ = false;
};

class GlooTransfer final : public Transfer {
 public:
  GlooTransfer(Work work, std::shared_ptr<OpenWorks> works, int peer)
      : work_(std::move(work)), works_(std::move(works)), peer_(peer) {
    works_->add(work_.get());
  }
  ~GlooTransfer() override { works_->remove(work_.get()); }

  void wait() override {
    // Practically unlimited: a timeout would close every connection of the wire.
    wait(std::chrono::hours(24 * 365));
  }
  void wait(std::chrono::milliseconds limit) {
    bool done = false;
    try {
      done = work_->wait(limit);
    } catch (const std::exception& error) {
      if (!works_->aborted()) fail_run("the connection to process {} broke: {}", peer_, message_of(error));
    }
    if (!done) throw Cancelled();
  }

 private:
  Work work_;
  std::shared_ptr<OpenWorks> works_;
  int peer_;
};

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// A process group and its listening sockets.
class Group {
 public:
  Group(const GlooSetup& setup, const std::string& name) {
    auto options =
        c10d::ProcessGroupGloo::Options::create(std::chrono::duration_cast<Milliseconds>(setup.timeout));
    options->devices.push_back(listen(setup.address));
    options->threads = 1;  // of collectives, which are not used
    group_ =
        c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>(name, setup.store),
                                                    setup.rank, setup.size, std::move(options));
  }
  // The destructor would wait for Gloo's thread, which may be the lost one.
  ~Group() {
    if (thread_is_lost()) group_.release();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  c10d::ProcessGroupGloo* operator->() const { return group_.get(); }

  // Gloo accepts connections for as long as it lives, and never closes foreign ones. The socket itself cannot
  // be closed: Gloo's thread polls it.
  void stop_listening(const GlooSetup& setup) const {
    std::string why = sockets_.empty() ? "its sockets were not found" : "";
    for (const int socket : sockets_) {
      if (const auto refused = control::drop_arrivals(socket)) why = *refused;
    }
    if (!why.empty() && setup.on_open_port) setup.on_open_port(why);
  }

 private:
  // One device at a time: new listening sockets belong to it.
  std::shared_ptr<gloo::transport::Device> listen(const std::string& address) {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    const std::set<int> before = control::listening_sockets();
    auto device = c10d::ProcessGroupGloo::createDeviceForHostname(address);
    for (const int socket : control::listening_sockets()) {
      if (!before.contains(socket)) sockets_.push_back(socket);
    }
    return device;
  }

  std::vector<int> sockets_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

class GlooWire final : public Wire {
 public:
  GlooWire(const GlooSetup& setup, const std::string& name) : group_(setup, name) {
    greet(Clock::now() + std::chrono::duration_cast<Clock::duration>(setup.timeout));
    group_.stop_listening(setup);
  }

  int rank() const override { return group_->getRank(); }
  int size() const override { return group_->getSize(); }

  std::shared_ptr<Transfer> send(int to, int tag, const at::Tensor& tensor) override {
    return post(to, tensor, [&](std::vector<at::Tensor>& one) { return group_->send(one, to, tag); });
  }
  std::shared_ptr<Transfer> receive(int from, int tag, const at::Tensor& into) override {
    return post(from, into, [&](std::vector<at::Tensor>& one) { return group_->recv(one, from, tag); });
  }

  void abort() override { works_->abort(); }

 private:
  template <typename Post>
  std::shared_ptr<GlooTransfer> post(int peer, const at::Tensor& tensor, Post post) {
    TWOBW_ASSERT(tensor.is_cpu(), "a transfer of a GPU's tensor");
    if (works_->aborted()) throw Cancelled();
    std::vector<at::Tensor> one{tensor};
    Work work;
    try {
      std::lock_guard lock(mutex_);  // the group counts its operations
      work = post(one);
    } catch (const std::exception& error) {
      if (works_->aborted()) throw Cancelled();
      fail_run("the connection to process {} broke: {}", peer, message_of(error));
    }
    return std::make_shared<GlooTransfer>(std::move(work), works_, peer);
  }

  // Exchanges a message between all pairs, so that failures show up here. Another program may have taken the
  // place of a peer and never answer.
  void greet(Clock::time_point until) {
    constexpr int kTag = 0;
    const at::Tensor own = at::full({1}, rank(), at::kLong);
    std::vector<std::shared_ptr<Transfer>> transfers;
    std::vector<at::Tensor> heard;
    for (int peer = 0; peer < size(); ++peer) {
      heard.push_back(at::full({1}, peer, at::kLong));
      if (peer != rank()) transfers.push_back(receive(peer, kTag, heard.back().fill_(-1)));
    }
    for (int peer = 0; peer < size(); ++peer) {
      if (peer != rank()) transfers.push_back(send(peer, kTag, own));
    }
    for (const auto& transfer : transfers) {
      const auto left = std::chrono::ceil<Milliseconds>(until - Clock::now());
      static_cast<GlooTransfer&>(*transfer).wait(std::max(left, Milliseconds(1)));
    }
    for (int peer = 0; peer < size(); ++peer) {
      const auto number = heard[peer].item<std::int64_t>();
      if (number != peer) fail_run("process {} identifies itself as process {}", peer, number);
    }
  }

  Group group_;
  std::mutex mutex_;
  std::shared_ptr<OpenWorks> works_ = std::make_shared<OpenWorks>();
};

}  // namespace

bool built_with_gloo() {
  return true;
}

std::unique_ptr<Wire> gloo_wire(const GlooSetup& setup, const std::string& name) {
  try {
    return std::make_unique<GlooWire>(setup, name);
  } catch (const RunError&) {
    throw;
  } catch (const std::exception& error) {
    fail_run("process {} could not connect to the others by {}: {}", setup.rank, setup.address,
             message_of(error));
  }
}

}  // namespace twobw::transport
