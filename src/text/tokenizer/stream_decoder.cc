#include "text/tokenizer/stream_decoder.h"

#include <utility>

#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {

std::string StreamDecoder::push(Id id) {
  if (skip_special_ && tokenizer_.is_special(id)) return "";
  const std::size_t before = pending_.size();
  tokenizer_.append_text(id, first_, pending_);
  first_ = first_ && tokenizer_.begins_after(id, pending_.size() != before);
  const std::size_t held = unfinished_bytes(pending_);
  std::string ready = pending_.substr(0, pending_.size() - held);
  pending_.erase(0, ready.size());
  return ready;
}

std::string StreamDecoder::finish() {
  first_ = true;
  return std::exchange(pending_, "");
}

}  // namespace twobw::tokenizer
