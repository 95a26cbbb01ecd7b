#include "text/corpus/window.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace twobw::corpus {

Window::Window(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {
  if (ahead(3).starts_with("\xEF\xBB\xBF")) skip(3);
}

std::string_view Window::ahead(std::size_t bytes) {
  constexpr std::size_t kLeastRead = std::size_t{1} << 18;
  while (end_ - begin_ < bytes && !at_end_) {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= std::exchange(begin_, 0);
    }
    const std::size_t wanted = std::max(bytes + kLeastRead, end_ + kLeastRead);
    if (buffer_.size() < wanted) buffer_.resize(wanted);
    const std::size_t count = source_->read({buffer_.data() + end_, buffer_.size() - end_});
    end_ += count;
    at_end_ = count == 0;
  }
  return std::string_view(buffer_).substr(begin_, end_ - begin_);
}

}  // namespace twobw::corpus
