#include "core/base/text_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "core/base/error.h"
#include "tests/support/refusal.h"

namespace twobw {
namespace {

namespace fs = std::filesystem;

class ModelText : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "twobw_text_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  void TearDown() override { fs::remove_all(path_); }

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  static std::string refusal(const std::string& path) {
    return error_of([&] { read_model_text("vocabulary", path, 5); }, "accepted");
  }

  fs::path path_;
};

TEST_F(ModelText, IsThatOfARegularFile) {
  write_text(file("short"), "12345");
  fs::create_symlink("short", file("link"));
  EXPECT_EQ(read_model_text("vocabulary", file("link"), 5), "12345");
  const auto begin = [&](const std::string& name) { return "vocabulary '" + file(name) + "' "; };
  write_text(file("long"), "123456");
  EXPECT_EQ(refusal(file("long")), begin("long") + "has 6 bytes; it must have at most 5");
  ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal(file("pipe")), begin("pipe") + "cannot be read: it is not a regular file");
  fs::create_symlink("/dev/zero", file("zero"));
  EXPECT_EQ(refusal(file("zero")), begin("zero") + "cannot be read: it is not a regular file");
  fs::create_symlink("loop", file("loop"));
  EXPECT_EQ(refusal(file("loop")), begin("loop") + "cannot be read: Too many levels of symbolic links");
  EXPECT_EQ(refusal(path_.string()), "vocabulary '" + path_.string() + "' cannot be read: it is a folder");
}

TEST_F(ModelText, OfADeviceWithoutEndIsRefused) {
  EXPECT_THROW(read_text("vocabulary", "/dev/zero", 5), InputError);
  EXPECT_EQ(read_text("vocabulary", "/dev/null", 5), "");
}

}  // namespace
}  // namespace twobw
