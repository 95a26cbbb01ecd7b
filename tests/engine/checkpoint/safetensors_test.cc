#include "engine/checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "core/base/error.h"

namespace twobw::checkpoint {
namespace {

using at::Tensor;

class Safetensors : public testing::Test {
 protected:
  Safetensors() : folder_(testing::TempDir() + "twobw_safetensors_test_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~Safetensors() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name = "model.safetensors") const { return folder_ + "/" + name; }

  // A file as the format has it: the header's length, the header, and `data` bytes.
  void write(const std::string& header, std::size_t data) const { write(header, data, header.size()); }
  void write(const std::string& header, std::size_t data, std::uint64_t length) const {
    std::ofstream file(path(), std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << header << std::string(data, '\0');
  }

  // The sentence that the file is refused with.
  std::string refusal() const {
    try {
      load_safetensors(path());
    } catch (const InputError& error) {
      return error.what();
    } catch (const std::exception& error) {
      return std::string("not an InputError: ") + error.what();
    }
    return "accepted";
  }

  std::string damaged(const std::string& name) const {
    return "'" + path() + "' is damaged: the data of '" + name + "' does not fit its shape";
  }

 private:
  std::string folder_;
};

TEST_F(Safetensors, ComeBackAsTheyWere) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<NamedTensor> saved = {{"matrix", at::arange(6, at::kFloat).view({2, 3})},
                                          {"bias", at::tensor({-0.0f, 1e-45f, 3.4e38f})},
                                          {"odd", at::tensor({nan})},
                                          {"scalar", at::full({}, 7.0)},
                                          {"empty", at::empty({4, 0})}};
  save_safetensors(path(), saved);
  const auto loaded = load_safetensors(path());
  ASSERT_EQ(loaded.size(), saved.size());
  for (const NamedTensor& entry : saved) {
    const Tensor& back = loaded.at(entry.name);
    ASSERT_EQ(back.sizes(), entry.tensor.sizes()) << entry.name;
    if (back.nbytes() == 0) continue;
    EXPECT_EQ(std::memcmp(back.const_data_ptr(), entry.tensor.const_data_ptr(), back.nbytes()), 0)
        << entry.name;
  }
}

TEST_F(Safetensors, ViewsAreSavedAsTheyLook) {
  const Tensor whole = at::arange(12, at::kFloat).view({3, 4});
  save_safetensors(path(), {{"transposed", whole.t()},
                            {"part", whole.narrow(0, 1, 1)},
                            {"grown", whole.clone().set_requires_grad(true)}});
  const auto loaded = load_safetensors(path());
  EXPECT_TRUE(at::equal(loaded.at("transposed"), whole.t()));
  EXPECT_TRUE(at::equal(loaded.at("part"), whole.narrow(0, 1, 1)));
  EXPECT_TRUE(at::equal(loaded.at("grown"), whole));
}

TEST_F(Safetensors, TheFileIsWhatTheFormatSays) {
  save_safetensors(path(), {{"a", at::tensor({1.0f, 2.0f})}, {"b", at::tensor({3.0f})}});
  std::ifstream file(path(), std::ios::binary);
  std::uint64_t length = 0;
  file.read(reinterpret_cast<char*>(&length), sizeof length);
  EXPECT_EQ(length % 8, 0u);
  std::string header(length, '\0');
  file.read(header.data(), static_cast<std::streamsize>(length));
  EXPECT_EQ(header.substr(0, header.find_last_not_of(' ') + 1),
            R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
            R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})");
  float data[3] = {};
  file.read(reinterpret_cast<char*>(data), sizeof data);
  EXPECT_EQ(data[0], 1.0f);
  EXPECT_EQ(data[1], 2.0f);
  EXPECT_EQ(data[2], 3.0f);
  EXPECT_EQ(file.peek(), EOF);
}

TEST_F(Safetensors, OthersFilesAreRead) {
  write(
      R"({"x":{"shape":[2,1],"dtype":"F32","data_offsets":[4,12]},"y":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
      12);
  const auto loaded = load_safetensors(path());
  EXPECT_EQ(loaded.at("x").sizes(), (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(loaded.at("y").sizes(), (std::vector<std::int64_t>{1}));
}

TEST_F(Safetensors, AMissingFileIsRefused) {
  EXPECT_EQ(refusal(), "'" + path() + "' cannot be read; give a run directory that training has finished");
}

TEST_F(Safetensors, AFolderIsRefused) {
  std::filesystem::create_directories(path());
  EXPECT_EQ(refusal().find("'" + path() + "' "), 0u) << refusal();
}

TEST_F(Safetensors, AFileThatEndsBeforeItsHeaderIsRefused) {
  const std::string sentence = "'" + path() + "' is not a safetensors file: its header does not fit";
  std::ofstream(path()) << "short";
  EXPECT_EQ(refusal(), sentence);
  std::ofstream(path(), std::ios::trunc).flush();
  EXPECT_EQ(refusal(), sentence);
  write("{}", 0, /*length=*/3);
  EXPECT_EQ(refusal(), sentence);
  write("{}", 0, ~std::uint64_t{0});
  EXPECT_EQ(refusal(), sentence);
}

TEST_F(Safetensors, AHeaderThatIsNotAnObjectIsRefused) {
  for (const char* header : {"{\"a\":", "hello", "[1, 2]", "", "{} {}"}) {
    write(header, 8);
    EXPECT_EQ(refusal(), "'" + path() + "' is not a safetensors file: its header is not JSON") << header;
  }
}

TEST_F(Safetensors, OtherTypesAreRefusedByName) {
  write(R"({"w":{"dtype":"BF16","shape":[4],"data_offsets":[0,8]}})", 8);
  EXPECT_EQ(refusal(), "'" + path() + "' holds 'w' as BF16; only F32 is read");
}

TEST_F(Safetensors, DataThatDoesNotFitTheShapeIsRefused) {
  write(R"({"w":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}})", 16);
  EXPECT_EQ(refusal(), damaged("w"));
  write(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8);
  EXPECT_EQ(refusal(), damaged("w"));
}

TEST_F(Safetensors, AFileCutShortIsRefused) {
  save_safetensors(path(), {{"first", at::ones({4})}, {"last", at::ones({4})}});
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 1);
  EXPECT_EQ(refusal(),
            "'" + path() + "' is damaged: its end is missing, as its tensors have 32 bytes and 31 are there");
}

// Whatever a header says, it is the file that is wrong, not the program.
TEST_F(Safetensors, AnyOtherDamageToTheHeaderIsRefused) {
  for (const char* entry :
       {R"("w":5)", R"("w":null)", R"("w":[1])", R"("w":{})",
        R"("w":{"dtype":7,"shape":[1],"data_offsets":[0,4]})", R"("w":{"dtype":"F32","data_offsets":[0,4]})",
        R"("w":{"dtype":"F32","shape":[1]})", R"("w":{"dtype":"F32","shape":"1","data_offsets":[0,4]})",
        R"("w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]})",
        R"("w":{"dtype":"F32","shape":[1],"data_offsets":["0","4"]})",
        R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0]})",
        R"("w":{"dtype":"F32","shape":[1000000000,1000000000],"data_offsets":[0,4]})",
        R"("w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})"}) {
    write("{" + std::string(entry) + "}", 4);
    EXPECT_EQ(refusal().find("'" + path() + "' "), 0u) << entry << " gives: " << refusal();
  }
}

