// The bytes of a text are its ids.
#pragma once

#include "text/tokenizer/tokenizer.h"

namespace twobw::tokenizer {

class Bytes : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<Id>& ids) const override;
  void append_text(Id id, bool first, std::string& text) const override;
  std::string token(Id id) const override;  // the byte
  std::optional<Id> id(std::string_view token) const override;
  bool is_special(Id) const override { return false; }
  Id vocab_size() const override { return 256; }
  std::string describe() const override { return "bytes"; }
};

}  // namespace twobw::tokenizer
