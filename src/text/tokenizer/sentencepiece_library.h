// Interface of the sentencepiece library, which is loaded with the first .model file. It lives in a separate
// module (sentencepiece_module/), because some builds of it bring a protobuf whose symbols collide with those
// inside LibTorch: loaded this way neither sees the other's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twobw::tokenizer {

class SentencepieceLibrary {
 public:
  virtual ~SentencepieceLibrary() = default;

  // Returns false for invalid bytes.
  virtual bool load(const std::string& model) = 0;
  virtual int size() const = 0;
  virtual const std::string& piece(int id) const = 0;
  virtual bool is_control(int id) const = 0;
  virtual bool is_unknown(int id) const = 0;
  virtual bool is_byte(int id) const = 0;
  // Ids of special pieces; -1: missing.
  virtual int bos() const = 0;
  virtual int eos() const = 0;
  virtual int pad() const = 0;
  virtual int unk() const = 0;
  // Returns an error, empty on success.
  virtual std::string encode(std::string_view text, std::vector<int>& ids) const = 0;
};

}  // namespace twobw::tokenizer
