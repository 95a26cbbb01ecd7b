// twobw_sentencepiece.so: implements sentencepiece_library.h with the library.
#include <sentencepiece_processor.h>

#include "text/tokenizer/sentencepiece_library.h"

namespace twobw::tokenizer {
namespace {

class Library : public SentencepieceLibrary {
 public:
  bool load(const std::string& model) override { return processor_.LoadFromSerializedProto(model).ok(); }
  int size() const override { return processor_.GetPieceSize(); }
  const std::string& piece(int id) const override { return processor_.IdToPiece(id); }
  bool is_control(int id) const override { return processor_.IsControl(id); }
  bool is_unknown(int id) const override { return processor_.IsUnknown(id); }
  bool is_byte(int id) const override { return processor_.IsByte(id); }
  int bos() const override { return processor_.bos_id(); }
  int eos() const override { return processor_.eos_id(); }
  int pad() const override { return processor_.pad_id(); }
  int unk() const override { return processor_.unk_id(); }

  std::string encode(std::string_view text, std::vector<int>& ids) const override {
    const auto status = processor_.Encode(text, &ids);
    return status.ok() ? "" : status.ToString();
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

}  // namespace
}  // namespace twobw::tokenizer

extern "C" __attribute__((visibility("default"))) twobw::tokenizer::SentencepieceLibrary*
twobw_make_sentencepiece() {
  return new twobw::tokenizer::Library();
}
