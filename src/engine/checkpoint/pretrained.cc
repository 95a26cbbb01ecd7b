#include "engine/checkpoint/pretrained.h"

#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/json.h"
#include "planning/architecture/families.h"
#include "planning/architecture/huggingface/model_config.h"
#include "planning/architecture/huggingface/names.h"

namespace twobw::checkpoint {
namespace {

namespace huggingface = architecture::huggingface;
using huggingface::Piece;
using huggingface::pieces_of;

// "3", "0-2,5".
std::string ranges_of(std::vector<int> numbers) {
  std::ranges::sort(numbers);
  std::string text;
  for (std::size_t i = 0, last = 0; i < numbers.size(); i = last + 1) {
    for (last = i; last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1;) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
  }
  return text;
}

// Position of the layer number in a name: "31" in "model.layers.31.mlp.up_proj.weight"; may be empty.
std::pair<std::size_t, std::size_t> layer_number(const std::string& name) {
  constexpr std::size_t kMostDigits = 6;
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    const std::size_t end = name.find_first_not_of("0123456789", dot + 1);
    const bool ends_well = end != std::string::npos && name[end] == '.';
    if (ends_well && end > dot + 1 && end <= dot + 1 + kMostDigits) return {dot + 1, end};
  }
  return {};
}

// All names; names that differ only in their layer number are merged: "model.layers.2-31.mlp.up_proj.weight".
std::string listed(const std::vector<std::string>& names) {
  struct Alike {
    std::string before, after;  // the layer number
    std::vector<int> layers;    // empty without a number
  };
  std::vector<Alike> all;
  std::map<std::pair<std::string, std::string>, std::size_t> known;
  for (const std::string& name : names) {
    const auto [begin, end] = layer_number(name);
    if (begin == end) {
      all.push_back({.before = name});
      continue;
    }
    const std::string before = name.substr(0, begin), after = name.substr(end);
    const auto [found, is_new] = known.try_emplace({before, after}, all.size());
    if (is_new) all.push_back({.before = before, .after = after});
    all[found->second].layers.push_back(std::stoi(name.substr(begin, end - begin)));
  }
  std::vector<std::string> parts;
  for (const auto& [before, after, layers] : all) parts.push_back(before + ranges_of(layers) + after);
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Defects of a folder's tensors, joined into one sentence.
struct Misfits {
  std::vector<std::string> missing, unexpected, misshaped, mistyped;

  bool none() const { return missing.empty() && unexpected.empty() && misshaped.empty() && mistyped.empty(); }
  std::string sentence() const {
    std::vector<std::string> parts;
    const auto add = [&](const std::vector<std::string>& names, const char* what) {
      if (!names.empty()) parts.push_back(fmt::format("{} {}: {}", names.size(), what, listed(names)));
    };
    add(missing, "missing");
    add(unexpected, "not expected");
    add(misshaped, "of another shape");
    add(mistyped, "neither F32, BF16 nor F16");
    return fmt::format("{}", fmt::join(parts, "; "));
  }
};

bool is_read(const std::string& dtype) {
  return dtype == "F32" || dtype == "BF16" || dtype == "F16";
}

// Whether the parameter has one row per label.
bool is_of_labels(const ModelConfig& model, const architecture::Parameter& parameter) {
  return architecture::is_sequence_head(model.head) &&
         (parameter.name == "head.weight" || parameter.name == "head.bias");
}

// The stored shape of a head with other labels.
std::string with_shapes(const Piece& piece, const StoredTensor& stored) {
  return fmt::format("{} [{}] (there it is [{}])", piece.name, fmt::join(piece.shape, ", "),
                     fmt::join(stored.shape, ", "));
}

// Compares in pieces, so that conversion to fp32 needs little memory.
bool have_equal_numbers(const at::Tensor& a, const at::Tensor& b) {
  constexpr std::int64_t kNumbers = 1 << 20;
  const at::Tensor one = a.reshape(-1), other = b.reshape(-1);
  for (std::int64_t begin = 0; begin < one.numel(); begin += kNumbers) {
    const std::int64_t count = std::min(kNumbers, one.numel() - begin);
    if (!at::equal(one.narrow(0, begin, count).to(at::kFloat), other.narrow(0, begin, count).to(at::kFloat)))
      return false;
  }
  return true;
}

}  // namespace

std::vector<NamedTensor> to_stored(const ModelConfig& model, const architecture::Parameter& parameter,
                                   const at::Tensor& ours) {
  std::vector<NamedTensor> stored;
  std::int64_t row = 0;
  for (const Piece& piece : pieces_of(model, parameter)) {
    const at::Tensor part = ours.narrow(0, row, piece.rows());
    stored.push_back({piece.name, piece.transposed ? part.t() : part});
    row += piece.rows();
  }
  return stored;
}

void from_stored(const ModelConfig& model, const architecture::Parameter& parameter,
                 const std::function<at::Tensor(const std::string& name)>& find, const at::Tensor& target) {
  at::NoGradGuard no_grad;
  std::int64_t row = 0;
  for (const Piece& piece : pieces_of(model, parameter)) {
    const at::Tensor stored = find(piece.name);
    TWOBW_ASSERT(stored.sizes() == at::IntArrayRef(piece.shape), "'{}' has another shape", piece.name);
    target.narrow(0, row, piece.rows()).copy_(piece.transposed ? stored.t() : stored);
    row += piece.rows();
  }
}

Pretrained::Pretrained(const ModelConfig& model) : Pretrained(model, model.from) {
  promises_head_ = huggingface::promises_head(model.from, model);
  initializer_range_ = huggingface::initializer_range(model.from);
}

Pretrained::Pretrained(const ModelConfig& model, const std::string& folder) : model_(model), folder_(folder) {
  const std::vector<std::string> names = folder_.names();
  const std::string_view prefix = huggingface::prefix_of(model);
  bare_ = std::ranges::none_of(names, [&](const std::string& name) { return name.starts_with(prefix); });
}

std::string Pretrained::stored_name(const std::string& name) const {
  const std::string_view prefix = huggingface::prefix_of(model_);
  const std::string now = bare_ && name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  const std::string former = huggingface::former_name(now);
  if (folder_.find(now) != nullptr) return now;
  if (!former.empty() && folder_.find(former) != nullptr) return former;
  // safetensors' save_model stores tied tensors once, under the alphabetically first name.
  for (const auto& [output, source] : huggingface::tied_names(model_)) {
    if (source == name && folder_.find(output) != nullptr) return output;
  }
  return now;
}

bool Pretrained::is_new(const architecture::Parameter& parameter, const Piece& piece) const {
  if (promises_head_ || !huggingface::is_of_head(model_, parameter)) return false;
  const StoredTensor* const stored = folder_.find(stored_name(piece.name));
  return stored == nullptr || (is_of_labels(model_, parameter) && stored->shape != piece.shape);
}

bool Pretrained::has(const architecture::Parameter& parameter) const {
  return std::ranges::none_of(pieces_of(model_, parameter),
                              [&](const Piece& piece) { return is_new(parameter, piece); });
}

architecture::Parameter Pretrained::with_default_init(architecture::Parameter parameter) const {
  if (parameter.init_std > 0) parameter.init_std = initializer_range_;
  return parameter;
}

// transformers does not tie tensors that differ, even if config.json ties them.
void Pretrained::check_tied() const {
  if (architecture::is_sequence_head(model_.head)) return;
  bool has_whole_output = true;
  for (const auto& [output, source] : huggingface::tied_names(model_))
    has_whole_output = has_whole_output && (output.ends_with(".bias") || folder_.find(output) != nullptr);
  for (const auto& [output, source] : huggingface::tied_names(model_)) {
    const std::string stored = stored_name(source);
    const StoredTensor *const one = folder_.find(output), *const other = folder_.find(stored);
    if (one == nullptr || other == nullptr || output == stored) continue;
    const bool equal = one->shape == other->shape && is_read(one->dtype) &&
                       have_equal_numbers(folder_.view(output), folder_.view(stored));
    if (equal) continue;
    fail_input(
        "'{}' holds {} and {}, which its config.json ties, and they differ; {}", folder_.path(), output,
        stored,
        has_whole_output ? "to keep both set tie_word_embeddings to false there" : "one of the two must go");
  }
}

HeadChange Pretrained::check(const architecture::Model& model) const {
  Misfits misfits;
  HeadChange change;
  std::set<std::string> expected;
  for (const architecture::Layer& layer : model) {
    for (const architecture::Parameter& parameter : layer.parameters) {
      if (!parameter.tied_to.empty()) continue;
      for (const Piece& piece : pieces_of(model_, parameter)) {
        const std::string name = stored_name(piece.name);
        expected.insert(name);
        const StoredTensor* stored = folder_.find(name);
        if (is_new(parameter, piece)) {
          change.initialized.push_back(stored == nullptr ? piece.name : with_shapes(piece, *stored));
          continue;
        }
        if (stored == nullptr) {
          misfits.missing.push_back(name);
        } else if (stored->shape != piece.shape) {
          misfits.misshaped.push_back(fmt::format(
              "{} [{}] instead of [{}]", name, fmt::join(stored->shape, ", "), fmt::join(piece.shape, ", ")));
        } else if (!is_read(stored->dtype)) {
          misfits.mistyped.push_back(fmt::format("{} ({})", name, stored->dtype));
        }
      }
    }
  }
  for (const std::string& name : folder_.names()) {
    if (expected.contains(name) || huggingface::is_spare(model_, name)) continue;
    auto& where = huggingface::is_head_name(model_, name) ? change.left_out : misfits.unexpected;
    where.push_back(shown_name(name));
  }
  if (!misfits.none())
    fail_input("the tensors in '{}' are not those of its config.json; {}", folder_.path(),
               misfits.sentence());
  check_tied();
  return change;
}

void Pretrained::read(const architecture::Parameter& parameter, const at::Tensor& target) const {
  from_stored(
      model_, parameter, [this](const std::string& name) { return folder_.view(stored_name(name)); }, target);
}

}  // namespace twobw::checkpoint
