#include "planning/planner/hardware/yaml_fields.h"

#include <gtest/gtest.h>

namespace twobw::planner {
namespace {

TEST(Units, Bytes) {
  EXPECT_EQ(parse_bytes("1024"), 1024);
  EXPECT_EQ(parse_bytes("24GiB"), 24.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(parse_bytes("24 GB"), 24e9);
  EXPECT_EQ(parse_bytes("1.5KiB"), 1536);
  EXPECT_EQ(parse_bytes("3kB"), 3000);
}

TEST(Units, BitsOrBytesASecond) {
  EXPECT_EQ(parse_rate("25Gbit/s"), 25e9 / 8);
  EXPECT_EQ(parse_rate("150GB/s"), 150e9);
  EXPECT_EQ(parse_rate("1 GiB/s"), 1024.0 * 1024 * 1024);
  EXPECT_EQ(parse_rate("80bit/s"), 10);
  EXPECT_EQ(parse_rate("7"), 7);
}

TEST(Units, TimesAreExact) {
  EXPECT_EQ(parse_seconds("5us"), 5e-6);
  EXPECT_EQ(parse_seconds("20 ms"), 20e-3);
  EXPECT_EQ(parse_seconds("3ns"), 3e-9);
  EXPECT_EQ(parse_seconds("2s"), 2);
  EXPECT_EQ(parse_seconds("1e-3"), 1e-3);
}

TEST(Units, WhatIsNoneIsRefused) {
  for (const char* text : {"", "GiB", "4 apples", "4GB/s", "4  GB", "4gb", "inf", "nan", "0x10"}) {
    EXPECT_FALSE(parse_bytes(text)) << text;
  }
  EXPECT_FALSE(parse_rate("4GB"));
  EXPECT_FALSE(parse_rate("4Gb/s"));  // bits or bytes?
  EXPECT_FALSE(parse_seconds("4min"));
}

TEST(Units, PrintsShortAndExact) {
  EXPECT_EQ(print_bytes(16.0 * 1024 * 1024 * 1024), "16GiB");
  EXPECT_EQ(print_bytes(0), "0B");
  EXPECT_EQ(print_rate(25e9 / 8), "25Gbit/s");
  EXPECT_EQ(print_rate(150e9), "150GB/s");
  EXPECT_EQ(print_seconds(5e-6), "5us");
  for (double value = 1e-9; value < 1e15; value *= 2.7182818) {
    EXPECT_EQ(parse_bytes(print_bytes(value)), value);
    EXPECT_EQ(parse_rate(print_rate(value)), value);
    EXPECT_EQ(parse_seconds(print_seconds(value)), value);
  }
}

}  // namespace
}  // namespace twobw::planner
