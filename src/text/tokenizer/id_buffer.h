// Collects ids on their way into a vector: a word's ids are stored four at a time without a test of capacity.
#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

class IdBuffer {
 public:
  explicit IdBuffer(std::vector<Id>& out) : out_(out) {}
  ~IdBuffer() { flush(); }
  IdBuffer(const IdBuffer&) = delete;
  IdBuffer& operator=(const IdBuffer&) = delete;

  void push(Id id) {
    if (used_ == kRoom) flush();
    ids_[used_++] = id;
  }

  // The first `count` of these four.
  void push_some(const std::array<Id, 4>& ids, std::size_t count) {
    if (used_ + ids.size() > kRoom) flush();
    std::memcpy(&ids_[used_], ids.data(), sizeof ids);
    used_ += count;
  }

 private:
  static constexpr std::size_t kRoom = 2048;

  void flush() {
    out_.insert(out_.end(), ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ = 0;
  }

  std::vector<Id>& out_;
  std::size_t used_ = 0;
  std::array<Id, kRoom> ids_;
};

}  // namespace twobw::tokenizer
