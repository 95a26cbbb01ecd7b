// Files of others: read tensor by tensor, in any of three number formats, and not trusted.
#include "engine/checkpoint/tensor_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "core/base/error.h"
#include "engine/checkpoint/sharded.h"

namespace twobw::checkpoint {
namespace {

using at::Tensor;

class Folder : public testing::Test {
 protected:
  Folder() : folder_(testing::TempDir() + "twobw_tensor_folder_test_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~Folder() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  // As the format has it: the header's length, the header and zeros.
  void write_tensors(const std::string& name, const std::string& header, std::size_t data) const {
    std::uint64_t length = header.size();
    std::string text(reinterpret_cast<const char*>(&length), sizeof length);
    write(name, text + header + std::string(data, '\0'));
  }

  std::string refusal() const {
    try {
      TensorFolder folder(folder_);
      for (const std::string& name : folder.names()) folder.view(name);
    } catch (const InputError& error) {
      return error.what();
    } catch (const std::exception& error) {
      return std::string("not an InputError: ") + error.what();
    }
    return "accepted";
  }

  std::string folder_;
};

// Numbers that all three formats hold.
std::vector<NamedTensor> some_tensors() {
  return {{"a", at::arange(6, at::kFloat).view({2, 3}) / 4},
          {"b", at::arange(-4, 4, at::kFloat)},
          {"c", at::full({3}, -0.5, at::kFloat)}};
}

TEST_F(Folder, HoldsWhatWasSavedInAnyFormatAndInAnyNumberOfFiles) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const std::uint64_t limit : {std::uint64_t{1}, std::uint64_t{30}, kShardBytes}) {
      std::filesystem::remove_all(folder_);
      std::filesystem::create_directories(folder_);
      save_sharded(folder_, some_tensors(), type, limit);
      EXPECT_EQ(std::filesystem::exists(path("model.safetensors")), limit == kShardBytes);
      EXPECT_EQ(std::filesystem::exists(path("model.safetensors.index.json")), limit != kShardBytes);
      const TensorFolder folder(folder_);
      EXPECT_EQ(folder.names(), (std::vector<std::string>{"a", "b", "c"}));
      for (const NamedTensor& entry : some_tensors()) {
        EXPECT_EQ(folder.find(entry.name)->shape, entry.tensor.sizes().vec());
        EXPECT_EQ(folder.view(entry.name).scalar_type(), type);
        EXPECT_TRUE(at::equal(folder.view(entry.name).to(at::kFloat), entry.tensor)) << entry.name;
      }
      EXPECT_EQ(folder.find("d"), nullptr);
    }
  }
}

// Data that begins at an odd byte.
TEST_F(Folder, TensorsNeedNotBeAligned) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})";
  const float values[2] = {1.5F, -2.0F};
  std::string data(9, '\0');
  std::memcpy(data.data() + 1, values, sizeof values);
  const std::uint64_t length = header.size();
  write("model.safetensors",
        std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + data);
  EXPECT_TRUE(at::equal(TensorFolder(folder_).view("w"), at::tensor({1.5F, -2.0F})));
}

TEST_F(Folder, WithoutWeightsIsRefused) {
  EXPECT_EQ(
      refusal(),
      "'" + folder_ + "' holds no weights: it must have model.safetensors or model.safetensors.index.json");
}

TEST_F(Folder, WithWeightsThatArePickledIsRefused) {
  for (const std::string name : {"pytorch_model.bin.index.json", "pytorch_model.bin"}) {
    write(name, "");
    EXPECT_EQ(refusal(), "'" + folder_ + "' holds its weights as " + name +
                             ", which is not read; it must have model.safetensors or "
                             "model.safetensors.index.json");
  }
}

// A pipe that nobody writes to is not waited for.
TEST_F(Folder, WithWhatIsNoFileIsRefused) {
  const std::string sentence = "'" + path("model.safetensors") + "' cannot be read: not a regular file";
  ASSERT_EQ(mkfifo(path("model.safetensors").c_str(), 0600), 0);
  EXPECT_EQ(refusal(), sentence);
  std::filesystem::remove(path("model.safetensors"));
  std::filesystem::create_directory(path("model.safetensors"));
  EXPECT_EQ(refusal(), sentence);
}

