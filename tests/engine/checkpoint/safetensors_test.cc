// Tensors written as they are, and files of others: read in three number formats, and not trusted.
#include "engine/checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <limits>

#include "core/base/error.h"
#include "tests/engine/checkpoint/testing.h"
#include "tests/support/refusal.h"

namespace twobw::checkpoint {
namespace {

using at::Tensor;
using testing_files::read_bytes;
using testing_files::write_bytes;

class Safetensors : public testing::Test {
 protected:
  std::string path(const std::string& name = "model.safetensors") const { return temporary_.path(name); }

  // Writes a file as the format has it: the header's length, the header, and `data`.
  void write(const std::string& header, const std::string& data,
             const std::string& name = "model.safetensors") const {
    write_length(header.size(), header + data, name);
  }
  void write_length(std::uint64_t length, const std::string& rest,
                    const std::string& name = "model.safetensors") const {
    write_bytes(path(name), std::string(reinterpret_cast<const char*>(&length), sizeof length) + rest);
  }

  // The sentence of the error.
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
  std::string refusal(const std::string& header, std::size_t data) const {
    write(header, std::string(data, '\0'));
    return refusal();
  }

  testing_files::TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path(".");
  const std::string file_ = "'" + folder_ + "/model.safetensors' ";
};

// Numbers that all three formats hold.
std::vector<NamedTensor> some_tensors() {
  return {{"a", at::arange(6, at::kFloat).view({2, 3}) / 4},
          {"b", at::arange(-4, 4, at::kFloat)},
          {"c", at::full({3}, -0.5, at::kFloat)}};
}

TEST_F(Safetensors, ComeBackAsTheyWere) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<NamedTensor> saved = {{"matrix", at::arange(6, at::kFloat).view({2, 3})},
                                          {"bias", at::tensor({-0.0f, 1e-45f, 3.4e38f})},
                                          {"odd", at::tensor({nan})},
                                          {"scalar", at::full({}, 7.0)},
                                          {"empty", at::empty({4, 0})}};
  save_safetensors(path(), saved);
  const TensorFile loaded(path());
  ASSERT_EQ(loaded.tensors().size(), saved.size());
  for (const NamedTensor& entry : saved) {
    const Tensor back = loaded.view(entry.name);
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
  const TensorFile loaded(path());
  EXPECT_TRUE(at::equal(loaded.view("transposed"), whole.t()));
  EXPECT_TRUE(at::equal(loaded.view("part"), whole.narrow(0, 1, 1)));
  EXPECT_TRUE(at::equal(loaded.view("grown"), whole));
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

TEST_F(Safetensors, FoldersHoldEveryFormatInAnyNumberOfFiles) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const std::uint64_t limit : {std::uint64_t{1}, std::uint64_t{30}, kShardBytes}) {
      std::filesystem::remove(path("model.safetensors"));
      std::filesystem::remove(path("model.safetensors.index.json"));
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

TEST_F(Safetensors, WholeNumbersKeepTheirType) {
  const Tensor whole = at::arange(3, at::kLong);
  save_safetensors(path(), {{"whole", whole}, {"half", at::ones({2})}}, at::kHalf);
  EXPECT_TRUE(at::equal(TensorFile(path()).view("whole"), whole));
  EXPECT_EQ(TensorFile(path()).view("half").scalar_type(), at::kHalf);
  save_safetensors(path(), {{"double", at::ones({2}, at::kDouble)}}, std::nullopt);
  EXPECT_EQ(TensorFile(path()).tensors().at("double").dtype, "F64");
}

TEST_F(Safetensors, AViewOutlivesItsFile) {
  save_safetensors(path(), {{"w", at::ones({4})}});
  const Tensor view = TensorFile(path()).view("w");
  EXPECT_TRUE(at::equal(view, at::ones({4})));
}

// Data that begins at an odd byte.
TEST_F(Safetensors, TensorsNeedNotBeAligned) {
  const std::string header = R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})";
  const float values[2] = {1.5F, -2.0F};
  std::string data(9, '\0');
  std::memcpy(data.data() + 1, values, sizeof values);
  write(header, data);
  EXPECT_TRUE(at::equal(TensorFolder(folder_).view("w"), at::tensor({1.5F, -2.0F})));
}

TEST_F(Safetensors, AFolderWithoutWeightsIsRefused) {
  EXPECT_EQ(
      refusal(),
      "'" + folder_ + "' holds no weights: it must have model.safetensors or model.safetensors.index.json");
}

TEST_F(Safetensors, PickledWeightsAreRefused) {
  for (const std::string name : {"pytorch_model.bin.index.json", "pytorch_model.bin"}) {
    write_bytes(path(name), "");
    EXPECT_EQ(refusal(), "'" + folder_ + "' holds its weights as " + name +
                             ", which is not read; it must have model.safetensors or "
                             "model.safetensors.index.json");
  }
}

// Opening a pipe without a writer must not block.
TEST_F(Safetensors, APipeAndAFolderAreRefused) {
  const std::string sentence = file_ + "cannot be read: not a regular file";
  ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(refusal(), sentence);
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  EXPECT_EQ(refusal(), sentence);
}

TEST_F(Safetensors, AHeaderThatDoesNotFitIsRefused) {
  const std::string sentence = file_ + "is not a safetensors file: its header does not fit";
  for (const std::string text : {"short", ""}) {
    write_bytes(path(), text);
    EXPECT_EQ(refusal(), sentence);
  }
  for (const std::uint64_t length : {std::uint64_t{3}, ~std::uint64_t{0}}) {
    write_length(length, "{}");
    EXPECT_EQ(refusal(), sentence);
  }
}

TEST_F(Safetensors, AHeaderThatIsNotAnObjectIsRefused) {
  for (const char* header : {"{\"a\":", "hello", "[1, 2]", "", "{} {}"})
    EXPECT_EQ(refusal(header, 8), file_ + "is not a safetensors file: its header is not JSON") << header;
}

TEST_F(Safetensors, HeadersAreNotTrusted) {
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                    R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
                    12),
            file_ + "is damaged: the data of 'a' and 'b' overlap");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                    R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                    8),
            file_ + "is not a safetensors file: its header has 'a' twice");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[[[1]]],"data_offsets":[0,4]}})", 4),
            file_ + "is not a safetensors file: its header is nested too deep");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"BF16","shape":[2],"data_offsets":[0,8]}})", 8),
            file_ + "is damaged: the data of 'a' does not fit its shape");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
            file_ + "is damaged: the data of 'a' does not fit its shape");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F32","shape":[2305843009213693952,8],"data_offsets":[0,0]}})", 0),
            file_ + "is damaged: the data of 'a' does not fit its shape");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"F7","shape":[1],"data_offsets":[0,1]}})", 1),
            file_ + "holds 'a' as F7, which is not a type of the format");
  EXPECT_EQ(refusal(R"({"a":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})", 8),
            file_ + "holds 'a' as I32; F32, BF16, F16 and I64 are read");
  const char* const two = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(refusal(two, 5),
            file_ + "is damaged: its end is missing, as its tensors have 8 bytes and 5 are there");
  EXPECT_EQ(refusal(two, 9),
            file_ + "is damaged: something follows its end, as its tensors have 8 bytes and 9 are there");
  EXPECT_EQ(refusal("{}", 1),
            file_ + "is damaged: something follows its end, as its tensors have 0 bytes and 1 are there");
  EXPECT_EQ(refusal(two, 8), "accepted");
  EXPECT_EQ(
      refusal(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,)"
              R"(18446744073709551615]}})",
              1),
      file_ +
          "is damaged: its end is missing, as its tensors have 18446744073709551615 bytes and 1 are there");
  // Cut off at every byte.
  save_sharded(folder_, some_tensors(), at::kFloat);
  const std::string text = read_bytes(path());
  for (std::size_t size = 0; size < text.size(); ++size) {
    write_bytes(path(), text.substr(0, size));
    EXPECT_EQ(refusal().find(file_ + "is "), 0U) << size << refusal();
  }
}

