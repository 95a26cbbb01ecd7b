#include "text/corpus/configured_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/folder_lock.h"
#include "core/base/json.h"
#include "core/base/mapped_file.h"
#include "core/base/random.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "core/launch/world.h"
#include "text/corpus/indexed_file.h"
#include "text/corpus/prepare.h"
#include "text/corpus/prepare_state.h"
#include "text/tokenizer/tokenizer.h"

namespace twobw::corpus {
namespace {

namespace fs = std::filesystem;

// Changes if the same text and tokenizer produce other token files.
constexpr std::uint64_t kCacheVersion = 1;

// Hash of a file; of a large one its modification time and sampled blocks, because reading it takes minutes.
std::uint64_t hash_contents(const std::string& key, const Input& input) {
  constexpr std::size_t kWhole = std::size_t{16} << 20, kBlock = std::size_t{64} << 10, kBlocks = 256;
  const MappedFile file(input.path);
  if (!file.problem().empty())
    fail_input("{} is '{}', which cannot be read ({})", key, input.path, file.problem());
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  if (text.size() <= kWhole) return random_key(text.size(), hash_text(text));
  std::uint64_t hash = random_key(text.size(), input.modified);
  for (std::size_t i = 0; i < kBlocks; ++i)
    hash = random_key(hash, hash_text(text.substr((text.size() - kBlock) / (kBlocks - 1) * i, kBlock)));
  return random_key(hash, hash_text(text.substr(text.size() - kBlock)));
}

std::uint64_t hash_of(const std::string& key, const Input& input, const PrepareOptions& options) {
  const std::string& field = options.documents.field;
  return random_key(kCacheVersion, hash_contents(key, input),
                    hash_text(tokenizer_fingerprint(options.tokenizer)), input.format,
                    input.format == Format::kText ? 0 : hash_text(field));
}

fs::path cache_folder(const std::string& run_dir) {
  fs::path run = fs::path(run_dir).lexically_normal();
  if (run == "." || run.filename() == "..") run = fs::absolute(run).lexically_normal();
  if (!run.has_filename()) run = run.parent_path();  // trailing slash
  return run.parent_path() / "token-cache";
}

bool is_made(const std::string& prefix) {
  return is_file(prefix + ".idx") && is_file(prefix + ".bin");
}

bool are_tokens(const Corpora& corpora) {
  return std::ranges::all_of(corpora, [](const Corpus& corpus) {
    return corpus.path == "synthetic" || names_token_file(corpus.path);
  });
}

bool can_be_used(const std::string& folder, int vocab) {
  try {
    return tokenizer::load_tokenizer(folder)->vocab_size() <= vocab;
  } catch (const InputError&) {
    return false;
  }
}

// Path, tokenizer and settings that a folder's token files were made from; null if unknown.
Json made_from(const fs::path& folder) {
  const std::string path = (folder / "tokens.json").string();
  if (!is_file(path)) return nullptr;
  try {
    Json made = Json::parse(read_text("token files", path));
    for (const char* result : {"sets", "empty_documents"}) made.erase(result);
    for (Json& input : made.at("inputs")) input.erase("bytes");
    return made;
  } catch (const std::exception&) {
    return nullptr;
  }
}

class CachedText {
 public:
  CachedText(std::string key, const std::string& path, const Config& config)
      : key_(std::move(key)), input_(list_inputs({path}, "auto").front()) {
    options_.inputs = {fs::absolute(path).lexically_normal().string()};
    options_.documents.field = options_.documents.column = config.data.text;
    options_.tokenizer = config.data.tokenizer;
    options_.split.fraction = 0;
    options_.one_set = true;
    options_.restart = true;
    constexpr std::size_t kLongestName = 100;
    const std::string name = fs::path(path).filename().string().substr(0, kLongestName);
    folder_ =
        (cache_folder(config.run_dir) / fmt::format("{}-{:016x}", name, hash_of(key_, input_, options_)))
            .string();
    options_.out = folder_ + "/tokens";
  }

