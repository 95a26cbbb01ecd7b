// Agreement before the start of a run: configuration key by key, split, versions and checksums of data must
// be equal on all ranks.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/control/control.h"
#include "engine/control/mail.h"

namespace twobw::control {

// Distinct keys and their values, in the order of messages.
using Facts = std::vector<std::pair<std::string, std::string>>;

// Collective, with the mail of `control`: rank 0 compares and sends every rank the verdict. Returns if all
// ranks agree. Throws InputError on all ranks, with the keys, values and ranks that differ, or RunError with
// the ranks that did not call within `deadline_s` of rank 0's call; the run is aborted in both cases. Raises
// the failure after any other abort.
void agree(Control& control, Mail& mail, const Facts& facts, double deadline_s);

// The keys that differ, at most 8, a line each; empty if none. `facts`: by rank.
std::string compare_facts(const std::vector<Facts>& facts);

}  // namespace twobw::control
