// Things that are expensive to make and used by one thread at a time, such as caches: borrowed, returned,
// kept.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace twobw::tokenizer {

template <typename Thing>
class Pool {
 public:
  // Returns the thing when it ends.
  class Borrowed {
   public:
    Borrowed(Pool& pool, std::unique_ptr<Thing> thing) : pool_(pool), thing_(std::move(thing)) {}
    ~Borrowed() { pool_.give_back(std::move(thing_)); }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    Thing& operator*() { return *thing_; }

   private:
    Pool& pool_;
    std::unique_ptr<Thing> thing_;
  };

  Borrowed borrow() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Thing> thing = std::move(free_.back());
        free_.pop_back();
        return Borrowed(*this, std::move(thing));
      }
    }
    return Borrowed(*this, std::make_unique<Thing>());
  }

 private:
  void give_back(std::unique_ptr<Thing> thing) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(thing));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Thing>> free_;
};

}  // namespace twobw::tokenizer
