// Documents of a stream, each cut into windows of so many tokens; its last may be shorter, but has two.
#pragma once

#include <cstdint>
#include <vector>

namespace twobw::data {

class DocumentWindows {
 public:
  // `ends` of the documents, as a TokenStream gives them; `size` is at least 2. A document that has no
  // window, or a rest of one token, is not used.
  DocumentWindows(const std::vector<std::int64_t>& ends, std::int64_t size);

  std::int64_t count() const { return documents_.empty() ? 0 : documents_.back().last; }
  std::int64_t documents() const { return static_cast<std::int64_t>(documents_.size()); }

  struct Window {
    std::int64_t begin, length;  // in the stream
    std::int64_t document;
  };
  Window window(std::int64_t number) const;
  // The first window of a document and one past its last.
  std::int64_t first(std::int64_t document) const { return document == 0 ? 0 : at(document - 1).last; }
  std::int64_t last(std::int64_t document) const { return at(document).last; }

 private:
  struct Document {
    std::int64_t begin, length;
    std::int64_t last;  // one past its last window
  };
  const Document& at(std::int64_t document) const { return documents_[static_cast<std::size_t>(document)]; }

  std::int64_t size_;
  std::vector<Document> documents_;
};

}  // namespace twobw::data
