#include "app/cli/shape_options.h"

#include <CLI/CLI.hpp>

#include "core/base/error.h"

namespace twobw::cli {

void check_forwards(const schedule::Spec& spec, std::int64_t most) {
  const PipelineShape& shape = spec.shape;
  const std::int64_t of_update = std::int64_t{shape.workers()} * shape.microbatches;
  if (spec.updates <= most / of_update) return;
  fail_input(
      "{} stages x {} replicas x {} microbatches x {} updates are too many forwards; at most {} are allowed",
      shape.stages, shape.replicas, shape.microbatches, spec.updates, most);
}

void add_shape_options(CLI::App& command, PipelineShape& shape) {
  command.add_option("--stages", shape.stages, "d, the stages")->capture_default_str();
  command.add_option("--microbatches", shape.microbatches, "m, the microbatches of an update")
      ->capture_default_str();
  command.add_option("--extra", shape.extra, "e, extra microbatches in flight")->capture_default_str();
  command.add_flag("--predict,!--no-predict", shape.predict,
                   "Whether 2bw computes on predicted weights (the default) or on those of the paper");
  command
      .add_option("--slack", shape.slack,
                  "With prediction, microbatches before the rest of a batch runs on its true weights")
      ->capture_default_str();
  command.add_flag("!--one-gradient", shape.second_gradient,
                   "Under 2bw one gradient buffer a stage, and a stall, instead of two");
  command.add_flag("--late-tie", shape.late_tie,
                   "Under 2bw the first stage steps late too, for tied weights over a slow link");
}

}  // namespace twobw::cli
