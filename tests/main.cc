// GoogleTest's main, but for the end: see core/base/exit.h.
#include <gtest/gtest.h>

#include "core/base/output.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  twobw::leave(RUN_ALL_TESTS());
}
