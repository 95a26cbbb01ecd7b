// Columns of text, each as wide as its widest entry.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace twobw {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> head) { add(std::move(head)); }

  void align_right(std::set<std::size_t> columns) { right_ = std::move(columns); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::set<std::size_t> right_;
};

}  // namespace twobw
