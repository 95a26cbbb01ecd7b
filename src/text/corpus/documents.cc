#include "text/corpus/documents.h"

#include <utility>

#include "text/corpus/line_documents.h"
#include "text/corpus/text_documents.h"
#include "text/corpus/window.h"

namespace twobw::corpus {

std::unique_ptr<DocumentReader> read_documents(const Input& input, const DocumentOptions& options) {
  Window window(open_source(input.path));
  switch (input.format) {
    case Format::kText:
      if (options.blank_lines) return std::make_unique<TextBlocks>(std::move(window));
      return std::make_unique<WholeText>(std::move(window));
    case Format::kJsonl:
      return std::make_unique<JsonLines>(std::move(window), input.path);
    case Format::kTsv:
      return std::make_unique<TsvLines>(std::move(window), input.path, options.column);
  }
  return nullptr;
}

}  // namespace twobw::corpus
