// How queries, keys and values are packed side by side.
#pragma once

namespace twobw::models::ops {

// So many heads of queries, then of keys, and as many of values as of keys.
struct Heads {
  int queries = 1, keys = 1, size = 1;

  int all() const { return queries + 2 * keys; }
};

}  // namespace twobw::models::ops
