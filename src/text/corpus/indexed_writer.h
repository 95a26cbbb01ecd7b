// Writes PREFIX.bin and PREFIX.idx (indexed_file.h) from a stream of tokens in constant memory. Until
// publish() the data are in PREFIX.bin.partial and PREFIX.lengths.partial.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/base/output_file.h"
#include "text/corpus/indexed_file.h"

namespace twobw::corpus {

// End of a document, from which a later writer can continue.
struct WritePosition {
  std::int64_t bin_bytes = 0;
  std::int64_t length_bytes = 0;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  friend bool operator==(const WritePosition&, const WritePosition&) = default;
};

class IndexedWriter {
 public:
  // Continues after `start`, which an earlier writer of the same files has synced.
  IndexedWriter(std::string prefix, TokenType type, const WritePosition& start = {});

  // Appends tokens of the file's type to the current document.
  void append(std::span<const std::byte> tokens);
  // Length of the current document so far.
  std::int64_t document_tokens() const { return document_tokens_; }
  void end_document();

  // End of the last document. Everything before it is on the disk after sync().
  const WritePosition& position() const { return position_; }
  void sync();

  // Moves the last tokens to the end of `to`. May split a document in two.
  void move_end(std::int64_t tokens, IndexedWriter& to);

  // Creates PREFIX.bin and PREFIX.idx, after which nothing may be appended. May be repeated after an
  // interruption at any time; the lengths stay until remove_partial().
  void publish();
  static void remove_partial(const std::string& prefix);

  // Undoes the renaming of the .bin by an interrupted publish().
  static void prepare_to_publish_again(const std::string& prefix);

 private:
  void end_sequence();
  void write_index();
  // Copies tokens of a .bin to the current document.
  void append_copy(const std::string& bin, std::int64_t from, std::int64_t tokens);
  // Ends a document with tokens that are in the .bin already.
  void add_length(std::int64_t tokens);

  std::string prefix_;
  TokenType type_;
  OutputFile bin_, lengths_;
  WritePosition position_;
  std::int64_t document_tokens_ = 0, sequence_tokens_ = 0;
  bool continues_ = false;  // true after the first sequence of a document
};

}  // namespace twobw::corpus
