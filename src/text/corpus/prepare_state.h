// What an interrupted run leaves beside its unfinished files, so that the same command goes on after the last
// finished input and ends with the same bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "text/corpus/indexed_writer.h"
#include "text/corpus/inputs.h"

namespace twobw::corpus {

struct PrepareState {
  Json settings;                // everything that the bytes depend on, but for the inputs
  std::vector<Input> finished;  // with sizes and times of modification
  std::int64_t documents = 0;   // in them, those without tokens included
  std::int64_t empty = 0;       // those without tokens
  WritePosition train, validation;
  bool publishing = false;  // all inputs are finished; the files are getting their names
};

std::string state_path(const std::string& out);

void save_state(const std::string& out, const PrepareState& state);

// Nothing where no run was interrupted. Throws InputError where one was that had other settings, or where an
// input that it finished is another now: going on would mix two corpora.
std::optional<PrepareState> load_state(const std::string& out, const Json& settings,
                                       const std::vector<Input>& inputs);

}  // namespace twobw::corpus
