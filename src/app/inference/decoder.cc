#include "app/inference/decoder.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "engine/models/decoding.h"

namespace twobw::inference {
namespace {

using at::Tensor;
using models::Tensors;
using transport::Tag;

Tag tag_of(std::int64_t index) {
  return {.kind = Tag::Kind::Activation, .index = index};
}

Tensor numbers_of(std::span<const std::int64_t> values) {
  const Tensor tensor = at::empty({std::ssize(values)}, at::kLong);
  std::ranges::copy(values, tensor.mutable_data_ptr<std::int64_t>());
  return tensor;
}

}  // namespace

Tensor Order::packed() const {
  std::vector<std::int64_t> numbers = {static_cast<std::int64_t>(kind), row, std::ssize(tokens)};
  numbers.insert(numbers.end(), tokens.begin(), tokens.end());
  numbers.insert(numbers.end(), seen.begin(), seen.end());
  return numbers_of(numbers);
}

Order Order::unpacked(const Tensor& numbers) {
  const auto* at = numbers.const_data_ptr<std::int64_t>();
  const auto *tokens = at + 3, *end = at + numbers.numel();
  return {.kind = static_cast<Kind>(at[0]),
          .row = at[1],
          .tokens = {tokens, tokens + at[2]},
          .seen = {tokens + at[2], end}};
}

Decoder::Decoder(const Stage& stage, const models::Model& model, std::int64_t rows, std::int64_t places)
    : stage_(stage), model_(model) {
  if (!can_step()) return;
  // CPUs attend in single precision.
  const at::TensorOptions kept =
      stage.compute.device().is_cuda() ? stage.compute : stage.compute.dtype(at::kFloat);
  for (int layer = stage.first_layer; layer < stage.last_layer; ++layer) {
    models::KeyValues& cache = caches_.emplace_back();
    const auto& keeps = model.steps[layer].keeps;
    if (!keeps) continue;
    for (Tensor* tensor : {&cache.keys, &cache.values})
      *tensor = at::zeros({rows, keeps->keys, places, keeps->size}, kept);
  }
  if (!stage.compute.device().is_cuda()) return;
  graphs_ = make_step_graphs(
      [this](const models::Step& of, const Tensors& inputs) { return run_step(of, inputs, 0); },
      stage.compute);
}

Tensors Decoder::run_step(const models::Step& step, const Tensors& inputs, std::int64_t row) const {
  std::vector<models::KeyValues> caches;
  for (const models::KeyValues& cache : caches_) {
    models::KeyValues& of_rows = caches.emplace_back();
    if (!cache.keys.defined()) continue;
    of_rows.keys = cache.keys.narrow(0, row, step.tokens.size(0));
    of_rows.values = cache.values.narrow(0, row, step.tokens.size(0));
  }
  return models::run_steps(model_, stage_.first_layer, stage_.last_layer, stage_.parameters, inputs, step,
                           caches);
}

// The head computes the last token only.
Tensors Decoder::run_whole(const Order& order, const Tensors& inputs) const {
  const models::ops::DecodingScope decoding;
  models::MicrobatchContext pass;
  pass.batch[models::Field::Tokens] = numbers_of(order.tokens).unsqueeze(0).to(stage_.compute.device());
  const auto run = [&](int first, int last, std::span<const Tensor> parameters, const Tensors& x) {
    return models::run_layers(model_, first, last, parameters, x, pass);
  };
  if (!stage_.is_last()) return run(stage_.first_layer, stage_.last_layer, stage_.parameters, inputs);
  const int head = model_.size() - 1;
  const std::size_t of_head = model_.layers[head].parameters.size();
  const std::span<const Tensor> all = stage_.parameters;
  const Tensors x = run(stage_.first_layer, head, all.first(all.size() - of_head), inputs);
  return run(head, head + 1, all.last(of_head), models::last_place(x));
}

Tensors Decoder::run_layers(const Order& order, const Tensors& inputs) {
  if (order.kind == Order::Kind::Whole) return run_whole(order, inputs);
  if (order.kind == Order::Kind::Begin) {
    const models::Step first{.tokens = numbers_of(order.tokens).unsqueeze(0).to(stage_.compute.device())};
    return run_step(first, inputs, order.row);
  }
  if (graphs_) return graphs_(order.tokens, order.seen, inputs);
  return run_step({.tokens = numbers_of(order.tokens).unsqueeze(1), .seen = numbers_of(order.seen)}, inputs,
                  0);
}

Tensor Decoder::run(const Order& order) {
  const Tag tag = tag_of(orders_++);
  const Tensors inputs = stage_.before ? stage_.before->receive(tag) : Tensors();
  Tensors x = run_layers(order, inputs);
  if (stage_.is_last()) {
    const Tensor& logits = x.front();  // [rows, 1, vocab]
    return logits.to(at::kCPU, at::kFloat).view({logits.size(0), logits.size(2)}).contiguous();
  }
  // The next order overwrites the outputs, so they must be complete before they are sent.
  await(x);
  stage_.after->send(tag, std::move(x));
  return {};
}

void Decoder::announce(const Order& order) const {
  for (transport::Link* link : stage_.orders) link->send(tag_of(orders_), {order.packed()});
}

void Decoder::follow() {
  TWOBW_ASSERT(!stage_.is_last(), "the last stage leads");
  while (true) {
    const Order order = Order::unpacked(stage_.orders.front()->receive(tag_of(orders_)).front());
    if (order.kind == Order::Kind::End) return;
    run(order);
  }
}

Tensor Decoder::order(const Order& order) {
  announce(order);
  return run(order);
}

Tensor Decoder::begin(std::int64_t row, std::vector<std::int64_t> tokens) {
  return order({.kind = Order::Kind::Begin, .row = row, .tokens = std::move(tokens)})[0];
}

Tensor Decoder::step(std::vector<std::int64_t> tokens, std::vector<std::int64_t> seen) {
  return order({.kind = Order::Kind::Step, .tokens = std::move(tokens), .seen = std::move(seen)});
}

Tensor Decoder::whole(std::vector<std::int64_t> tokens) {
  return order({.kind = Order::Kind::Whole, .tokens = std::move(tokens)})[0];
}

}  // namespace twobw::inference
