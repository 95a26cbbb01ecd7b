#include "app/measure/layer_marks.h"

#include <gtest/gtest.h>

#include <string>

namespace twobw::measure {
namespace {

// A second passes from mark to mark. Writes down what it is asked for: hold, mark, release.
class WritingClock final : public device::Clock {
 public:
  explicit WritingClock(int waits = 1000) : waits_(waits) {}

  device::Timestamp now() override {
    written_ += 'm';
    return {.seconds = seconds_++};
  }
  double seconds(const device::Timestamp& mark) const override { return mark.seconds; }
  bool can_hold() const override { return true; }
  void hold() override {
    written_ += " h";
    is_held_ = true;
  }
  bool release() override {
    if (is_held_) written_ += 'r';
    is_held_ = false;
    return waits_-- > 0;
  }

  const std::string& written() const { return written_; }

 private:
  int waits_;
  double seconds_ = 0;
  bool is_held_ = false;
  std::string written_;
};

// A row of so many layers; whether the device has waited.
bool time_row(device::Clock& clock, int held, std::vector<double>& seconds) {
  LayerMarks marks(clock, held);
  marks.begin();
  for (double& layer : seconds) marks.end(layer);
  marks.finish();
  return marks.read();
}

TEST(LayerMarks, HoldTheDeviceBackForSoManyLayersAtOnce) {
  for (const auto& [held, written] : std::vector<std::pair<int, std::string>>{{0, "mmmmmm"},
                                                                              {2, " hmmmr hmmmr hmmr"},
                                                                              {3, " hmmmmr hmmmr"},
                                                                              {5, " hmmmmmmr hmr"},
                                                                              {8, " hmmmmmmr"}}) {
    WritingClock clock;
    std::vector<double> seconds(5);
    EXPECT_TRUE(time_row(clock, held, seconds));
    EXPECT_EQ(clock.written(), written);
    EXPECT_EQ(seconds, std::vector<double>(5, 1.0)) << held;
  }
}

TEST(LayerMarks, GoOnWithoutWhereTheDeviceDidNotWait) {
  WritingClock clock(/*waits=*/1);
  std::vector<double> seconds(7);
  EXPECT_FALSE(time_row(clock, 2, seconds));
  EXPECT_EQ(clock.written(), " hmmmr hmmmrmmmm");
  EXPECT_EQ(seconds, std::vector<double>(7, 1.0));
}

TEST(LayerMarks, LetTheDeviceGoWhenARowBreaksOff) {
  WritingClock clock;
  {
    double seconds = 0;
    LayerMarks marks(clock, 4);
    marks.begin();
    marks.end(seconds);
  }
  EXPECT_EQ(clock.written(), " hmmr");
}

}  // namespace
}  // namespace twobw::measure
