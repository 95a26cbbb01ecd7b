// Tokens one after another, of which any stretch can be read: what windows are cut from.
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
  // As many as `to` holds, from token `from` on; so many must be there. Safe from any thread.
  virtual void read(std::int64_t from, std::span<std::int64_t> to) const = 0;
  // Whether it is made of documents, one after another; and of the document with a token one past its last.
  virtual bool has_documents() const { return false; }
  virtual std::int64_t document_end(std::int64_t token) const { return tokens(); }
  // Where documents end in it, in their order, the last at its end. Those of no tokens are left out.
  std::vector<std::int64_t> document_ends() const {
    std::vector<std::int64_t> ends;
    for (std::int64_t end = 0; end < tokens(); ends.push_back(end)) end = document_end(end);
    return ends;
  }
  virtual std::string describe() const = 0;
};

// What a stream must be good for: at least one window, for sequences of `context` tokens.
struct StreamDemand {
  int vocab = 0;  // every token is below it
  int context = 0;
  int window = 0;  // tokens that a window takes of the stream
};

// `path` as open_source takes it; so is the InputError.
std::unique_ptr<TokenStream> open_stream(const std::string& key, const std::string& path,
                                         const StreamDemand& demand);

// The kinds of stream. The bytes of a file, one token each; Megatron's token files; and made-up text without
// an end, in documents of a few tokens.
std::unique_ptr<TokenStream> open_bytes(const std::string& key, const std::string& path,
                                        const StreamDemand& demand);
std::unique_ptr<TokenStream> open_token_file(const std::string& key, const std::string& path,
                                             const StreamDemand& demand);
std::unique_ptr<TokenStream> make_synthetic_stream(int vocab);

}  // namespace twobw::data
