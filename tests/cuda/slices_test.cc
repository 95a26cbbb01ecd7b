#include "engine/device/slices.h"

#include <gtest/gtest.h>

#include <numeric>

#include "buffer.h"
#include "core/base/error.h"
#include "where.h"

namespace twobw::device {
namespace {

using SlicesOfAGpu = CudaTest;

TEST_F(SlicesOfAGpu, ShareNoMultiprocessor) {
  constexpr int kMost = 1024;
  for (const int count : {1, 2, 4, 8}) {
    Slices slices(0, count);
    ASSERT_EQ(slices.count(), count);
    std::vector<int> owner(kMost, -1);
    for (int slice = 0; slice < count; ++slice) {
      Buffer<int> seen(static_cast<std::size_t>(kMost));
      const cudaStream_t stream = slices.make_stream(slice);
      mark_multiprocessors(seen.data(), 4096, stream);
      ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      int marked = 0;
      const std::vector<int> marks = seen.read();
      for (int i = 0; i < kMost; ++i) {
        if (marks[i] == 0) continue;
        ++marked;
        EXPECT_EQ(owner[i], -1) << "multiprocessor " << i << " of slices " << owner[i] << " and " << slice;
        owner[i] = slice;
      }
      EXPECT_LE(marked, slices.multiprocessors(slice));
      EXPECT_GE(marked, slices.multiprocessors(slice) / 2);
    }
  }
}

TEST(ProductsOnASlice, AreMadeForWholeRoundsOfIt) {
  for (const int slice : {16, 32, 64}) EXPECT_EQ(whole_rounds(132, slice), 128) << slice;
  EXPECT_EQ(whole_rounds(132, 40), 160);  // a third: 120 would be less than the GPU has
  EXPECT_EQ(whole_rounds(108, 24), 120);
}

TEST_F(SlicesOfAGpu, TooManyAreRefused) {
  EXPECT_THROW(Slices(0, 1000), InputError);
}

}  // namespace
}  // namespace twobw::device
