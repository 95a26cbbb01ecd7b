// twobw completion: a script for bash or zsh, made from the command table and its options.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "app/cli/engine/commands.h"
#include "core/base/config_schema.h"

namespace twobw::cli {
namespace {

std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// Whether it takes key=value.
bool takes_settings(const CLI::App& command) {
  return command.get_option_no_throw("config") != nullptr ||
         command.get_option_no_throw("settings") != nullptr;
}

// Subcommands and options.
std::vector<std::string> words_of(const CLI::App& command) {
  std::vector<std::string> words;
  for (const CLI::App* inner : subcommands_of(command)) words.push_back(inner->get_name());
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
  }
  return words;
}

// One branch of `case $before in` for every command, the longest paths first.
void add_branches(const CLI::App& command, const std::string& path, std::string& branches) {
  for (const CLI::App* inner : subcommands_of(command))
    add_branches(*inner, fmt::format("{}{} ", path, inner->get_name()), branches);
  branches += fmt::format("    '{}'*) names='{}'{} ;;\n", path, fmt::join(words_of(command), " "),
                          takes_settings(command) ? " keys=$all_keys" : "");
}

// Sets `names` and `keys` by `before`: the words in front of the cursor, each with a space behind it. Valid
// in both shells.
std::string candidates(const CLI::App& app) {
  std::vector<std::string> keys;
  for (const Key& key : schema()) keys.push_back(key.path + "=");
  std::string branches;
  add_branches(app, "", branches);
  return fmt::format("  local names= keys= all_keys='{}'\n  case $before in\n{}  esac\n",
                     fmt::join(keys, " "), branches);
}

// In bash '=' is a word of its own; files are offered after it.
constexpr const char* kBashBegin = R"(_twobw() {
  local word=${COMP_WORDS[COMP_CWORD]} before
  [[ $word == '=' || ${COMP_WORDS[COMP_CWORD-1]} == '=' ]] && return
  printf -v before '%s ' "${COMP_WORDS[@]:1:COMP_CWORD-1}"
)";
constexpr const char* kBashEnd = R"(  COMPREPLY=($(compgen -W "$names $keys" -- "$word"))
  [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _twobw twobw
)";

constexpr const char* kZshBegin = R"(_twobw() {
  local before="${(j: :)words[2,CURRENT-1]} "
)";
constexpr const char* kZshEnd = R"(  compadd -- ${=names}
  compadd -S '' -- ${=keys}
  _files
}
compdef _twobw twobw
)";

}  // namespace

void add_completion(CLI::App& command, int&) {
  auto shell = std::make_shared<std::string>();
  command
      .add_option("shell", *shell,
                  "bash or zsh; add `source <(twobw completion SHELL)` to ~/.bashrc or ~/.zshrc")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  command.callback([shell, &command] {
    const bool bash = *shell == "bash";
    fmt::print("{}{}{}", bash ? kBashBegin : kZshBegin, candidates(*command.get_parent()),
               bash ? kBashEnd : kZshEnd);
  });
}

}  // namespace twobw::cli
