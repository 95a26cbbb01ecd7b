// docs/config.md, made from the table of keys.
#pragma once

#include <string>

namespace twobw {

// The whole page, in Markdown.
std::string render_config_doc();

}  // namespace twobw