// 2^64 - 4 to 2^64 - 0: the sum with where the data begins runs over, back into the file.
TEST_F(Safetensors, OffsetsBeyondTheFileAreRefused) {
  write(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551608,18446744073709551612]}})", 4);
  EXPECT_EQ(refusal(), "'" + path() +
                           "' is damaged: its end is missing, as its tensors have "
                           "18446744073709551612 bytes and 4 are there");
}

TEST_F(Safetensors, NothingIsLeftBesideTheFile) {
  save_safetensors(path(), {{"w", at::ones({4})}});
  save_safetensors(path(), {{"w", at::zeros({4})}});  // over the former one
  EXPECT_TRUE(at::equal(load_safetensors(path()).at("w"), at::zeros({4})));
  EXPECT_FALSE(std::filesystem::exists(path() + ".partial"));
}

TEST_F(Safetensors, AFailedWriteLeavesTheFormerFile) {
  save_safetensors(path(), {{"w", at::ones({4})}});
  std::filesystem::create_directory(path() + ".partial");  // so that it cannot be written
  try {
    save_safetensors(path(), {{"w", at::zeros({4})}});
    FAIL() << "wrote where it could not";
  } catch (const RunError& error) {
    EXPECT_EQ(error.what(), "'" + path() + ".partial' cannot be written: Is a directory");
  }
  EXPECT_TRUE(at::equal(load_safetensors(path()).at("w"), at::ones({4})));
}

TEST_F(Safetensors, AnInterruptedWriteLeavesTheFormerFile) {
  save_safetensors(path(), {{"w", at::ones({4})}});
  // The second tensor cannot be written as float32, which is noticed half way.
  EXPECT_ANY_THROW(save_safetensors(path(), {{"w", at::zeros({4})}, {"x", at::zeros({4}, at::kLong)}}));
  EXPECT_TRUE(at::equal(load_safetensors(path()).at("w"), at::ones({4})));
}

TEST_F(Safetensors, AFolderThatIsMissingIsReported) {
  EXPECT_THROW(save_safetensors(path("nowhere/model.safetensors"), {}), RunError);
}

}  // namespace
}  // namespace twobw::checkpoint
