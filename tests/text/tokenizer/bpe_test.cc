#include "text/tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace twobw::tokenizer {
namespace {

struct Rule {
  std::uint32_t rank;
  Id merged;
};
using Rules = std::map<std::pair<Id, Id>, Rule>;

// By the definition: look at all pairs, merge the best, look again.
std::vector<Id> merged_by_definition(const Rules& rules, std::vector<Id> ids) {
  for (;;) {
    std::size_t best = ids.size();
    std::uint32_t rank = ~0u;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rule = rules.find({ids[i], ids[i + 1]});
      if (rule != rules.end() && rule->second.rank < rank) {
        rank = rule->second.rank;
        best = i;
      }
    }
    if (best == ids.size()) return ids;
    ids[best] = rules.at({ids[best], ids[best + 1]}).merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(Bpe, MergesAsTheDefinitionSays) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 300; ++trial) {
    const Id letters = 2 + static_cast<Id>(random() % 4);
    const std::size_t count = 1 + random() % 60;
    Rules rules;
    MergeTable table(count);
    Id next = letters;
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      const std::pair<Id, Id> pair{static_cast<Id>(random() % static_cast<std::uint32_t>(next)),
                                   static_cast<Id>(random() % static_cast<std::uint32_t>(next))};
      if (rules.contains(pair)) continue;
      rules[pair] = {rank, next};
      table.add(pair.first, pair.second, rank, next);
      ++next;
    }
    for (const std::size_t length : {0u, 1u, 2u, 7u, 47u, 48u, 49u, 50u, 300u}) {
      std::vector<Id> ids(length);
      for (Id& id : ids) id = static_cast<Id>(random() % static_cast<std::uint32_t>(letters));
      const std::vector<Id> expected = merged_by_definition(rules, ids);
      merge_word(table, ids);
      ASSERT_EQ(ids, expected) << "trial " << trial << ", length " << length;
    }
  }
}

TEST(Bpe, ALongWordTakesNoQuadraticTime) {
  MergeTable table(20);
  for (Id id = 0; id < 20; ++id) table.add(id, id, static_cast<std::uint32_t>(id), id + 1);
  std::vector<Id> ids(std::size_t{1} << 20, 0);
  merge_word(table, ids);
  EXPECT_EQ(ids, std::vector<Id>{20});
}

TEST(Bpe, BytesWithoutATokenAreUnknownOrDropped) {
  ByteIds bytes{.ids = {}, .unknown = std::nullopt};
  bytes.ids.fill(ByteIds::kNone);
  bytes.ids['a'] = 7;
  EXPECT_EQ(bytes("axxa"), (std::vector<Id>{7, 7}));
  bytes.unknown = 1;
  EXPECT_EQ(bytes("axxa"), (std::vector<Id>{7, 1, 1, 7}));
  bytes.fuse_unknown = true;
  EXPECT_EQ(bytes("axxax"), (std::vector<Id>{7, 1, 7, 1}));
}

}  // namespace
}  // namespace twobw::tokenizer