  // Returns the prefix of the token files.
  std::string make() const {
    if (is_made(options_.out)) return options_.out;
    const FolderLock lock = lock_folder();
    if (is_made(options_.out)) return options_.out;  // by the previous holder of the lock
    fmt::print(stderr, "twobw: tokenizing {} '{}' ({}) with '{}' into '{}'\n", key_, input_.path,
               format_bytes(static_cast<double>(input_.bytes)), options_.tokenizer, folder_);
    try {
      tokenize();
    } catch (...) {
      IndexedWriter::remove_partial(options_.out);
      throw;
    }
    remove_outdated();
    return options_.out;
  }

 private:
  FolderLock lock_folder() const {
    constexpr double kSoon = 1, kForever = 1e8;
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error) refuse(error.message());
    std::optional<FolderLock> lock = FolderLock::take(folder_, kSoon);
    if (!lock) {
      if (launch::read_world(launch::process_environment()).rank == 0)
        fmt::print(stderr, "twobw: waiting for another process that tokenizes {} '{}'\n", key_, input_.path);
      lock = FolderLock::take(folder_, kForever);
    }
    if (!lock || !lock->is_held()) refuse("no file can be locked there");
    return *std::move(lock);
  }

  [[noreturn]] void refuse(const std::string& why) const {
    fail_input(
        "{} is '{}', which is tokenized into '{}', but that cannot be written: {}; give another run_dir, "
        "or token files of twobw prepare",
        key_, input_.path, folder_, why);
  }

  void tokenize() const {
    try {
      prepare(options_, progress_bar());
    } catch (const InputError& error) {
      fail_input("{} is '{}': {}", key_, input_.path, error.what());
    }
    if (list_inputs({input_.path}, "auto").front() == input_) return;
    fs::remove(options_.out + ".idx");
    fail_run("{} is '{}', which changed while it was tokenized; start again", key_, input_.path);
  }

  // Removes the token files of former contents of the text. Runs that have mapped them keep them.
  void remove_outdated() const {
    const Json made = made_from(folder_);
    std::vector<fs::path> outdated;
    std::error_code error;
    for (fs::directory_iterator at(fs::path(folder_).parent_path(), error), end; !error && at != end;
         at.increment(error)) {
      const bool is_own = at->path() == fs::path(folder_);
      if (!is_own && !made.is_null() && made_from(at->path()) == made) outdated.push_back(at->path());
    }
    for (const fs::path& folder : outdated) fs::remove_all(folder, error);
  }

  std::string key_;
  Input input_;
  PrepareOptions options_;
  std::string folder_;
};

}  // namespace

std::optional<Config> config_of_run(const Config& config) {
  if (config.resume == "none") return std::nullopt;
  const std::string run = config.resume == "auto" ? config.run_dir : config.resume;
  std::error_code unreadable;
  if (!fs::is_directory(run + "/checkpoints", unreadable) || !fs::exists(run + "/config.yaml", unreadable))
    return std::nullopt;
  return load_config_of_run(run, {});
}

void set_default_tokenizer(Config& config) {
  DataConfig& data = config.data;
  const std::string& folder = config.model.from;
  if (const std::optional<Config> former = config_of_run(config)) {
    data.tokenizer = former->data.tokenizer;
  } else if (config.model.is_imported() && tokenizer::has_tokenizer(folder)) {
    const bool needs_none = are_tokens(data.train) && are_tokens(data.validation);
    if (!needs_none || can_be_used(folder, config.model.vocab)) data.tokenizer = folder;
  }
}

bool is_tokenized(const std::string& path, const Config& config) {
  const ModelHead head = config.model.head;
  if (config.data.tokenizer == "bytes" || head == ModelHead::Classification || head == ModelHead::Regression)
    return false;
  return path != "synthetic" && !names_token_file(path) && is_file(path);
}

Corpora with_token_files(const std::string& key, const Corpora& corpora, const Config& config) {
  Corpora result = corpora;
  for (Corpus& corpus : result) {
    if (!is_tokenized(corpus.path, config)) continue;
    if (config.model.reset_documents && format_of(corpus.path) == Format::kText) {
      fail_input(
          "model.reset_documents is true, but {} '{}' is a text without documents; make token files of it "
          "with twobw prepare --split blank-lines",
          key, corpus.path);
    }
    corpus.path = CachedText(key, corpus.path, config).make();
  }
  return result;
}

Config with_token_files(Config config) {
  config.data.train = with_token_files("data.train", config.data.train, config);
  config.data.validation = with_token_files("data.validation", config.data.validation, config);
  return config;
}

}  // namespace twobw::corpus
