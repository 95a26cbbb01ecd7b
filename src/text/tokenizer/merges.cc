#include "text/tokenizer/merges.h"

#include "core/base/error.h"
#include "core/base/json.h"

namespace twobw::tokenizer {
namespace {

class MergeReader {
 public:
  MergeReader(const Vocabulary& vocabulary, std::size_t merges, const std::string& document)
      : vocabulary_(vocabulary), document_(document), table_(merges) {}

  void add(std::string_view left, std::string_view right) {
    merged_.assign(left).append(right);
    const Id left_id = find(left);
    const Id right_id = find(right);
    table_.add(left_id, right_id, rank_++, find(merged_));
  }

  void add_line(std::string_view line) {
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
      fail_input("{} has the merge '{}'; it must be two tokens with a space between them", document_,
                 shown_name(line.substr(0, kShown)));
    }
    add(line.substr(0, space), line.substr(space + 1));
  }

  MergeTable take() { return std::move(table_); }

 private:
  static constexpr std::size_t kShown = 60;

  Id find(std::string_view token) const {
    if (const std::optional<Id> id = vocabulary_.find(token)) return *id;
    fail_input("{} has a merge with the token '{}' (merge {}), which is not in the vocabulary", document_,
               shown_name(token.substr(0, kShown)), rank_);
  }

  const Vocabulary& vocabulary_;
  const std::string& document_;
  MergeTable table_;
  std::uint32_t rank_ = 0;
  std::string merged_;
};

}  // namespace

MergeTable read_merges(const Vocabulary& vocabulary, const std::vector<std::string>& lines,
                       const std::string& document) {
  MergeReader reader(vocabulary, lines.size(), document);
  for (const std::string& line : lines) reader.add_line(line);
  return reader.take();
}

MergeTable read_merges(const Vocabulary& vocabulary, const JsonPart& list) {
  MergeReader reader(vocabulary, list.list().size(), list.document());
  for (const nlohmann::json& merge : list.list()) {
    if (merge.is_string()) {
      reader.add_line(merge.get_ref<const std::string&>());
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      reader.add(merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>());
    } else {
      list.refuse("hold merges as \"a b\" or [\"a\", \"b\"]");
    }
  }
  return reader.take();
}

}  // namespace twobw::tokenizer
