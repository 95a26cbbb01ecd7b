// The sentencepiece library, loaded when the first .model file is opened. It stands behind an interface and
// in a module of its own (sentencepiece_module/), because some builds of it bring a protobuf whose symbols
// collide with those inside LibTorch: loaded this way neither sees the other's.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace twobw::tokenizer {

class SentencepieceLibrary {
 public:
  virtual ~SentencepieceLibrary() = default;

  // False if these bytes are no model.
  virtual bool load(const std::string& model) = 0;
  virtual int size() const = 0;
  virtual const std::string& piece(int id) const = 0;
  virtual bool is_control(int id) const = 0;
  virtual bool is_unknown(int id) const = 0;
  virtual bool is_byte(int id) const = 0;
  // -1: the model has none.
  virtual int bos() const = 0;
  virtual int eos() const = 0;
  virtual int pad() const = 0;
  virtual int unk() const = 0;
  // Empty, or what went wrong.
  virtual std::string encode(std::string_view text, std::vector<int>& ids) const = 0;
};

// Null where the module was not built.
std::unique_ptr<SentencepieceLibrary> make_sentencepiece_library();

}  // namespace twobw::tokenizer
