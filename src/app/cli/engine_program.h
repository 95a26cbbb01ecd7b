// The program twobw-engine next to this one, and the LibTorch that it needs.
#pragma once

#include <filesystem>

namespace twobw::cli {

// Returns the engine in `folder`. In the Python package, a file next to each engine names the LibTorch that
// it was built with (cmake/Wheel.cmake). The engine that matches the package torch is chosen, with CUDA if
// possible. TWOBW_TORCH is the folder of that package (default: next to the package twobw). Sets
// LD_LIBRARY_PATH if the engine's own search path does not lead there. Throws InputError if torch is missing
// or does not match.
std::filesystem::path choose_engine(const std::filesystem::path& folder);

}  // namespace twobw::cli
