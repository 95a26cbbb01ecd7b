// Gloo's headers may be older than the Gloo inside LibTorch: nothing of them is used but the names of types
// that c10d's header needs.
#define USE_C10D_GLOO
#include "transport/gloo_wire.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <mutex>
#include <set>

#include "base/error.h"
#include "transport/hub.h"

namespace twobw::transport {
namespace {

using Work = c10::intrusive_ptr<c10d::Work>;

// Without the place in Gloo's source that it begins with, "[.../pair.cc:547] ", and the stack that LibTorch
// adds.
std::string words_of(const std::exception& error) {
  std::string text = error.what();
  text = text.substr(0, text.find('\n'));
  const auto end = text.find("] ");
  return text.starts_with('[') && end != std::string::npos ? text.substr(end + 2) : text;
}

// Those whose end nobody has seen yet, for abort().
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
    // As good as none: a timeout would close every connection of the wire.
    constexpr std::chrono::hours kForever(24 * 365);
    bool done = false;
    try {
      done = work_->wait(kForever);
    } catch (const std::exception& error) {
      if (!works_->aborted()) fail_run("the connection to process {} broke: {}", peer_, words_of(error));
    }
    if (!done) throw Cancelled();
  }

 private:
  Work work_;
  std::shared_ptr<OpenWorks> works_;
  int peer_;
};

c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> options_of(const GlooSetup& setup) {
  auto options = c10d::ProcessGroupGloo::Options::create(
      std::chrono::duration_cast<std::chrono::milliseconds>(setup.timeout));
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(setup.address));
  options->threads = 1;  // of collectives, which are not used
  return options;
}

class GlooWire final : public Wire {
 public:
  GlooWire(const GlooSetup& setup, const std::string& name)
      : group_(c10::make_intrusive<c10d::ProcessGroupGloo>(
            c10::make_intrusive<c10d::PrefixStore>(name, setup.store), setup.rank, setup.size,
            options_of(setup))) {
    greet();
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
  std::shared_ptr<Transfer> post(int peer, const at::Tensor& tensor, Post post) {
    TWOBW_ASSERT(tensor.is_cpu(), "a transfer of a GPU's tensor");
    if (works_->aborted()) throw Cancelled();
    std::vector<at::Tensor> one{tensor};
    Work work;
    try {
      std::lock_guard lock(mutex_);  // the group counts its operations
      work = post(one);
    } catch (const std::exception& error) {
      if (works_->aborted()) throw Cancelled();
      fail_run("the connection to process {} broke: {}", peer, words_of(error));
    }
    return std::make_shared<GlooTransfer>(std::move(work), works_, peer);
  }

  // A message from each to each: what goes wrong does so here.
  void greet() {
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
    for (const auto& transfer : transfers) transfer->wait();
    for (int peer = 0; peer < size(); ++peer) {
      const auto number = heard[peer].item<std::int64_t>();
      if (number != peer) fail_run("process {} says that it is {}", peer, number);
    }
  }

  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
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
             words_of(error));
  }
}

}  // namespace twobw::transport
