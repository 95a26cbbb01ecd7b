#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/tokenizer/fuzz.h"

namespace twobw::tokenizer {
namespace {

// TWOBW_FUZZ_SECONDS=600 goes on for ten minutes.
TEST(Fuzz, DamagedFilesAreRefusedOrWork) {
  const char* const asked = std::getenv("TWOBW_FUZZ_SECONDS");
  const double seconds = asked != nullptr ? std::atof(asked) : 2;
  const testing::FuzzResult result = testing::fuzz_tokenizers(1, seconds, 500);
  EXPECT_GT(result.loaded, 0);
  EXPECT_GT(result.tried, result.loaded);
  if (asked != nullptr) GTEST_LOG_(INFO) << result.tried << " files, " << result.loaded << " of them loaded";
}

}  // namespace
}  // namespace twobw::tokenizer
