// Hands out parts of memory that it never touches, so it serves for a GPU's as well. Pages come from a
// source when they run out; freed parts are joined with free neighbours and used again, the best fit first.
//
// Used from one thread at a time; on a GPU by what runs on one stream, in whose order memory may be used
// again as soon as it is freed.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <vector>

namespace twobw::device {

class Arena {
 public:
  struct Source {
    std::function<void*(std::size_t)> take;  // null: there is no more
    std::function<void(void*)> give_back;
  };
  // Asks the source for at least `page` bytes at a time.
  Arena(Source source, std::size_t page);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Null where the source has no more.
  void* allocate(std::size_t bytes);
  void free(void* memory);

  std::size_t in_use() const { return in_use_; }
  std::size_t reserved() const { return reserved_; }
  // The largest part that could be had without asking the source.
  std::size_t largest_free() const;

 private:
  struct Part {
    std::size_t size = 0;
    bool free = false;
    bool begins_page = false;  // so it has no neighbour before it
  };
  using Parts = std::map<char*, Part>;  // by address

  bool grow(std::size_t bytes);
  void add_free(Parts::iterator part);
  void remove_free(Parts::iterator part);

  Source source_;
  std::size_t page_;
  Parts parts_;
  std::set<std::pair<std::size_t, char*>> free_;  // by size, then address
  std::vector<void*> pages_;
  std::size_t in_use_ = 0, reserved_ = 0;
};

}  // namespace twobw::device
