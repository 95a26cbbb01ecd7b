#include "engine/weights/double_buffer.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/base/random.h"
#include "engine/checkpoint/pretrained.h"
#include "engine/device/memory.h"

namespace twobw::weights {

using at::Tensor;

std::vector<Tensor> parameter_views(const Layout& layout, const Tensor& flat) {
  std::vector<Tensor> views;
  for (const Parameter& parameter : layout.parameters()) {
    const Tensor view = flat.narrow(0, parameter.offset, parameter.count).view(parameter.spec.shape);
    // variable_data() cuts the view off autograd's version counter: writing one buffer must not
    // invalidate what was saved of another, nor one parameter's update what was saved of the next.
    views.push_back(view.variable_data().set_requires_grad(true));
  }
  return views;
}

namespace {

void initialize(const architecture::Parameter& spec, const Tensor& view, std::uint64_t seed) {
  at::NoGradGuard no_grad;
  if (spec.init_std == 0.0) {
    view.fill_(spec.init_mean);
    return;
  }
  auto generator =
      at::detail::createCPUGenerator(random_key(seed, hash_text("init"), hash_text(spec.group_name())));
  view.normal_(spec.init_mean, spec.init_std, generator);
}

// Other formats are rounded from the optimizer's master.
bool holds_floats(const Tensor& flat) {
  return flat.is_cpu() && flat.scalar_type() == at::kFloat;
}

// Throws InputError with the stored name of the tensor. One sum proves nearly all weights finite.
void check_finite(const ModelConfig& model, const architecture::Parameter& spec, const Tensor& weights) {
  if (weights.sum().isfinite().item<bool>()) return;
  for (const auto& [name, tensor] : checkpoint::to_stored(model, spec, weights)) {
    if (!tensor.isfinite().all().item<bool>())
      fail_input(
          "'{}' in model.from, '{}', holds numbers that are not finite; nothing can be trained from it", name,
          model.from);
  }
}

}  // namespace

void initialize(const Layout& layout, const Tensor& flat, std::uint64_t seed) {
  for (const Parameter& parameter : layout.parameters()) {
    if (parameter.alias) continue;
    initialize(parameter.spec, flat.narrow(0, parameter.offset, parameter.count), seed);
  }
}

void initialize(const Layout& layout, const Tensor& flat, const Config& config) {
  if (!config.model.is_imported()) return initialize(layout, flat, config.train.seed);
  const checkpoint::Pretrained pretrained(config.model);
  for (const Parameter& parameter : layout.parameters()) {
    if (parameter.alias) continue;
    const architecture::Parameter& spec = parameter.spec;
    const Tensor view = flat.narrow(0, parameter.offset, parameter.count).view(spec.shape);
    if (pretrained.has(spec)) {
      pretrained.read(spec, view);
      check_finite(config.model, spec, view);
    } else {
      initialize(pretrained.with_default_init(spec), view, config.train.seed);
    }
  }
}

Versions::Versions(const Layout& layout, int kept, std::uint64_t seed, const at::TensorOptions& options)
    : Versions(layout, kept, options) {
  if (holds_floats(buffers_[0].flat)) initialize(layout, buffers_[0].flat, seed);
}

Versions::Versions(const Layout& layout, int kept, const Config& config, const at::TensorOptions& options)
    : Versions(layout, kept, options) {
  if (holds_floats(buffers_[0].flat)) initialize(layout, buffers_[0].flat, config);
}

Versions::Versions(const Layout& layout, int kept, const at::TensorOptions& options) : buffers_(kept) {
  const device::PurposeScope purpose(Term::Weights);
  for (Buffer& buffer : buffers_) {
    buffer.flat = at::zeros({layout.size()}, options);
    buffer.parameters = parameter_views(layout, buffer.flat);
  }
  buffers_[0].version = 0;
}

Versions::Buffer& Versions::holding(std::int64_t version) {
  return const_cast<Buffer&>(static_cast<const Versions*>(this)->holding(version));
}

const Versions::Buffer& Versions::holding(std::int64_t version) const {
  const Buffer& buffer = buffers_[version % kept()];
  TWOBW_ASSERT(buffer.version == version, "W({}) is wanted, its buffer holds W({}), newest is W({})", version,
               buffer.version, newest_);
  return buffer;
}

std::span<const Tensor> Versions::acquire(std::int64_t version) {
  Buffer& buffer = holding(version);
  ++buffer.users;
  return buffer.parameters;
}

void Versions::release(std::int64_t version) {
  Buffer& buffer = holding(version);
  TWOBW_ASSERT(buffer.users > 0, "W({}) released more often than acquired", version);
  --buffer.users;
}

std::span<const Tensor> Versions::parameters(std::int64_t version) const {
  return holding(version).parameters;
}

const Tensor& Versions::flat(std::int64_t version) const {
  return holding(version).flat;
}

Tensor Versions::begin_write() {
  Buffer& buffer = buffers_[(newest_ + 1) % kept()];
  TWOBW_ASSERT(buffer.users == 0, "W({}) would overwrite W({}), which {} microbatches in flight still need",
               newest_ + 1, buffer.version, buffer.users);
  return buffer.flat;
}

void Versions::publish() {
  ++newest_;
  Buffer& buffer = buffers_[newest_ % kept()];
  TWOBW_ASSERT(buffer.users == 0, "W({}) was acquired by {} microbatches while it was overwritten",
               buffer.version, buffer.users);
  buffer.version = newest_;
  for (const Tensor& parameter : buffer.parameters) {
    // Kernels wrote the buffer without autograd; a stale graph must be detected.
    parameter.unsafeGetTensorImpl()->bump_version();
  }
  count_live();
}

void Versions::begin_after(std::int64_t newest) {
  for (Buffer& buffer : buffers_) buffer.version = -1;
  newest_ = newest;
  buffers_[newest % kept()].version = newest;
}

void Versions::restore(std::int64_t version, const Tensor& content) {
  TWOBW_ASSERT(version <= newest_ && version > newest_ - kept(), "W({}) of {} kept up to W({})", version,
               kept(), newest_);
  at::NoGradGuard no_grad;
  Buffer& buffer = buffers_[version % kept()];
  buffer.flat.copy_(content);
  buffer.version = version;
}

void Versions::count_live() {
  int live = 0;
  for (const Buffer& buffer : buffers_) live += buffer.users > 0 || buffer.version == newest_;
  peak_live_ = std::max(peak_live_, live);
}

Gradients::Gradients(const Layout& layout, int count, const at::TensorOptions& options) {
  const device::PurposeScope purpose(Term::Gradients);
  for (int buffer = 0; buffer < count; ++buffer) {
    flats_.push_back(at::zeros({layout.gradient_size()}, options.dtype(at::kFloat)));
    auto& views = views_.emplace_back();
    for (const Parameter& parameter : layout.parameters()) {
      views.push_back(flats_.back()
                          .narrow(0, parameter.gradient_offset, parameter.count)
                          .view(parameter.spec.shape)
                          .variable_data());
    }
  }
}

void Gradients::attach(std::int64_t batch, std::span<const at::Tensor> parameters) const {
  const auto& views = views_[batch % flats_.size()];
  for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].mutable_grad() = views[i];
}

}  // namespace twobw::weights
