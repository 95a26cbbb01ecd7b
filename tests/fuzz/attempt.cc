#include "tests/fuzz/attempt.h"

#include <fmt/format.h>

#include <exception>

#include "core/base/error.h"
#include "tests/fuzz/memory_limit.h"

namespace twobw::fuzz {
namespace {

constexpr std::size_t kLeastMemory = std::size_t{64} << 20;
constexpr std::size_t kMemoryPerByte = 64;
constexpr std::size_t kLongestSentence = 2000;

std::string complaint_about(std::string_view sentence) {
  if (sentence.empty()) return "it is refused without a sentence";
  if (sentence.size() > kLongestSentence) return fmt::format("it is refused with {} bytes", sentence.size());
  if (sentence.find('\n') != std::string_view::npos) return "it is refused with more than one line";
  return "";
}

}  // namespace

Attempt attempt(const Target& target, std::string_view input) {
  Attempt made;
  const MemoryLimit limit(kLeastMemory + kMemoryPerByte * input.size());
  try {
    target.read(input);
    made.accepted = true;
  } catch (const InputError& error) {
    made.sentence = error.what();
    made.failure = complaint_about(made.sentence);
  } catch (const std::exception& error) {
    made.failure = fmt::format("{} is thrown", error.what());
  } catch (...) {
    made.failure = "something is thrown that is no exception";
  }
  if (limit.exceeded()) made.failure = fmt::format("it takes more memory than {} bytes should", input.size());
  return made;
}

}  // namespace twobw::fuzz
