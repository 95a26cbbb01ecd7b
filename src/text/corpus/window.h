// A view of an input that moves forward: as much of it as is asked for, and no more in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "text/corpus/byte_source.h"

namespace twobw::corpus {

class Window {
 public:
  // A byte order mark at the beginning is left out.
  explicit Window(std::unique_ptr<ByteSource> source);

  // What is in memory from the current place on: at least `bytes`, or all that is left. Valid until the next
  // call.
  std::string_view ahead(std::size_t bytes);
  void skip(std::size_t bytes) { begin_ += bytes; }

  std::int64_t position() const { return source_->position(); }

 private:
  std::unique_ptr<ByteSource> source_;
  std::string buffer_;
  std::size_t begin_ = 0, end_ = 0;
  bool at_end_ = false;
};

}  // namespace twobw::corpus
