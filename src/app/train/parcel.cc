#include "app/train/parcel.h"

#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>

#include "core/base/bytes.h"
#include "core/base/error.h"

namespace twobw::train {
namespace {

constexpr int kTag = 1;

at::Tensor bytes_tensor(const void* bytes, std::size_t count) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(count)}, at::kByte);
  if (count > 0) std::memcpy(tensor.mutable_data_ptr(), bytes, count);
  return tensor;
}

std::string label_of(const Parcel& parcel) {
  ByteWriter writer;
  writer.add(parcel.kind).add(parcel.replica).add(parcel.stage).add(parcel.update).add(parcel.part);
  writer.add(parcel.counters);
  writer.add(static_cast<std::uint64_t>(parcel.buffers.size()));
  for (const auto& [name, tensor] : parcel.buffers)
    writer.add(std::string_view(name)).add(tensor.numel()).add(tensor.scalar_type());
  return writer.take();
}

// With room for what follows.
Parcel parcel_of(std::string_view label) {
  ByteReader reader(label);
  Parcel parcel;
  parcel.kind = reader.take<Parcel::Kind>();
  parcel.replica = reader.take<int>();
  parcel.stage = reader.take<int>();
  parcel.update = reader.take<std::int64_t>();
  parcel.part = reader.take<weights::Range>();
  parcel.counters = reader.take<optim::Counters>();
  const auto count = reader.take<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    std::string name = reader.take_text();
    const auto elements = reader.take<std::int64_t>();
    const auto type = reader.take<at::ScalarType>();
    parcel.buffers.emplace_back(std::move(name), at::empty({elements}, type));
  }
  return parcel;
}

}  // namespace

void send_parcel(transport::Wire& wire, int to, const Parcel& parcel) {
  const std::string label = label_of(parcel);
  std::vector<at::Tensor> parts = {at::full({1}, static_cast<std::int64_t>(label.size()), at::kLong),
                                   bytes_tensor(label.data(), label.size())};
  for (const auto& [name, tensor] : parcel.buffers) {
    TWOBW_ASSERT(tensor.is_cpu() && tensor.is_contiguous(), "{} is not whole, or not on the CPU", name);
    if (tensor.numel() > 0) parts.push_back(tensor);
  }
  std::vector<std::shared_ptr<transport::Transfer>> transfers;
  for (const at::Tensor& part : parts) transfers.push_back(wire.send(to, kTag, part));
  for (const auto& transfer : transfers) transfer->wait();
}

Parcel receive_parcel(transport::Wire& wire, int from) {
  const at::Tensor size = at::zeros({1}, at::kLong);
  wire.receive(from, kTag, size)->wait();
  const at::Tensor label = at::empty({size.item<std::int64_t>()}, at::kByte);
  wire.receive(from, kTag, label)->wait();
  Parcel parcel =
      parcel_of({static_cast<const char*>(label.const_data_ptr()), static_cast<std::size_t>(label.numel())});
  std::vector<std::shared_ptr<transport::Transfer>> transfers;
  for (const auto& [name, tensor] : parcel.buffers) {
    if (tensor.numel() > 0) transfers.push_back(wire.receive(from, kTag, tensor));
  }
  for (const auto& transfer : transfers) transfer->wait();
  return parcel;
}

Parcel events_parcel(const std::vector<telemetry::Event>& events) {
  static_assert(std::is_trivially_copyable_v<telemetry::Event>);
  Parcel parcel{.kind = Parcel::Kind::Events};
  parcel.buffers.emplace_back("events",
                              bytes_tensor(events.data(), events.size() * sizeof(telemetry::Event)));
  return parcel;
}

std::vector<telemetry::Event> events_of(const Parcel& parcel) {
  const at::Tensor& bytes = parcel.buffers.front().second;
  std::vector<telemetry::Event> events(bytes.nbytes() / sizeof(telemetry::Event));
  if (!events.empty()) std::memcpy(events.data(), bytes.const_data_ptr(), bytes.nbytes());
  return events;
}

}  // namespace twobw::train
