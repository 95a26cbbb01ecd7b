// Files of checkpoints with random damage: refused in a sentence, or read as they were.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/base/error.h"
#include "engine/checkpoint/store.h"
#include "tests/engine/checkpoint/testing.h"

namespace twobw::checkpoint {
namespace {

constexpr int kInputs = 3000;  // of each file

// Bytes changed, left out, put in twice, or the end cut off.
std::string damage(std::string bytes, std::mt19937_64& random) {
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(n, 1));
  };
  for (std::size_t times = 1 + below(4); times > 0 && !bytes.empty(); --times) {
    const std::size_t at = below(bytes.size()), count = 1 + below(16);
    switch (below(4)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes.erase(at, count);
        break;
      case 2:
        bytes.insert(at, bytes.substr(below(bytes.size()), count));
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

TEST(CheckpointFuzz, DamageNeverDoesMoreThanRefuse) {
  const testing_files::TemporaryFolder folder;
  Contents contents;
  contents.manifest.update = 3;
  contents.manifest.config = "train: {seed: 1}\n";
  contents.model = {{"a", at::arange(6, at::kFloat)}};
  contents.state = {{"moment1/a", at::ones({6})}};
  write(folder.path("s"), contents);
  const std::string checkpoint = folder.path("s/update-00000003");
  std::mt19937_64 random(1);
  for (const std::string name : {"/checkpoint.json", "/model/model.safetensors"}) {
    const std::string good = testing_files::read_bytes(checkpoint + name);
    for (int i = 0; i < kInputs; ++i) {
      testing_files::write_bytes(checkpoint + name, damage(good, random));
      try {
        EXPECT_TRUE(load(checkpoint).model.at("a").equal(contents.model[0].tensor));
      } catch (const InputError&) {
      }
    }
    testing_files::write_bytes(checkpoint + name, good);
  }
  EXPECT_TRUE(find_problems(checkpoint).empty());
}

}  // namespace
}  // namespace twobw::checkpoint
