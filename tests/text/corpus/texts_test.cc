#include "text/corpus/texts.h"

#include "tests/text/corpus/testing.h"

namespace twobw::corpus {
namespace {
namespace short_texts {

using testing::Folder;
using testing::refusal;
using testing::Strings;

TEST(ShortTexts, AreLinesOrFieldsByTheNameOfTheFile) {
  const Folder folder;
  EXPECT_EQ(read_texts(folder.write("x.txt", "one\n\ntwo\r\nthree"), "text"),
            (Strings{"one", "", "two", "three"}));
  EXPECT_EQ(read_texts(folder.write("x.tsv", "text\tlabel\none\t1\n\ntwo\t0\n"), "text"),
            (Strings{"one", "two"}));
  EXPECT_EQ(read_texts(folder.write("x.jsonl", "{\"body\": \"one\"}\n{\"body\": 2}\n"), "body"),
            (Strings{"one", "2"}));
  EXPECT_EQ(read_texts(folder.write("none.txt", ""), "text"), Strings());
  EXPECT_TRUE(testing::has(refusal([&] { read_texts(folder.file("x.jsonl"), "text"); }),
                           "x.jsonl:1' has no field 'text'"));
}

}  // namespace short_texts
}  // namespace
}  // namespace twobw::corpus
