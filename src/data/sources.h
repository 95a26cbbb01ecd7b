// The kinds of source behind open_source.
#pragma once

#include <memory>
#include <string>

#include "data/tokens.h"

namespace twobw::data {

// The bytes of a file, one token each.
std::unique_ptr<Source> open_bytes(const std::string& key, const std::string& path, int vocab, int length);

// Megatron's token files, as one stream that is cut into windows, each of which begins with the last token of
// the one before. Every window is drawn once in an epoch, in an order of its own (epochs.h).
std::unique_ptr<Source> open_token_file(const std::string& key, const std::string& path, int vocab,
                                        int length);

// Endless made-up text for tests and benchmarks: each token follows from the one before by a fixed
// map, except one time in four, when it is drawn at random; so there is something to learn.
std::unique_ptr<Source> make_synthetic(int vocab);

}  // namespace twobw::data