TEST_F(Folder, HeadersAreNotTrusted) {
  const std::string file = "'" + path("model.safetensors") + "' ";
  const auto refused = [&](const std::string& header, std::size_t data) {
    write_tensors("model.safetensors", header, data);
    return refusal();
  };
  EXPECT_EQ(refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                    12),
            file + "is damaged: the data of 'a' and 'b' overlap");
  EXPECT_EQ(refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                    R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                    8),
            file + "is not a safetensors file: its header has 'a' twice");
  EXPECT_EQ(refused(R"({"a":{"dtype":"F32","shape":[[[1]]],"data_offsets":[0,4]}})", 4),
            file + "is not a safetensors file: its header is nested too deep");
  EXPECT_EQ(refused(R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,8]}})", 8),
            file + "is damaged: the data of 'a' does not fit its shape");
  EXPECT_EQ(refused(R"({"a":{"dtype":"F32","shape":[2305843009213693952,8],"data_offsets":[0,0]}})", 0),
            file + "is damaged: the data of 'a' does not fit its shape");
  EXPECT_EQ(refused(R"({"a":{"dtype":"F7","shape":[1],"data_offsets":[0,1]}})", 1),
            file + "holds 'a' as F7, which is no type of the format");
  EXPECT_EQ(refused(R"({"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})", 8),
            file + "holds 'a' as I32; F32, BF16, F16 and I64 are read");
  const char* const two = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(refused(two, 5),
            file + "is damaged: its end is missing, as its tensors have 8 bytes and 5 are there");
  EXPECT_EQ(refused(two, 9),
            file + "is damaged: something follows its end, as its tensors have 8 bytes and 9 are there");
  EXPECT_EQ(refused("{}", 1),
            file + "is damaged: something follows its end, as its tensors have 0 bytes and 1 are there");
  EXPECT_EQ(refused(two, 8), "accepted");
  EXPECT_EQ(
      refused(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,)"
              R"(18446744073709551615]}})",
              1),
      file +
          "is damaged: its end is missing, as its tensors have 18446744073709551615 bytes and 1 are there");
  write("model.safetensors", std::string(8, '\xff') + "{}");
  EXPECT_EQ(refusal(), file + "is not a safetensors file: its header does not fit");
  // Cut off at every byte.
  save_sharded(folder_, some_tensors(), at::kFloat);
  std::ifstream whole(path("model.safetensors"), std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(whole), {});
  for (std::size_t size = 0; size < text.size(); ++size) {
    write("model.safetensors", text.substr(0, size));
    EXPECT_EQ(refusal().find(file + "is "), 0U) << size << refusal();
  }
}

// Whatever is in the files, they are read or refused in one sentence.
TEST_F(Folder, FlippedBytesAreReadOrRefused) {
  std::mt19937 random(7);
  for (const std::uint64_t limit : {std::uint64_t{1}, kShardBytes}) {
    save_sharded(folder_, some_tensors(), at::kHalf, limit);
    const std::string name = limit == 1 ? "model.safetensors.index.json" : "model.safetensors";
    std::ifstream whole(path(name), std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(whole), {});
    for (int round = 0; round < 1000; ++round) {
      std::string damaged = text;
      for (int i = 0; i <= round % 3; ++i)
        damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 127);
      write(name, damaged);
      EXPECT_EQ(refusal().find("not an InputError"), std::string::npos) << refusal() << damaged;
    }
    std::filesystem::remove(path(name));
  }
}

TEST_F(Folder, IndexesAreNotTrusted) {
  const std::string index = "'" + path("model.safetensors.index.json") + "' ";
  const auto refused = [&](const std::string& text) {
    write("model.safetensors.index.json", text);
    return refusal();
  };
  write_tensors("x.safetensors", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4);
  write_tensors("y.safetensors",
                R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                8);
  EXPECT_EQ(refused("{"), index + "is not JSON");
  EXPECT_EQ(refused("[]"), index + "has no weight_map; it must say which file holds which tensor");
  EXPECT_EQ(refused(R"({"weight_map":{"a":5}})"), index + "names no file for 'a'");
  EXPECT_EQ(refused(R"({"weight_map":{"a":"../x.safetensors"}})"),
            index +
                "names the file '../x.safetensors'; it must be a .safetensors file of the same folder, "
                "without control characters");
  EXPECT_EQ(refused(R"({"weight_map":{"a":"x\n.safetensors"}})"),
            index +
                "names the file 'x .safetensors'; it must be a .safetensors file of the same folder, without "
                "control characters");
  EXPECT_EQ(refused(R"({"weight_map":{"a":"z.safetensors"}})"),
            "'" + path("z.safetensors") + "' cannot be read: No such file or directory");
  EXPECT_EQ(refused(R"({"weight_map":{"c":"x.safetensors"}})"),
            index + "says that 'x.safetensors' holds 'c', which it does not");
  EXPECT_EQ(refused(R"({"weight_map":{"a":"y.safetensors"}})"),
            index + "does not list 'b', which 'y.safetensors' holds");
  EXPECT_EQ(refused(R"({"weight_map":{"a":"x.safetensors","b":"y.safetensors"}})"),
            index + "has 'a' in 'x.safetensors', and 'y.safetensors' holds it too; it must be in one file");
}

}  // namespace
}  // namespace twobw::checkpoint
