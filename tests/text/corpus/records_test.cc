#include "text/corpus/records.h"

#include <gtest/gtest.h>

#include "tests/text/corpus/testing.h"

namespace twobw::corpus {
namespace {
namespace records {

using testing::Folder;
using testing::Strings;

class Records : public ::testing::Test {
 protected:
  std::vector<Strings> read(const std::string& name, const std::string& text, const Strings& fields) const {
    RecordReader reader(folder_.write(name, text), fields);
    std::vector<Strings> all;
    while (const auto record = reader.next()) all.push_back(*record);
    return all;
  }
  std::string refused(const std::string& name, const std::string& text, const Strings& fields) const {
    std::string sentence = error_of([&] { read(name, text, fields); });
    const std::string path = folder_.file(name);
    for (std::size_t at = sentence.find(path); at != std::string::npos; at = sentence.find(path))
      sentence.replace(at, path.size(), name);
    return sentence;
  }
  Folder folder_;
};

TEST_F(Records, OfTsvAreNamedByTheFirstLine) {
  EXPECT_EQ(read("x.tsv", "\xEF\xBB\xBFsentence\tlabel\nit works \t1\r\n\n\t0\n", {"label", "sentence"}),
            (std::vector<Strings>{{"1", "it works "}, {"0", ""}}));
  EXPECT_EQ(read("x.tsv", "", {"label"}), std::vector<Strings>());
  EXPECT_EQ(read("x.tsv", "label\n", {"label"}), std::vector<Strings>());
}

TEST_F(Records, OfTsvAreNumberedWhereNoLineNamesThem) {
  EXPECT_EQ(read("x.tsv", "a\tb\tc\nd\te\tf", {"3", "1"}), (std::vector<Strings>{{"c", "a"}, {"f", "d"}}));
}

TEST_F(Records, OfJsonlHaveTextsNumbersAndTruthValues) {
  EXPECT_EQ(
      read("x.jsonl", "{\"a\": \"\\u00e9 \\\"\", \"b\": 12, \"c\": [1]}\n  \n{\"b\": true, \"a\": 0.5}\n",
           {"a", "b"}),
      (std::vector<Strings>{{"\xC3\xA9 \"", "12"}, {"0.5", "true"}}));
}

// Seeds of the fuzz targets tsv and jsonl cover invalid lines.
TEST_F(Records, RefusedWithTheirPlace) {
  EXPECT_EQ(refused("x.txt", "", {"a"}),
            "'x.txt' does not name a file of records; it must end in .tsv, .jsonl, .ndjson or .json");
  EXPECT_EQ(refused("x.tsv", "a\tb\n1\t2\n", {"a", "c"}), "'x.tsv:1' has no column 'c'; its columns are a b");
  EXPECT_EQ(refused("x.tsv", "a\tb\n", {"a", "2"}),
            "columns of 'x.tsv' are given by names and by numbers; they must be all of one kind");
  EXPECT_EQ(refused("x.jsonl", "{\"a\": 1}\n{\"b\": 1}\n", {"a"}), "'x.jsonl:2' has no field 'a'");
  EXPECT_EQ(refused("x.jsonl", "{\"a\": null}\n", {"a"}),
            "'x.jsonl:1': field 'a' must be a text, a number or a truth value");
  EXPECT_TRUE(testing::has(error_of([] { RecordReader("no/such.tsv", {"a"}); }), "No such file"));
}

TEST(ShortTexts, AreLinesOrFieldsByTheNameOfTheFile) {
  const Folder folder;
  EXPECT_EQ(read_texts(folder.write("x.txt", "one\n\ntwo\r\nthree"), "text"),
            (Strings{"one", "", "two", "three"}));
  EXPECT_EQ(read_texts(folder.write("x.tsv", "text\tlabel\none\t1\n\ntwo\t0\n"), "text"),
            (Strings{"one", "two"}));
  EXPECT_EQ(read_texts(folder.write("x.jsonl", "{\"body\": \"one\"}\n{\"body\": 2}\n"), "body"),
            (Strings{"one", "2"}));
  EXPECT_EQ(read_texts(folder.write("none.txt", ""), "text"), Strings());
  EXPECT_TRUE(testing::has(error_of([&] { read_texts(folder.file("x.jsonl"), "text"); }),
                           "x.jsonl:1' has no field 'text'"));
}

}  // namespace records
}  // namespace
}  // namespace twobw::corpus
