// Normal form C by utf8proc, for what is UTF-8 and may not be in it already.
#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "core/base/error.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/unicode_versions.h"
#include "text/tokenizer/utf8.h"

namespace twobw::tokenizer {
namespace {

// Below U+0300 there is neither a mark nor a character that is written otherwise in form C.
bool surely_composed(std::string_view text) {
  for (const char byte : text) {
    if (static_cast<std::uint8_t>(byte) >= 0xCC) return false;
  }
  return true;
}

void append_composed(std::string_view valid, std::string& out) {
  if (surely_composed(valid)) {
    out += valid;
    return;
  }
  utf8proc_uint8_t* found = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(valid.data()), static_cast<utf8proc_ssize_t>(valid.size()),
      &found, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(found, &std::free);
  if (size < 0) fail_run("normal form C of {} bytes failed: {}", valid.size(), utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(found), static_cast<std::size_t>(size));
}

}  // namespace

std::string compose(std::string_view text) {
  if (surely_composed(text)) return std::string(text);
  std::string out;
  out.reserve(text.size());
  // What is not UTF-8 or does not take part stands between what does.
  const char* const end = text.data() + text.size();
  const char* begin = text.data();
  for (const char* at = begin; at < end;) {
    const Character next = read_character(at, end);
    const char* const after = at + next.length;
    if (!next.valid || contains(unmoved_since_9(), next.code)) {
      append_composed({begin, static_cast<std::size_t>(at - begin)}, out);
      out.append(at, after);
      begin = after;
    }
    at = after;
  }
  append_composed({begin, static_cast<std::size_t>(end - begin)}, out);
  return out;
}

}  // namespace twobw::tokenizer
