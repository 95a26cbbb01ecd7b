#include "core/telemetry/progress.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace twobw::telemetry {
namespace {

// Output of a progress display during `action`, including its end.
std::string printed(bool terminal, const std::function<void(Progress&)>& action) {
  testing::internal::CaptureStdout();
  {
    Progress progress(terminal);
    action(progress);
  }
  return testing::internal::GetCapturedStdout();
}

Status at(std::int64_t update) {
  return {.update = update,
          .updates = 100,
          .loss = 2.34567,
          .learning_rate = 1e-3,
          .gradient_norm = 0.5,
          .tokens_per_s = 12'345,
          .utilisation = 0.875,
          .seconds_left = 90};
}

constexpr const char* kFigures = "loss 2.3457  lr 1.00e-03  norm 0.50  12.3K tokens/s  busy 88%";

TEST(Progress, ShowsTheFirstAndTheLastUpdateAndSparesTheRest) {
  const std::string text = printed(false, [](Progress& progress) {
    for (int update = 1; update <= 100; ++update) progress.show(at(update));
  });
  EXPECT_EQ(text, "update 1/100  " + std::string(kFigures) + "\nupdate 100/100  " + kFigures + "\n");
}

TEST(Progress, OnATerminalIsOneLineThatIsClearedInTheEnd) {
  const std::string text = printed(true, [](Progress& progress) { progress.show(at(50)); });
  EXPECT_EQ(text.find("\r\033[K50/100 [============>           ] " + std::string(kFigures) + "  "), 0u)
      << text;
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_TRUE(text.ends_with("  1m 30s left\r\033[K")) << text;
}

TEST(Progress, LinesThatStayTakeTheLineOver) {
  const std::string text = printed(true, [](Progress& progress) {
    progress.show(at(1));
    progress.say("validation loss 2.5");
  });
  EXPECT_TRUE(text.ends_with(" left\r\033[Kvalidation loss 2.5\n")) << text;  // nothing left to clear
  EXPECT_EQ(printed(false, [](Progress& progress) { progress.say("hello"); }), "hello\n");
}

}  // namespace
}  // namespace twobw::telemetry
