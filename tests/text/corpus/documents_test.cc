#include "text/corpus/documents.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/text/corpus/testing.h"
#include "text/corpus/records.h"

namespace twobw::corpus {
namespace {

using testing::Folder;
using testing::has;
using testing::Strings;

// Whole documents, joined from their parts.
std::vector<std::string> documents(const std::string& path, const DocumentOptions& options = {}) {
  std::vector<std::string> found;
  const Input input = list_inputs({path}, "auto").at(0);
  const auto reader = read_documents(input, options);
  std::string document;
  while (const auto part = reader->next()) {
    const std::string place = fmt::format("{}:{}", path, part->line);
    document += input.format == Format::kJsonl ? field_text(part->text, options.field, place)
                                               : std::string(part->text);
    if (part->ends_document) found.push_back(std::exchange(document, ""));
  }
  EXPECT_EQ(document, "");
  return found;
}

DocumentOptions blocks() {
  DocumentOptions options;
  options.blank_lines = true;
  return options;
}

TEST(Documents, OfATextFile) {
  const Folder folder;
  EXPECT_EQ(documents(folder.write("a.txt", "one\n\ntwo\r\n")), (Strings{"one\n\ntwo\r\n"}));
  EXPECT_EQ(documents(folder.write("a.txt", "")), (Strings{""}));
  EXPECT_EQ(documents(folder.write("a.txt", "\xEF\xBB\xBFtext")), (Strings{"text"}));
}

TEST(Documents, BetweenBlankLines) {
  const Folder folder;
  const auto of = [&](const std::string& text) { return documents(folder.write("a.txt", text), blocks()); };
  EXPECT_EQ(of("one\nmore\n\n \t\r\n\ntwo"), (Strings{"one\nmore\n", "two"}));
  EXPECT_EQ(of("\n\n  \n one \n\n"), (Strings{" one \n"}));
  EXPECT_EQ(of("one\n  "), (Strings{"one\n"}));
  EXPECT_EQ(of("one\r\n\r\ntwo\r\n"), (Strings{"one\r\n", "two\r\n"}));
  EXPECT_EQ(of(""), (Strings{}));
  EXPECT_EQ(of("\n \n"), (Strings{}));
}

// Lines and blocks around the length at which documents are cut.
TEST(Documents, BetweenBlankLinesWhateverTheirLength) {
  const Folder folder;
  std::mt19937 random(1);
  for (int round = 0; round < 12; ++round) {
    std::string text;
    std::vector<std::string> expected;
    for (int block = 0; block < 4; ++block) {
      std::string document;
      const std::size_t length = kLongestPiece / 2 + random() % (2 * kLongestPiece);
      while (document.size() < length) {
        document += std::string(1 + random() % (round % 2 == 0 ? 100 : kLongestPiece), 'x') + "\n";
      }
      text += document + (random() % 2 == 0 ? "\n" : " \n\n");
      expected.push_back(document);
    }
    EXPECT_EQ(documents(folder.write("a.txt", text), blocks()), expected);
  }
}

TEST(Documents, BlankLinesRightWhereAPieceEnds) {
  const Folder folder;
  for (int shift = -3; shift <= 3; ++shift) {
    const std::string one(kLongestPiece + static_cast<std::size_t>(shift + 3) - 3, 'x');
    EXPECT_EQ(documents(folder.write("a.txt", one + "\n\ntwo\n"), blocks()), (Strings{one + "\n", "two\n"}));
  }
}

TEST(Documents, OfJsonl) {
  const Folder folder;
  const std::string path =
      folder.write("a.jsonl",
                   "{\"id\": 1, \"text\": \"one\\n\\u00e9\\ud83d\\ude00\", \"more\": {\"text\": \"no\"}}\n\n"
                   "{\"text\": \"\"}\r\n{\"more\": [{\"text\": 1}], \"text\": \"last\"}");
  EXPECT_EQ(documents(path), (Strings{"one\n\u00e9\U0001F600", "", "last"}));
  DocumentOptions options;
  options.field = "body";
  EXPECT_TRUE(has(error_of([&] { documents(path, options); }), "a.jsonl:1' has no field 'body'"));
  const auto refused = [&](const std::string& text) {
    return error_of([&] { documents(folder.write("b.jsonl", text)); });
  };
  EXPECT_TRUE(has(refused("{\"text\": \"a\"}\n{\"text\": 7}\n"), "b.jsonl:2': field 'text' must be a text"));
  EXPECT_TRUE(has(refused("{\"text\": \"a\"\n"), "b.jsonl:1' is not valid JSON"));
  EXPECT_TRUE(has(refused("{\"text\": \"\xFF\"}\n"), "UTF-8"));
  EXPECT_TRUE(has(refused("[\"text\"]\n"), "not a JSON object"));
  EXPECT_TRUE(has(refused(std::string(200000, '[')), "not valid JSON"));
}

TEST(Documents, OfTsv) {
  const Folder folder;
  const std::string path = folder.write("a.tsv", "id\ttext\n1\tone \"quoted\"\n\n2\t\r\n3\tthree\tmore\n");
  EXPECT_EQ(documents(path), (Strings{"one \"quoted\"", "", "three"}));
  DocumentOptions options;
  options.column = "1";
  EXPECT_EQ(documents(path, options), (Strings{"id", "1", "2", "3"}));
  options.column = "3";
  EXPECT_TRUE(has(error_of([&] { documents(path, options); }), "a.tsv:1' has no column 3"));
  options.column = "body";
  EXPECT_TRUE(has(error_of([&] { documents(path, options); }), "its columns are id text"));
}

TEST(Documents, LinesThatAreTooLong) {
  const Folder folder;
  const std::string path = folder.write("a.tsv", "text\n" + std::string(kLongestLine * 3, 'x'));
  EXPECT_TRUE(has(error_of([&] { documents(path); }), "a.tsv:2' is longer than 16 MiB"));
}

TEST(Inputs, OfAFolderInOrder) {
  const Folder folder;
  for (const char* name :
       {"in/b.txt", "in/a/z.jsonl", "in/a/y.tsv.gz", "in/.hidden", "in/.git/x", "in/c.json.zst"}) {
    folder.write(name, "x");
  }
  std::vector<std::string> found;
  for (const Input& input : list_inputs({folder.file("in")}, "auto")) {
    found.push_back(input.path.substr(folder.file("in/").size()) + " " + format_name(input.format));
  }
  EXPECT_EQ(found, (Strings{"a/y.tsv.gz tsv", "a/z.jsonl jsonl", "b.txt text", "c.json.zst jsonl"}));
  EXPECT_EQ(list_inputs({folder.file("in/a")}, "text").at(0).format, Format::kText);
  EXPECT_TRUE(has(error_of([&] { list_inputs({folder.file("no")}, "auto"); }), "no'"));
  std::filesystem::create_directory(folder.file("empty"));
  EXPECT_TRUE(has(error_of([&] { list_inputs({folder.file("empty")}, "auto"); }), "no files"));
}

TEST(Pieces, AreCutWhereWordsAreApart) {
  const std::string line = "some words here, and more\n";
  std::string text;
  while (text.size() <= kLongestPiece) text += line;
  EXPECT_EQ(piece_length(text), kLongestPiece / line.size() * line.size());
  const std::string words = std::string(kLongestPiece - 10, 'x') + " " + std::string(100, 'y');
  EXPECT_EQ(piece_length(words), kLongestPiece - 10);
  std::string wide;
  while (wide.size() <= kLongestPiece) wide += "\u4E2D";
  EXPECT_EQ(piece_length(wide) % 3, 0u);
  EXPECT_EQ(piece_length("short"), 5u);
  EXPECT_GT(piece_length(std::string(kLongestPiece + 1, '\x80')), 0u);
}

}  // namespace
}  // namespace twobw::corpus
