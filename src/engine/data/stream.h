// Streams of tokens, which windows are cut from.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace twobw::data {

class TokenStream {
 public:
  virtual ~TokenStream() = default;
  virtual std::int64_t tokens() const = 0;
  // Fills `to` with the tokens from `from` on, which must exist. Thread-safe.
  virtual void read(std::int64_t from, std::span<std::int64_t> to) const = 0;
  // Whether the stream consists of documents; the end (one past the last token) of a token's document.
  virtual bool has_documents() const { return false; }
  virtual std::int64_t document_end(std::int64_t token) const { return tokens(); }
  // Ends of all documents, in order; empty documents are left out.
  std::vector<std::int64_t> document_ends() const {
    std::vector<std::int64_t> ends;
    for (std::int64_t end = 0; end < tokens(); ends.push_back(end)) end = document_end(end);
    return ends;
  }
  virtual std::string describe() const = 0;  // after its path: "(5 bytes)"
};

// Requirements on a stream: at least one window.
struct StreamDemand {
  int vocab = 0;    // exclusive bound of token ids
  int context = 0;  // tokens of a sequence
  int window = 0;   // tokens of the stream in a window
};

// Opens a file of bytes (one token each), Megatron's token files, or "synthetic"; see open_source().
std::unique_ptr<TokenStream> open_stream(const std::string& key, const std::string& path,
                                         const StreamDemand& demand);

// Endless synthetic text in documents of a few tokens.
std::unique_ptr<TokenStream> make_synthetic_stream(int vocab);

// Documents cut into windows; the last window of a document may be shorter, but has at least two tokens.
class DocumentWindows {
 public:
  // `ends`: TokenStream::document_ends(). `size` is at least 2. Documents without a window, and remainders of
  // one token, are dropped.
  DocumentWindows(const std::vector<std::int64_t>& ends, std::int64_t size);

  std::int64_t count() const { return documents_.empty() ? 0 : documents_.back().last; }
  std::int64_t documents() const { return static_cast<std::int64_t>(documents_.size()); }

  struct Window {
    std::int64_t begin, length;  // in the stream
    std::int64_t document;
  };
  Window window(std::int64_t number) const;
  // A document's first window, and one past its last.
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
