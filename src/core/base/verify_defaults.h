// Defaults of `twobw verify` without a configuration file: a model small enough for seconds, with everything
// on that could go wrong.
#pragma once

namespace twobw {

inline constexpr const char* kVerifyDefaults[] = {
    "model.layers=2",          "model.width=32",     "model.heads=4",
    "model.vocab=256",         "model.context=16",   "pipeline.microbatch=2",
    "pipeline.microbatches=4", "optimizer.warmup=2", "pipeline.sync_updates=2",
    "train.updates=8",         "train.eval_every=4", "train.eval_microbatches=2"};

// If the family has dropout.
inline constexpr double kVerifyDropout = 0.1;

}  // namespace twobw
