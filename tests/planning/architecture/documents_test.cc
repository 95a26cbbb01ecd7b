// Which layers tell documents apart, and where they cannot.
#include "planning/architecture/documents.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "planning/architecture/families.h"

namespace twobw::architecture {
namespace {
namespace documents {

std::string refused(const ModelConfig& config) {
  try {
    model_of(config);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

ModelConfig resetting(const std::string& family) {
  return {.family = family, .layers = 2, .reset_documents = true};
}

TEST(DescribedDocuments, AreToldApartByEveryAttentionAndByLearnedPositions) {
  for (const char* family : {"gpt", "llama"}) {
    for (const Layer& layer : model_of(resetting(family))) {
      const bool learned = family == std::string("gpt") && layer.kind == "embedding";
      EXPECT_EQ(layer.takes.has(Field::Positions), learned || layer.kind == "attention_out") << layer.kind;
    }
    ModelConfig plain = resetting(family);
    plain.reset_documents = false;
    const Model model = model_of(plain);
    EXPECT_FALSE(taken_by(model, 0, static_cast<int>(model.size())).has(Field::Positions));
  }
}

TEST(DescribedDocuments, AreRefusedWhereTheyCannotBeToldApart) {
  EXPECT_EQ(refused(resetting("gpt")), "");
  EXPECT_EQ(refused(resetting("bert")),
            "model.reset_documents is true; it must be false where model.family is bert");
  ModelConfig classifier = resetting("gpt");
  classifier.head = ModelHead::Classification;
  EXPECT_EQ(refused(classifier),
            "model.reset_documents is true; it must be false where model.head is classification, as a "
            "sequence is one document");
  ModelConfig scaled = resetting("llama");
  scaled.rope_original_context = 64;
  scaled.rope_scaling = "llama3";
  EXPECT_EQ(refused(scaled), "");
  scaled.rope_scaling = "dynamic";
  EXPECT_EQ(refused(scaled),
            "model.reset_documents is true; it must be false where model.rope_scaling is dynamic");
}

}  // namespace documents
}  // namespace
}  // namespace twobw::architecture
