// Documents of plain text.
#pragma once

#include "text/corpus/documents.h"
#include "text/corpus/window.h"

namespace twobw::corpus {

// The file is one document.
class WholeText : public DocumentReader {
 public:
  explicit WholeText(Window window) : window_(std::move(window)) {}
  std::optional<Part> next() override;
  std::int64_t position() const override { return window_.position(); }

 private:
  Window window_;
  bool ended_ = false;
};

// Lines that are empty, or only spaces, separate the documents and are left out.
class TextBlocks : public DocumentReader {
 public:
  explicit TextBlocks(Window window) : window_(std::move(window)) {}
  std::optional<Part> next() override;
  std::int64_t position() const override { return window_.position(); }

 private:
  void skip_blank_lines();

  Window window_;
  bool within_ = false;  // a document
  bool at_line_start_ = true;
};

}  // namespace twobw::corpus
