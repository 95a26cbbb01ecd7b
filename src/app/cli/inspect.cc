// twobw inspect: what a token file holds.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/commands.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "text/corpus/indexed_file.h"
#include "text/corpus/summary.h"
#include "text/tokenizer/load.h"
#include "text/tokenizer/utf8.h"

namespace twobw::cli {
namespace {

struct InspectOptions {
  std::string file;
  std::string tokenizer;
  std::int64_t samples = 3;
  std::int64_t length = 64;
};

// As it may go to a terminal: control characters would do things there.
std::string printable(const std::string& text) {
  std::string shown;
  for (const char c : tokenizer::replace_invalid(text)) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F) {
      shown += fmt::format("\\x{:02x}", byte);
    } else {
      shown.push_back(c);
    }
  }
  return shown;
}

void print_summary(const corpus::IndexedFile& file, const corpus::Summary& summary) {
  fmt::print("{}: {} tokens{}\n", file.prefix(), name(file.type()), file.has_modes() ? ", with modes" : "");
  fmt::print("  documents  {}\n", file.documents());
  if (file.sequences() != file.documents()) fmt::print("  sequences  {}\n", file.sequences());
  fmt::print(
      "  tokens     {}, {}\n", file.tokens(),
      format_bytes(static_cast<double>(file.tokens()) * static_cast<double>(token_bytes(file.type()))));
  if (file.documents() > 0) {
    fmt::print("  lengths    {} to {}, median {}, mean {:.1f}\n", summary.shortest, summary.longest,
               summary.median, summary.mean);
  }
  if (file.tokens() > 0) fmt::print("  ids        {} to {}\n", summary.least_id, summary.greatest_id);
  if (summary.empty > 0) fmt::print("  empty      {} documents\n", summary.empty);
  if (file.unused_bytes() > 0) fmt::print("  unused     {} bytes of the .bin\n", file.unused_bytes());
}

std::string sample_text(const std::vector<std::int64_t>& tokens, const tokenizer::Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return fmt::format("{}", fmt::join(tokens, " "));
  const std::vector<tokenizer::Id> ids(tokens.begin(), tokens.end());
  return printable(tokenizer->decode(ids));
}

// Spread evenly: the first of every n-th part.
void print_samples(const corpus::IndexedFile& file, const InspectOptions& options,
                   const tokenizer::Tokenizer* tokenizer) {
  const std::int64_t samples = std::min(options.samples, file.documents());
  for (std::int64_t i = 0; i < samples; ++i) {
    const auto document = static_cast<std::int64_t>(static_cast<double>(file.documents()) /
                                                    static_cast<double>(samples) * static_cast<double>(i));
    const std::int64_t length = document_length(file, document);
    const auto tokens = document_tokens(file, document, options.length);
    fmt::print("\ndocument {}, {} tokens{}:\n{}\n", document, length,
               length > options.length ? fmt::format(", the first {}", options.length) : "",
               sample_text(tokens, tokenizer));
  }
}

void inspect_file(const InspectOptions& options) {
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  if (!options.tokenizer.empty()) tokenizer = tokenizer::load_tokenizer(options.tokenizer);
  const corpus::IndexedFile file(options.file);
  const corpus::Summary summary = summarize(file);
  if (tokenizer && (summary.least_id < 0 || summary.greatest_id >= tokenizer->vocab_size())) {
    fail_input("'{}' has ids from {} to {}, but --tokenizer '{}' has only those below {}", file.prefix(),
               summary.least_id, summary.greatest_id, options.tokenizer, tokenizer->vocab_size());
  }
  print_summary(file, summary);
  print_samples(file, options, tokenizer.get());
}

}  // namespace

void add_inspect(CLI::App& command, int&) {
  auto options = std::make_shared<InspectOptions>();
  command.add_option("file", options->file, "A token file: its .idx, its .bin, or both without the ending")
      ->required();
  command.add_option("--tokenizer", options->tokenizer, "Decodes the samples: a folder, a file, or bytes");
  command.add_option("--samples", options->samples, "Documents to show")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_option("--length", options->length, "Tokens to show of each")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.callback([options] { inspect_file(*options); });
}

}  // namespace twobw::cli
