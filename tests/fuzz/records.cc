// Lines of tsv and jsonl: as records with two fields, and as documents.
#include "text/corpus/records.h"

#include <algorithm>
#include <memory>

#include "tests/fuzz/target.h"
#include "text/corpus/documents.h"

namespace twobw::fuzz {
namespace {

class TextSource : public corpus::ByteSource {
 public:
  explicit TextSource(std::string_view text) : text_(text) {}
  std::size_t read(std::span<char> room) override {
    const std::size_t count = std::min(room.size(), text_.size() - position_);
    text_.copy(room.data(), count, position_);
    position_ += count;
    return count;
  }
  std::int64_t position() const override { return static_cast<std::int64_t>(position_); }

 private:
  std::string_view text_;
  std::size_t position_ = 0;
};

void read_records(std::string_view input, const std::string& name) {
  corpus::RecordReader reader(std::make_unique<TextSource>(input), name, {"text", "label"});
  while (const auto record = reader.next()) {
    if (record->size() != 2) fail("a record without its two fields");
  }
}

}  // namespace

void read_tsv(std::string_view input) {
  read_records(input, "x.tsv");
}

void read_jsonl(std::string_view input) {
  read_records(input, "x.jsonl");
  corpus::field_text(input.substr(0, input.find('\n')), "text", "x.jsonl:1");
}

}  // namespace twobw::fuzz
