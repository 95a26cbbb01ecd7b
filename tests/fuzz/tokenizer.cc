// tokenizer.json, vocab.json with merges.txt, and vocab.txt; the latter two with tokenizer_config.json.
#include <algorithm>
#include <optional>

#include "core/base/random.h"
#include "tests/fuzz/target.h"
#include "text/tokenizer/readers.h"

namespace twobw::fuzz {
namespace {

// Encoding allocates a cache of 2 MiB, which takes longer than reading: one input in sixteen is encoded.
void use_tokenizer(const tokenizer::Tokenizer& opened, std::string_view input) {
  std::vector<tokenizer::Id> ids = {0, std::max(opened.vocab_size() - 1, 0)};
  if (hash_text(input) % 16 == 0) {
    opened.encode_sequence("the abab \u00E9\u4E2D<e> [PAD]\xFF", ids);
    opened.encode_sequence(input.substr(0, 256), ids);
  }
  opened.decode(ids);
  for (const tokenizer::Id id : ids) opened.token(id);
}

// Optional configuration: empty text means none.
class ConfigPart {
 public:
  explicit ConfigPart(const std::string& text) {
    if (!text.empty()) document_.emplace(text, "tokenizer 'tokenizer_config.json'");
  }
  std::optional<JsonField> part() const {
    return document_ ? std::optional(document_->root()) : std::nullopt;
  }

 private:
  std::optional<JsonDocument> document_;
};

}  // namespace

void read_tokenizer(std::string_view input) {
  const JsonDocument document(std::string(input), "tokenizer 'tokenizer.json'");
  use_tokenizer(*tokenizer::read_tokenizer_json(document.root(), {}), input);
}

void read_vocab_merges(std::string_view input) {
  const std::vector<std::string> files = split_files(input, 3);
  const ConfigPart config(files[2]);
  use_tokenizer(
      *tokenizer::read_vocab_and_merges({"vocab.json", files[0]}, {"merges.txt", files[1]}, config.part()),
      input);
}

void read_vocab_list(std::string_view input) {
  const std::vector<std::string> files = split_files(input, 2);
  const ConfigPart config(files[1]);
  use_tokenizer(*tokenizer::read_vocab_txt({"vocab.txt", files[0]}, config.part()), input);
}

}  // namespace twobw::fuzz
