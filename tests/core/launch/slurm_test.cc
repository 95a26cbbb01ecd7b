#include "core/launch/slurm.h"

#include <gtest/gtest.h>

#include "core/base/error.h"

namespace twobw::launch {
namespace {

using Hosts = std::vector<std::string>;

Hosts hosts(const char* list) {
  return expand_hosts(list, "LIST");
}

TEST(Slurm, Hosts) {
  EXPECT_EQ(hosts("node1"), Hosts{"node1"});
  EXPECT_EQ(hosts("node1,login"), (Hosts{"node1", "login"}));
  EXPECT_EQ(hosts("node[03-05,9]"), (Hosts{"node03", "node04", "node05", "node9"}));
  EXPECT_EQ(hosts("node[8-11]"), (Hosts{"node8", "node9", "node10", "node11"}));
  EXPECT_EQ(hosts("node[098-101]-ib"), (Hosts{"node098-ib", "node099-ib", "node100-ib", "node101-ib"}));
  EXPECT_EQ(hosts("a[1-2,4],b,c[0]"), (Hosts{"a1", "a2", "a4", "b", "c0"}));
  EXPECT_EQ(hosts("gpu-a-3,gpu-b-[1-2]"), (Hosts{"gpu-a-3", "gpu-b-1", "gpu-b-2"}));
}

TEST(Slurm, SeveralBracketsInOneName) {
  EXPECT_EQ(hosts("r[0-1]n[08-09],x"), (Hosts{"r0n08", "r0n09", "r1n08", "r1n09", "x"}));
}

TEST(Slurm, WhatIsNoListOfHostsIsRefused) {
  for (const char* list :
       {"", ",", "a,", "a[", "a]", "a[]", "a[1-]", "a[-1]", "a[3-1]", "a[x]", "a[1,]", "a[1[2]]", "a[1-2-3]",
        "a[0-99999999999]", "a[1-999999999]", "a[0-9999]b[0-9999]", "a[+1]"}) {
    EXPECT_THROW(hosts(list), InputError) << list;
  }
}

TEST(Slurm, Counts) {
  EXPECT_EQ(expand_counts("4", "LIST"), std::vector<int>{4});
  EXPECT_EQ(expand_counts("2(x3),1", "LIST"), (std::vector<int>{2, 2, 2, 1}));
  for (const char* list : {"", "x", "2(x", "2(x)", "2(x0)", "2(x3", "2x3", "2,", "-1", "2(x999999999)"}) {
    EXPECT_THROW(expand_counts(list, "LIST"), InputError) << list;
  }
}

}  // namespace
}  // namespace twobw::launch
