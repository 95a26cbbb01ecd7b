// A set of examples, numbered from 0, each of which makes a sequence of a batch.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "engine/data/batch.h"

namespace twobw::data {

// One sequence's part of a batch; of a tensor that the batch lacks, nothing.
class BatchRow {
 public:
  BatchRow(const Batch& batch, int row) : batch_(batch), row_(row) {}

  std::span<std::int64_t> operator[](Field field) const { return part<std::int64_t>(field); }
  std::span<double> numbers(Field field) const { return part<double>(field); }  // of Field::Values

 private:
  template <typename T>
  std::span<T> part(Field field) const {
    const at::Tensor& tensor = batch_[field];
    if (!tensor.defined()) return {};
    const std::int64_t width = tensor.numel() / tensor.size(0);
    return {tensor.mutable_data_ptr<T>() + row_ * width, static_cast<std::size_t>(width)};
  }

  const Batch& batch_;
  std::int64_t row_;
};

class Examples {
 public:
  virtual ~Examples() = default;
  virtual std::int64_t count() const = 0;  // at least 1
  virtual BatchFields fields() const = 0;  // that it can write
  // Fills the row with an example. `key`: of all that is drawn at random for it. Safe from any thread.
  virtual void write(std::int64_t example, std::uint64_t key, const BatchRow& row) const = 0;
  // See Source.
  virtual bool is_dense() const = 0;
  virtual bool varies() const { return false; }
  // Where they vary: tokens of an example that are no padding.
  virtual std::int64_t length(std::int64_t example) const { return 0; }
  virtual std::string describe() const = 0;
};

}  // namespace twobw::data
