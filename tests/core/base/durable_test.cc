#include "core/base/output_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/error.h"
#include "core/base/text_file.h"
#include "tests/core/base/file_size_limit.h"
#include "tests/engine/checkpoint/testing.h"
#include "tests/support/refusal.h"

namespace twobw {
namespace {

using testing_files::FileSizeLimit;
using testing_files::read_bytes;
using testing_files::TemporaryFolder;

TEST(Durable, ATextThatCannotBeReplacedStays) {
  const TemporaryFolder folder;
  const std::string path = folder.path("text");
  replace_text(path, "former");
  std::string refused;
  {
    const FileSizeLimit limit(4);
    refused = error_of<RunError>([&] { replace_text(path, "new text"); });
  }
  EXPECT_EQ(refused, "'" + path + ".partial' cannot be written: File too large");
  EXPECT_EQ(read_bytes(path), "former");
  EXPECT_FALSE(std::filesystem::exists(path + ".partial"));
  EXPECT_EQ(error_of<RunError>([&] { sync_file(folder.path("none")); }),
            "'" + folder.path("none") + "' cannot be synced: No such file or directory");
}

TEST(Durable, WriteTextReportsTheReason) {
  EXPECT_EQ(error_of<RunError>([] { write_text("/dev/full", "text"); }),
            "'/dev/full' cannot be written: No space left on device");
  EXPECT_THROW(write_text("/dev/full", "text"), NoRoom);
}

// Otherwise the bytes before the failure would be there twice.
TEST(OutputFileTest, AfterAFailureTheMissingBytesAreWritten) {
  const TemporaryFolder folder;
  OutputFile file(folder.path("file"), 0);
  file.append("0123456789");
  std::string refused;
  {
    const FileSizeLimit limit(4);
    refused = error_of<RunError>([&] { file.sync(); });
  }
  EXPECT_EQ(refused, "'" + folder.path("file") + "' cannot be written: File too large");
  file.append("ab");
  file.sync();
  EXPECT_EQ(read_bytes(folder.path("file")), "0123456789ab");
  EXPECT_EQ(file.size(), 12);
}

}  // namespace
}  // namespace twobw