TEST_F(Safetensors, IndexesAreNotTrusted) {
  const std::string index = "'" + folder_ + "/model.safetensors.index.json' ";
  const auto refused = [&](const std::string& text) {
    write_bytes(path("model.safetensors.index.json"), text);
    return refusal();
  };
  write(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", std::string(4, '\0'), "x.safetensors");
  write(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
        R"("b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
        std::string(8, '\0'), "y.safetensors");
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
            "'" + folder_ + "/z.safetensors' cannot be read: No such file or directory");
  EXPECT_EQ(refused(R"({"weight_map":{"c":"x.safetensors"}})"),
            index + "says that 'x.safetensors' holds 'c', which it does not");
  EXPECT_EQ(refused(R"({"weight_map":{"a":"y.safetensors"}})"),
            index + "does not list 'b', which 'y.safetensors' holds");
  EXPECT_EQ(refused(R"({"weight_map":{"a":"x.safetensors","b":"y.safetensors"}})"),
            index + "has 'a' in 'x.safetensors', and 'y.safetensors' holds it too; it must be in one file");
}

TEST_F(Safetensors, NothingIsLeftBesideTheFile) {
  save_safetensors(path(), {{"w", at::ones({4})}});
  save_safetensors(path(), {{"w", at::zeros({4})}});  // over the former one
  EXPECT_TRUE(at::equal(TensorFile(path()).view("w"), at::zeros({4})));
  EXPECT_FALSE(std::filesystem::exists(path() + ".partial"));
}

TEST_F(Safetensors, AFailedWriteLeavesTheFormerFile) {
  save_safetensors(path(), {{"w", at::ones({4})}});
  std::filesystem::create_directory(path() + ".partial");  // so that it cannot be written
  EXPECT_EQ(error_of<RunError>([&] {
              save_safetensors(path(), {{"w", at::zeros({4})}});
            }),
            "'" + path() + ".partial' cannot be written: Is a directory");
  EXPECT_TRUE(at::equal(TensorFile(path()).view("w"), at::ones({4})));
}

}  // namespace
}  // namespace twobw::checkpoint
