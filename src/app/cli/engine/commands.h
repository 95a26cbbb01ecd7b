// The commands that need LibTorch. A program that adds a model family of its own has them all.
#pragma once

#include "app/cli/program.h"

namespace twobw::cli {

void add_batches(CLI::App& command, int& exit_code);
void add_checkpoint(CLI::App& command, int& exit_code);
void add_completion(CLI::App& command, int& exit_code);
void add_compare(CLI::App& command, int& exit_code);
void add_embed(CLI::App& command, int& exit_code);
void add_eval(CLI::App& command, int& exit_code);
void add_export(CLI::App& command, int& exit_code);
void add_generate(CLI::App& command, int& exit_code);
void add_profile(CLI::App& command, int& exit_code);
void add_topology_of_hosts(CLI::App& command, int& exit_code);
void add_train(CLI::App& command, int& exit_code);
void add_verify(CLI::App& command, int& exit_code);

inline constexpr EngineCommand kEngineCommands[] = {
    {"train", add_train},
    {"compare", add_compare},
    {"verify", add_verify},
    {"profile", add_profile},
    {"topology", add_topology_of_hosts},
    {"batches", add_batches},
    {"eval", add_eval},
    {"generate", add_generate},
    {"export", add_export},
    {"checkpoint", add_checkpoint},
    {"embed", add_embed},
    {"completion", add_completion},
};

}  // namespace twobw::cli
