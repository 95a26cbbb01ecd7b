// The link between GPUs of two processes as plan: auto measures it, over NCCL, with threads as ranks.
#include <gtest/gtest.h>

#include "app/measure/links.h"
#include "nccl_ranks.h"
#include "tests/engine/support/memory_control.h"
#include "tests/engine/transport/wires.h"

namespace twobw::measure {
namespace {

TEST(NcclGpuLinks, AreMeasured) {
  const std::string missing = transport::ranks_missing(2);
  if (!missing.empty()) GTEST_SKIP() << missing;
  auto controls = control::controls_in_memory(2);
  auto activations = transport::wires_in_memory(2), gradients = transport::wires_in_memory(2),
       exchange = transport::wires_in_memory(2);
  std::vector<std::unique_ptr<transport::Processes>> all;
  for (int rank = 0; rank < 2; ++rank) {
    all.push_back(std::make_unique<transport::Processes>(std::move(controls[rank])));
    all.back()->control().start();
    all.back()->set_wires({.activations = std::move(activations[rank]),
                           .gradients = std::move(gradients[rank]),
                           .exchange = std::move(exchange[rank])});
  }
  std::vector<GpuSlice> gpus = {{.gpu = transport::gpu_of(0)}, {.gpu = transport::gpu_of(1)}};
  if (gpus[0].gpu == gpus[1].gpu) {
    for (int rank = 0; rank < 2; ++rank) gpus[rank] = {.gpu = 0, .slice = rank, .slices = 2};
  }
  std::vector<ProcessLink> links;
  transport::on_all_ranks(2, [&](int rank) {
    if (rank == 0) {
      links = measure_links(*all[0], {"a", "a"}, kShortLinkBudget, gpus);
    } else {
      measure_links(*all[1]);
    }
    all[rank]->control().leave();
  });
  ASSERT_EQ(links.size(), 1u);
  const WireLink& link = links.front().link;
  EXPECT_GT(link.latency, 1e-7);
  EXPECT_LT(link.latency, 1);
  for (const double bandwidth : {link.one_way, link.both_ways}) {
    EXPECT_GT(bandwidth, 1e7);
    EXPECT_LT(bandwidth, 1e14);
  }
}

}  // namespace
}  // namespace twobw::measure
