#include "planning/planner/costs/profile.h"

#include "tests/planning/planner/planner_testing.h"

namespace twobw::planner {
namespace {

KindTimes times(int microbatch, double seconds) {
  return {.microbatch = microbatch,
          .forward = {seconds, seconds / 7},
          .backward = {2.1 * seconds, seconds / 3},
          .recomputed_backward = {3.3 * seconds, 0},
          .saved_bytes = 1000.0 * microbatch,
          .output = 100.0 * microbatch,
          .working = 10.0 * microbatch};
}

Profile example() {
  Profile profile;
  profile.device = "cpu: 1 core of Neoverse-V1";
  profile.device_memory = 3.5 * 1024 * 1024 * 1024;
  profile.program = "0.1.0";
  profile.libtorch = "2.11.0";
  profile.created = "2025-01-01";
  profile.model = {.layers = 2,
                   .width = 32,
                   .heads = 4,
                   .vocab = 64,
                   .context = 16,
                   .dropout = 0.1,
                   .head = ModelHead::Classification,
                   .num_labels = 5,
                   .max_positions = 20,
                   .kv_heads = 2,
                   .head_size = 16,
                   .hidden = 80,
                   .token_types = 3,
                   .next_sentence = true,
                   .padding = false,
                   .reset_documents = true,
                   .qkv_bias = true};
  profile.precision = "fp32";
  profile.optimizer = "adamw";
  profile.kinds["embedding"] = {
      .parameters = 2560, .tied = 2048, .times = {times(1, 1e-5), times(4, 3.3e-5)}};
  profile.kinds["block"] = {.parameters = 12608, .tied = 0, .times = {times(1, 1.0 / 3), times(4, 1.25)}};
  profile.kinds["head"] = {.parameters = 2112, .tied = 2048, .times = {times(1, 2e-4), times(4, 7e-4)}};
  profile.layers = {"embedding", "block", "block", "head"};
  profile.tokens_per_sequence_bytes = 256;
  profile.step_per_parameter = {1.23456789e-9, 1e-11};
  profile.predict_per_parameter = {7.5e-10, 3e-12};
  profile.links["local"] = {.latency = 3e-6, .bandwidth = 1.0e10 / 3, .shared = true};
  return profile;
}

Profile reload(const std::string& text) {
  const TemporaryFile file(text);
  return load_profile(file.path());
}

// The sentence with the file's name taken out.
std::string refused(const std::string& text) {
  const TemporaryFile file(text);
  std::string sentence = refusal_of([&] { load_profile(file.path()); });
  const std::size_t at = sentence.find(file.path());
  return at == std::string::npos ? sentence : sentence.replace(at, file.path().size(), "p.json");
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in\n" << text;
  return text.replace(at, from.size(), to);
}

Config config_of(const Profile& profile) {
  Config config;
  config.model = profile.model;
  return config;
}

TEST(Profile, ReadsBackToTheLastBit) {
  const Profile profile = example();
  const std::string text = to_json(profile);
  const Profile back = reload(text);
  EXPECT_EQ(to_json(back), text);
  EXPECT_EQ(back.kinds.at("block").times[0].forward.median, 1.0 / 3);
  EXPECT_EQ(back.kinds.at("block").times[1].backward.spread, 1.25 / 3);
}

TEST(Profile, IsLaidOutForPeople) {
  const std::string text = to_json(example());
  EXPECT_EQ(text.find("{\n  \"version\": 7,\n  \"device\": \"cpu: 1 core of Neoverse-V1\",\n"), 0u) << text;
  EXPECT_NE(text.find("\n  \"layers\": [\"embedding\", \"block\", \"block\", \"head\"],\n"),
            std::string::npos)
      << text;
}

TEST(Profile, RefusesWhatIsNoProfile) {
  EXPECT_EQ(refused("{\n\"version\": 1,\n oops"),
            "profile 'p.json' is not JSON in UTF-8: line 3 cannot be read");
  EXPECT_EQ(refused(""), "profile 'p.json' is not JSON in UTF-8: line 1 cannot be read");
  EXPECT_EQ(refused("[1]"), "profile 'p.json' holds a list; it must be an object");
  EXPECT_EQ(refused("{}"), "profile 'p.json' lacks the field version; `twobw profile` writes all of them");
  EXPECT_EQ(refusal_of([] { load_profile("nowhere.json"); }),
            "profile 'nowhere.json' cannot be read: No such file or directory");
}

TEST(Profile, RefusesAnotherVersion) {
  EXPECT_EQ(refused("{\"version\": 6}"),
            "profile 'p.json' is of version 6; this program reads version 7, so make it again with `twobw "
            "profile`");
}

TEST(Profile, NamesTheFieldThatIsMissingOrWrong) {
  const std::string text = to_json(example());
  EXPECT_EQ(refused(with(text, "\"libtorch\"", "\"libtroch\"")),
            "profile 'p.json' lacks the field libtorch; `twobw profile` writes all of them");
  EXPECT_EQ(
      refused(with(text, "\"predict_seconds_per_parameter\"", "\"predict_seconds\"")),
      "profile 'p.json' lacks the field predict_seconds_per_parameter; `twobw profile` writes all of them");
  EXPECT_EQ(refused(with(text, "\"saved_bytes\"", "\"stash\"")),
            "profile 'p.json' lacks the field kinds.block.times[0].saved_bytes; `twobw profile` writes all "
            "of them");
  EXPECT_EQ(refused(with(text, "\"saved_bytes\": 1000", "\"saved_bytes\": -1")),
            "profile 'p.json' has kinds.block.times[0].saved_bytes = -1; it must be a number of at least 0");
  EXPECT_EQ(refused(with(text, "\"microbatch\": 4", "\"microbatch\": 1")),
            "profile 'p.json' has kinds.block.times[1].microbatch = 1; it must be more than the 1 before it");
  EXPECT_EQ(refused(with(text, "[\"embedding\", \"block\"", "[\"embedding\", \"blok\"")),
            "profile 'p.json' has layers[1] = \"blok\"; it must be one of the kinds in this profile");
  EXPECT_EQ(refused(with(text, "\"classification\"", "\"unknown\"")),
            "profile 'p.json' has model.head = \"unknown\"; it must be a head of a model");
  EXPECT_EQ(refused(with(text, "3333333333.3333335", "0")),
            "profile 'p.json' has links.local.bandwidth_bytes_per_second = 0; it must be a number above 0");
}

TEST(Profile, OfAnotherModelNamesTheFirstKeyThatDiffers) {
  const Profile profile = example();
  const auto complaint = [&](auto change) {
    Config config = config_of(profile);
    change(config);
    return refusal_of([&] { check_matches(profile, config, profile.layers); });
  };
  EXPECT_EQ(complaint([](Config&) {}), "not refused");
  EXPECT_EQ(complaint([](Config& config) { config.model.layers = 96; }), "not refused");
  EXPECT_EQ(complaint([](Config& config) {
              config.model.width = 64;
              config.model.vocab = 7;
            }),
            "the profile is of another model: model.width was 32, and the configuration has 64; make one "
            "with `twobw "
            "profile`");
  EXPECT_NE(complaint([](Config& config) { config.optimizer.name = "sgd"; }).find("optimizer.name was adamw"),
            std::string::npos);
  EXPECT_EQ(refusal_of([&] {
              check_matches(profile, config_of(profile), {"embedding", "mixer"});
            }),
            "the profile has no layer of kind 'mixer', which the model needs; it has block, embedding, head");
}

TEST(Profile, GivesCostsForAnyNumberOfBlocks) {
  const Profile profile = example();
  const std::vector<std::string> kinds = {"embedding", "block", "block", "block", "head"};
  const CostTable table = costs_of(profile, kinds);
  EXPECT_FALSE(table.modelled);
  EXPECT_EQ(table.step_per_parameter, 1.23456789e-9);
  EXPECT_EQ(table.predict_per_parameter, 7.5e-10);
  ASSERT_EQ(table.columns.size(), 2u);
  EXPECT_EQ(table.columns[1].microbatch, 4);
  EXPECT_EQ(table.columns[1].tokens, 4 * 256);
  ASSERT_EQ(table.columns[1].layers.size(), 5u);
  EXPECT_EQ(table.columns[1].layers[3].forward, 1.25);
  EXPECT_EQ(table.columns[1].layers[3].backward, 2.1 * 1.25);
  EXPECT_EQ(table.columns[1].layers[3].saved_bytes, 4000);
  EXPECT_EQ(table.columns[0].layers[4].output, 100);
  EXPECT_EQ(table.columns[0].layers[4].working, 10);

  const CostTable twice = costs_of(profile, kinds, 2);
  EXPECT_EQ(twice.columns[1].layers[3].forward, 1.25 / 2);
  EXPECT_EQ(twice.columns[1].layers[3].backward, 2.1 * 1.25 / 2);
  EXPECT_EQ(twice.step_per_parameter, 1.23456789e-9 / 2);
  EXPECT_EQ(twice.predict_per_parameter, 7.5e-10 / 2);
  EXPECT_EQ(twice.columns[1].layers[3].saved_bytes, 4000);
}

}  // namespace
}  // namespace twobw::planner
