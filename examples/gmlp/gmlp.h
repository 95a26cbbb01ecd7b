// gMLP (Liu et al. 2021, "Pay Attention to MLPs") as a language model: what `twobw` needs to know of a
// family.
//
// A block is x + down(gate(gelu(up(norm(x))))). The gate cuts its input into halves u and v and gives u * (S
// norm(v) + b): S, a learned matrix over positions, is the only place where tokens meet. It is lower
// triangular, so that a token sees none that come after it.
#pragma once

#include "core/base/config.h"
#include "engine/models/layer.h"
#include "planning/architecture/layer.h"

namespace gmlp {

// The layers: parameters, work and bytes. Throws twobw::InputError for keys that the family does not have.
twobw::architecture::Model describe(const twobw::ModelConfig& config);

// The forward of a layer of the description.
twobw::models::Forward forward_of(const twobw::ModelConfig& config, const twobw::architecture::Layer& layer);

}  // namespace gmlp
