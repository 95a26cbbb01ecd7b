#include "text/tokenizer/sentencepiece_spec.h"

#include <cstdint>
#include <optional>

namespace twobw::tokenizer {
namespace {

// Numbers of fields in the messages ModelProto, SentencePiece and NormalizerSpec, and a value of the second's
// type.
constexpr std::uint64_t kPiece = 1;
constexpr std::uint64_t kPieceType = 3;
constexpr std::uint64_t kUserDefined = 4;
constexpr std::uint64_t kNormalizerSpec = 3;
constexpr std::uint64_t kAddDummyPrefix = 3;
constexpr std::uint64_t kRemoveExtraWhitespaces = 4;

struct Field {
  std::uint64_t number;
  std::uint64_t value;    // of a number
  std::string_view text;  // of a message or text
};

// Takes the fields of a message off its front, one by one.
class MessageReader {
 public:
  explicit MessageReader(std::string_view message) : rest_(message) {}

  // Nothing at the end, or where the bytes are no field.
  std::optional<Field> next() {
    const std::optional<std::uint64_t> tag = number();
    if (!tag) return std::nullopt;
    Field field{*tag >> 3, 0, {}};
    switch (*tag & 7) {
      case 0: {
        const std::optional<std::uint64_t> value = number();
        if (!value) return std::nullopt;
        field.value = *value;
        return field;
      }
      case 1:
        return skip(8) ? std::optional(field) : std::nullopt;
      case 2: {
        const std::optional<std::uint64_t> size = number();
        if (!size || *size > rest_.size()) return std::nullopt;
        field.text = rest_.substr(0, *size);
        rest_.remove_prefix(*size);
        return field;
      }
      case 5:
        return skip(4) ? std::optional(field) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

 private:
  // Seven bits a byte, the lowest first.
  std::optional<std::uint64_t> number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  bool skip(std::size_t bytes) {
    if (rest_.size() < bytes) return false;
    rest_.remove_prefix(bytes);
    return true;
  }

  std::string_view rest_;
};

}  // namespace

SentencepieceSpec read_sentencepiece_spec(std::string_view model) {
  SentencepieceSpec spec;
  Id pieces = 0;
  MessageReader fields(model);
  while (const std::optional<Field> field = fields.next()) {
    if (field->number != kPiece && field->number != kNormalizerSpec) continue;
    const bool is_piece = field->number == kPiece;
    MessageReader inner(field->text);
    while (const std::optional<Field> setting = inner.next()) {
      if (is_piece) {
        if (setting->number == kPieceType && setting->value == kUserDefined) spec.user_defined.insert(pieces);
      } else if (setting->number == kAddDummyPrefix) {
        spec.add_prefix = setting->value != 0;
      } else if (setting->number == kRemoveExtraWhitespaces) {
        spec.squeeze_spaces = setting->value != 0;
      }
    }
    if (is_piece) ++pieces;
  }
  return spec;
}

std::string without_prefix(std::string model) {
  constexpr char kFalse[] = {kAddDummyPrefix << 3, 0};
  constexpr char kMessage[] = {kNormalizerSpec << 3 | 2, sizeof kFalse};
  model.append(kMessage, sizeof kMessage);
  model.append(kFalse, sizeof kFalse);
  return model;
}

}  // namespace twobw::tokenizer
