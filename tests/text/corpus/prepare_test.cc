#include "text/corpus/prepare.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "tests/text/corpus/testing.h"
#include "text/corpus/prepare_state.h"

namespace twobw::corpus {
namespace {

using testing::Folder;
using testing::has;
using testing::Strings;

const std::vector<std::string> kOutputs = {"out-train.bin", "out-train.idx", "out-validation.bin",
                                           "out-validation.idx", "out.json"};

// Files of lines, each a document.
void write_inputs(const Folder& folder, int files, int lines) {
  std::mt19937 random(1);
  for (int i = 0; i < files; ++i) {
    std::string text = "id\ttext\n";
    for (int line = 0; line < lines; ++line) {
      text += fmt::format("{}\tdocument {} of {}{}\n", line, line, i, std::string(random() % 200, '.'));
    }
    folder.write(fmt::format("in/{:02}.tsv", i), text);
  }
}

PrepareOptions options_for(const Folder& folder) {
  PrepareOptions options;
  options.inputs = {folder.file("in")};
  options.out = folder.file("out");
  options.split.fraction = 0.25;
  options.save_seconds = 0;
  options.workers = 3;
  return options;
}

std::vector<std::string> outputs(const Folder& folder) {
  std::vector<std::string> bytes;
  for (const std::string& name : kOutputs) bytes.push_back(folder.read(name));
  return bytes;
}

TEST(Prepare, KeepsDocumentsAndTheirOrder) {
  const Folder folder;
  folder.write("in/a.txt", "first\n");
  folder.write("in/b.jsonl", "{\"text\": \"second \\u00fc\"}\n{\"text\": \"\"}\n{\"text\": \"third\"}\n");
  folder.write("in/c.tsv", "text\nfourth\n");
  folder.write("in/d.txt", "");
  PrepareOptions options = options_for(folder);
  options.split.fraction = 0;
  const PrepareResult result = prepare(options);
  EXPECT_EQ(result.empty, 2);
  EXPECT_EQ(result.train.documents, 4);
  EXPECT_FALSE(result.validation);
  EXPECT_FALSE(result.end_of_text);
  const IndexedFile file(folder.file("out-train"));
  EXPECT_EQ(testing::texts(file), (Strings{"first\n", "second \u00fc", "third", "fourth"}));
  EXPECT_FALSE(folder.has("out-validation.idx"));
  EXPECT_FALSE(folder.has("out.partial.json"));
  EXPECT_FALSE(folder.has("out-train.lengths.partial"));
}

TEST(Prepare, AppendsATokenToEveryDocument) {
  const Folder folder;
  folder.write("in/a.tsv", "text\none\ntwo\n\n");
  PrepareOptions options = options_for(folder);
  options.split.fraction = 0;
  options.end_of_text_token = "$";
  prepare(options);
  EXPECT_EQ(testing::texts(IndexedFile(folder.file("out-train"))), (Strings{"one$", "two$"}));
  options.end_of_text_token = "none";
  EXPECT_TRUE(has(error_of([&] { prepare(options); }), "--eot is 'none'"));
}

TEST(Prepare, SplitsByHashOrByEveryNth) {
  const Folder folder;
  write_inputs(folder, 4, 1000);
  PrepareOptions options = options_for(folder);
  PrepareResult result = prepare(options);
  EXPECT_EQ(result.train.documents + result.validation->documents, 4000);
  EXPECT_NEAR(static_cast<double>(result.validation->documents), 1000, 100);
  const auto before = outputs(folder);
  options.split.seed = 1;
  prepare(options);
  EXPECT_NE(outputs(folder), before);
  options.split.every = 10;
  result = prepare(options);
  EXPECT_EQ(result.validation->documents, 400);
  EXPECT_TRUE(has(testing::texts(IndexedFile(folder.file("out-validation"))).at(0), "document 9 of 0"));
}

// So that no set is empty.
TEST(Prepare, SplitsFewDocumentsByPosition) {
  const Folder folder;
  folder.write("in/a.tsv", "text\n0123\n4567\n89\n");
  PrepareOptions options = options_for(folder);
  const auto sets = [&] {
    EXPECT_TRUE(prepare(options).by_position);
    return std::pair(testing::texts(IndexedFile(folder.file("out-train"))),
                     testing::texts(IndexedFile(folder.file("out-validation"))));
  };
  options.split.fraction = 1e-6;  // all are for training
  EXPECT_EQ(sets(), std::pair(Strings({"0123", "4567", "8"}), Strings({"9"})));
  options.split.fraction = 0.999999;  // none
  EXPECT_EQ(sets(), std::pair(Strings({"0"}), Strings({"123", "4567", "89"})));
  options.split.every = 5;
  EXPECT_EQ(sets(), std::pair(Strings({"0123", "4567"}), Strings({"89"})));
  options.inputs = {folder.write("x.txt", "x")};
  EXPECT_TRUE(has(error_of([&] { prepare(options); }), "1 token, too few for two sets"));
  EXPECT_FALSE(folder.has("out-train.bin.partial"));
}

TEST(Prepare, IndependentOfTheNumberOfThreads) {
  const Folder folder;
  write_inputs(folder, 6, 4000);
  folder.write("in/long.txt", std::string(5'000'000, 'x'));
  PrepareOptions options = options_for(folder);
  options.workers = 1;
  prepare(options);
  const auto expected = outputs(folder);
  for (const int workers : {2, 7}) {
    options.workers = workers;
    prepare(options);
    EXPECT_EQ(outputs(folder), expected);
  }
  const IndexedFile train(folder.file("out-train")), validation(folder.file("out-validation"));
  EXPECT_EQ(std::max(summarize(train).longest, summarize(validation).longest), 5'000'000);
}

// Interrupted at every report of progress, and continued by the next run.
TEST(Prepare, ContinuesAfterAnInterruption) {
  const Folder folder;
  write_inputs(folder, 5, 2000);
  const PrepareOptions options = options_for(folder);
  prepare(options);
  const auto expected = outputs(folder);
  for (const std::string& name : kOutputs) std::filesystem::remove(folder.file(name));
  std::size_t resumed = 0;
  for (int runs = 0; runs < 20; ++runs) {
    try {
      int told = 0;
      const PrepareResult result = prepare(options, [&](const PrepareProgress&) {
        if (++told == 2) throw std::runtime_error("interrupted");
      });
      resumed = result.inputs_before;
      break;
    } catch (const std::runtime_error&) {
      EXPECT_FALSE(folder.has("out-train.bin"));
    }
  }
  EXPECT_GE(resumed, 4u);
  EXPECT_EQ(outputs(folder), expected);
}

// The moments between the last input and the end.
TEST(Prepare, ContinuesWhileFilesAreRenamed) {
  const Folder folder;
  write_inputs(folder, 2, 100);
  const PrepareOptions options = options_for(folder);
  prepare(options);
  const auto expected = outputs(folder);
  // As if it had stopped after the first file got its name.
  const auto stop = [&](const Folder& to) {
    int told = 0;
    EXPECT_ANY_THROW(prepare(options, [&](const PrepareProgress&) {
      if (++told == 2) throw std::runtime_error("interrupted");
    }));
    std::string state = to.read("out.partial.json");
    state.replace(state.find("\"publishing\":false"), 18, "\"publishing\":true");
    to.write("out.partial.json", state);
  };
  stop(folder);
  std::filesystem::rename(folder.file("out-train.bin.partial"), folder.file("out-train.bin"));
  EXPECT_EQ(prepare(options).inputs_before, 2u);
  EXPECT_EQ(outputs(folder), expected);
}

TEST(Prepare, RefusesToContinueWithOtherSettings) {
  const Folder folder;
  write_inputs(folder, 3, 10);
  folder.write("in/98.tsv", "no such column\n");
  PrepareOptions options = options_for(folder);
  EXPECT_TRUE(has(error_of([&] { prepare(options); }), "98.tsv:1' has no column 'text'"));
  ASSERT_TRUE(folder.has("out.partial.json"));
  PrepareOptions other = options;
  other.split.seed = 7;
  EXPECT_TRUE(has(error_of([&] { prepare(other); }), "seed was 0, now 7"));
  const std::string input = folder.read("in/01.tsv");
  folder.write("in/01.tsv", "text\nanother\n");
  EXPECT_TRUE(has(error_of([&] { prepare(options); }), "01.tsv' has changed"));
  folder.write("in/98.tsv", "text\nright\n");
  options.restart = true;
  EXPECT_EQ(prepare(options).inputs_before, 0u);
  folder.write("out.partial.json", "{}");
  options.restart = false;
  EXPECT_TRUE(has(error_of([&] { prepare(options); }), "is damaged"));
}

TEST(Prepare, RefusesToOverwriteInputs) {
  const Folder folder;
  folder.write("in/a.txt", "text");
  PrepareOptions options = options_for(folder);
  options.out = folder.file("in/out");
  EXPECT_TRUE(has(error_of([&] { prepare(options); }), "lies in the input folder"));
  options.inputs = {folder.write("out.json", "{\"text\": \"a\"}")};
  options.out = folder.file("out");
  EXPECT_TRUE(has(error_of([&] { prepare(options); }), "is an input and would be written"));
  options.out = folder.file("in") + "/";
  EXPECT_TRUE(has(error_of([&] { prepare(options); }), "--out"));
  options.inputs = {folder.write("nothing.txt", "")};
  options.out = folder.file("empty");
  EXPECT_TRUE(has(error_of([&] { prepare(options); }), "hold no text"));
  EXPECT_FALSE(folder.has("empty-train.bin.partial"));
}

}  // namespace
}  // namespace twobw::corpus
