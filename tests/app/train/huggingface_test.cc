// Round trips of Hugging Face folders: every bit as it was, however the files and stages are cut. The names
// of tensors are tested against transformers (tests/python/huggingface_test.py).
#include "app/train/model_files.h"

#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "engine/checkpoint/pretrained.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/models/model.h"
#include "engine/weights/double_buffer.h"
#include "planning/architecture/huggingface/model_config.h"

namespace twobw::train {
namespace {

using at::Tensor;
using checkpoint::NamedTensor;
using checkpoint::TensorFolder;

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         std::memcmp(a.const_data_ptr(), b.const_data_ptr(), a.nbytes()) == 0;
}

class HuggingFace : public testing::Test {
 protected:
  HuggingFace() : folder_(testing::TempDir() + "twobw_export_test_" + std::to_string(getpid())) {}
  ~HuggingFace() override { std::filesystem::remove_all(folder_); }

  std::string in(const std::string& name) const { return folder_ + "/" + name; }

  // Trained on nothing: random weights, in shards of `limit` bytes.
  std::string save_source(const std::vector<std::string>& more,
                          std::uint64_t limit = checkpoint::kShardBytes) const {
    std::vector<std::string> settings = {"model.layers=2", "model.width=12", "model.heads=3",
                                         "model.vocab=17", "model.context=8"};
    settings.insert(settings.end(), more.begin(), more.end());
    const Config config = load_config("", settings);
    const weights::Layout layout(models::build(config.model).layers, 0, models::build(config.model).size());
    auto generator = at::detail::createCPUGenerator(3);
    const Tensor flat = at::empty({layout.size()}, at::kFloat).normal_(0, 1, generator);
    std::filesystem::remove_all(in("source"));
    checkpoint::write_model(in("source"), stored(config, layout, flat), model_files(config, in("source")),
                            at::kFloat, limit);
    return in("source");
  }

  Config load(const std::string& source) const {
    return architecture::huggingface::load_run_config("", {"model.from=" + source});
  }

  static std::vector<NamedTensor> stored(const Config& config, const weights::Layout& layout,
                                         const Tensor& flat) {
    std::vector<NamedTensor> tensors;
    for (const weights::Parameter& parameter : layout.parameters()) {
      if (!parameter.spec.tied_to.empty()) continue;
      const Tensor ours = flat.narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape);
      const auto theirs = checkpoint::to_stored(config.model, parameter.spec, ours);
      tensors.insert(tensors.end(), theirs.begin(), theirs.end());
    }
    return tensors;
  }

  // The model folder of a run without updates, whose stages begin at `cuts`.
  std::string save_run(const Config& config, const std::vector<int>& cuts) const {
    const models::Model model = models::build(config.model);
    std::filesystem::remove_all(in("run"));
    std::filesystem::create_directories(in("run/from"));
    std::filesystem::copy_file(in("source/config.json"), in("run/from/config.json"));
    std::vector<NamedTensor> tensors;
    for (std::size_t stage = 0; stage < cuts.size(); ++stage) {
      const int last = stage + 1 < cuts.size() ? cuts[stage + 1] : model.size();
      const weights::Layout layout(model.layers, cuts[stage], last);
      const Tensor flat = at::zeros({layout.size()}, at::kFloat);
      weights::initialize(layout, flat, config);
      const auto part = stored(config, layout, flat);
      tensors.insert(tensors.end(), part.begin(), part.end());
    }
    checkpoint::write_model(in("run/model"), tensors, model_files(config, in("run/from")));
    return in("run");
  }

  std::string folder_;
};

const std::vector<std::string> kClasses = {"model.head=classification", "model.num_labels=3"};

std::vector<std::vector<std::string>> every_model() {
  return {{"model.family=gpt"},
          {"model.family=gpt", "model.tied=false"},
          {"model.family=gpt", kClasses[0], kClasses[1]},
          {"model.family=llama", "model.kv_heads=1", "model.tied=false"},
          {"model.family=llama", "model.kv_heads=1", "model.qkv_bias=true"},
          {"model.family=llama", "model.kv_heads=1", "model.qk_norm=true", "model.head=regression"},
          {"model.family=bert"},
          {"model.family=bert", "model.tied=false"},
          {"model.family=bert", kClasses[0], kClasses[1]}};
}

TEST_F(HuggingFace, InAndOutAgainIsTheSame) {
  for (const auto& settings : every_model()) {
    SCOPED_TRACE(settings[0] + " " + settings.back());
    for (const std::uint64_t limit : {std::uint64_t{1000}, checkpoint::kShardBytes}) {
      const std::string source = save_source(settings, limit);
      for (const std::vector<int>& cuts : {std::vector<int>{0}, std::vector<int>{0, 3, 8}}) {
        std::filesystem::remove_all(in("out"));
        export_model({.from = save_run(load(source), cuts), .folder = in("out"), .shard_bytes = limit});
        const TensorFolder before(source), after(in("out"));
        EXPECT_EQ(before.names(), after.names());
        for (const std::string& name : before.names())
          EXPECT_TRUE(same_bits(before.view(name), after.view(name))) << name;
        EXPECT_EQ(to_yaml({.model = architecture::huggingface::read_model(in("out")).model}),
                  to_yaml({.model = architecture::huggingface::read_model(source).model}));
      }
    }
  }
}

}  // namespace
}  // namespace twobw::train
