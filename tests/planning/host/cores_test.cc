#include "planning/host/cores.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>

#include "core/base/error.h"

namespace twobw::device {
namespace {

std::string core(std::size_t index) {
  return std::to_string(available_cores()[index]);
}

std::string refusal(const std::string& text) {
  try {
    return "accepted as " + describe(parse_cores(text));
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(Cores, AreReadAsOneAListOrARange) {
  const std::vector<int> all = available_cores();
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(parse_cores("cpu:" + core(0)).cores, std::vector<int>{all[0]});
  EXPECT_EQ(parse_cores("cpu:" + core(0) + "-" + core(0)).cores, std::vector<int>{all[0]});
  if (all.size() < 2 || all[1] != all[0] + 1) GTEST_SKIP() << "needs two neighbouring cores";
  const std::vector<int> two = {all[0], all[1]};
  EXPECT_EQ(parse_cores("cpu:" + core(0) + "-" + core(1)).cores, two);
  EXPECT_EQ(parse_cores("cpu:" + core(0) + "," + core(1)).cores, two);
  EXPECT_EQ(describe(parse_cores("cpu:" + core(0) + "-" + core(1))), "cpu:" + core(0) + "," + core(1));
}

TEST(Cores, AnyOtherFormIsRefusedWithTheAllowedOnes) {
  const std::string sentence =
      "devices has 'gpu:0'; allowed: cpu:N, cpu:N-M or cpu:N,M,... with distinct cores this process may use";
  EXPECT_EQ(refusal("gpu:0").substr(0, sentence.size()), sentence);
  const std::string ok = core(0), last = std::to_string(available_cores().back());
  const std::string missing = std::to_string(available_cores().back() + 1);
  for (const std::string& text :
       {std::string(), std::string("cpu"), std::string("cpu:"), std::string("cpu:x"), "cpu:" + ok + ",",
        "cpu:," + ok, "cpu:" + ok + "-", "cpu:-" + ok, "cpu:" + ok + "-" + ok + "-" + ok, "cpu: " + ok, ok,
        std::string("cpu:99999999999"), "cpu:" + missing, "cpu:" + ok + "-" + missing,
        "cpu:" + missing + "-" + last, "cpu:" + ok + "," + missing + "-" + last, "cpu:" + ok + "," + ok}) {
    EXPECT_EQ(refusal(text).find("devices has '" + text + "'; allowed: "), 0u) << refusal(text);
  }
}

TEST(Cores, AreDealtOutEvenly) {
  const int total = static_cast<int>(available_cores().size());
  for (int count = 1; count <= total; ++count) {
    std::set<int> seen;
    for (const CoreSet& set : deal_cores(count)) {
      EXPECT_EQ(static_cast<int>(set.cores.size()), total / count);
      for (int core : set.cores) EXPECT_TRUE(seen.insert(core).second) << "core " << core << " dealt twice";
    }
  }
  EXPECT_EQ(deal_cores(1)[0].cores, available_cores());
}

TEST(Cores, AreSharedWhereThereAreTooFew) {
  const std::vector<int> all = available_cores();
  const auto sets = deal_cores(static_cast<int>(2 * all.size()));
  ASSERT_EQ(sets.size(), 2 * all.size());
  for (std::size_t i = 0; i < sets.size(); ++i)
    EXPECT_EQ(sets[i].cores, std::vector<int>{all[i % all.size()]});
}

TEST(Cores, AreNamedAsAConfigurationNamesThem) {
  const std::vector<int> all = available_cores();
  const std::vector<std::string> names = core_names();
  ASSERT_EQ(names.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(parse_cores(names[i]).cores, std::vector<int>{all[i]});
}

TEST(Cores, AThreadIsNamedAndBound) {
  const CoreSet set{{available_cores().back()}};
  std::thread([&] {
    pin_thread("stage 3 of very many", set);
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    EXPECT_STREQ(name, "stage 3 of very");  // the system allows 15 letters
    cpu_set_t bound;
    CPU_ZERO(&bound);
    ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof bound, &bound), 0);
    EXPECT_EQ(CPU_COUNT(&bound), 1);
    EXPECT_TRUE(CPU_ISSET(set.cores[0], &bound));
  }).join();
}

TEST(Cores, AThreadIsUnboundWhateverStartedIt) {
  const std::vector<int> all = available_cores();
  std::thread([&] {
    pin_thread("bound", {{all.back()}});
    std::thread([&] {
      EXPECT_EQ(available_cores(), std::vector<int>{all.back()});
      unbind_thread("free");
      EXPECT_EQ(available_cores(), all);
    }).join();
  }).join();
}

TEST(Cores, AnEmptySetBindsNothing) {
  std::thread([] {
    const std::vector<int> before = available_cores();
    pin_thread("free", {});
    EXPECT_EQ(available_cores(), before);
  }).join();
}

}  // namespace
}  // namespace twobw::device
