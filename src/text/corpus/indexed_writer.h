// Writes PREFIX.bin and PREFIX.idx (indexed_file.h) from tokens as they come, in memory that does not grow
// with them. Until publish() everything lies in PREFIX.bin.partial and PREFIX.lengths.partial.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/output_file.h"
#include "text/corpus/token_type.h"

namespace twobw::corpus {

// Where a document ended: enough to go on from there later.
struct WritePosition {
  std::int64_t bin_bytes = 0;
  std::int64_t length_bytes = 0;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  friend bool operator==(const WritePosition&, const WritePosition&) = default;
};

class IndexedWriter {
 public:
  // Goes on after `start`, which an earlier writer of the same files had synced.
  IndexedWriter(std::string prefix, TokenType type, const WritePosition& start = {});

  // Tokens of the current document, in the file's type.
  void append(std::span<const std::byte> tokens);
  // Of the current document, so far.
  std::int64_t document_tokens() const { return document_tokens_; }
  void end_document();

  // The last end of a document. What is before it is on the disk after sync().
  const WritePosition& position() const { return position_; }
  void sync();

  // Moves the last tokens to the end of `to`. A document that they begin within becomes two.
  void move_end(std::int64_t tokens, IndexedWriter& to);

  // Makes PREFIX.bin and PREFIX.idx. Nothing may be appended afterwards. An earlier attempt that was cut
  // short at any moment does no harm; the lengths stay until remove_partial().
  void publish();
  static void remove_partial(const std::string& prefix);

  // For an earlier attempt to publish that renamed the .bin already: names it back.
  static void prepare_to_publish_again(const std::string& prefix);

 private:
  void end_sequence();
  void write_index();
  // Appends tokens of a .bin to the current document.
  void append_copy(const std::string& bin, std::int64_t from, std::int64_t tokens);
  // Ends a document whose tokens are in the .bin already.
  void add_length(std::int64_t tokens);

  std::string prefix_;
  TokenType type_;
  OutputFile bin_, lengths_;
  WritePosition position_;
  std::int64_t document_tokens_ = 0, sequence_tokens_ = 0;
  bool continues_ = false;  // the current sequence is not the first of its document
};

}  // namespace twobw::corpus
