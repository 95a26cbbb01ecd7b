// twobw export: a run's model for Hugging Face's transformers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "app/cli/engine/commands.h"
#include "app/cli/json_output.h"
#include "app/train/model_files.h"
#include "core/base/json.h"
#include "engine/device/device.h"

namespace twobw::cli {
namespace {

// The update and folder of a run's model; empty for other models.
std::string which(const checkpoint::ModelPlace& taken) {
  if (!taken.is_of_run) return "";
  if (!taken.updates) return fmt::format(", {},", taken.folder);
  return fmt::format(" after update {}, {},", *taken.updates, taken.folder);
}

Json to_json(const train::Export& request, const train::Exported& exported) {
  const checkpoint::ModelPlace& from = exported.from;
  return {{"folder", request.folder},      {"dtype", request.dtype},
          {"from", from.folder},           {"update", from.updates ? Json(*from.updates) : Json()},
          {"left_out", exported.left_out}, {"files_left_out", exported.files_left_out}};
}

}  // namespace

void add_export(CLI::App& command, int&) {
  auto json = std::make_shared<bool>(false);
  auto request = std::make_shared<train::Export>();
  command
      .add_option("run", request->from, "A run (its newest model), a checkpoint, or a Hugging Face folder")
      ->required();
  command.add_option("folder", request->folder, "The folder to create")->required();
  command.add_option("--dtype", request->dtype, "Number format of the weights: fp32, bf16 or fp16")
      ->check(CLI::IsMember(train::export_dtypes()))
      ->capture_default_str();
  add_json_flag(command, *json);
  command.callback([request, json] {
    device::initialize();
    const train::Exported exported = train::export_model(*request);
    if (*json) return print_json(to_json(*request, exported));
    fmt::print("the model of {}{} is in {}, in {}\n", request->from, which(exported.from), request->folder,
               request->dtype);
    if (!exported.left_out.empty())
      fmt::print("left out, since transformers computes them: {}\n", fmt::join(exported.left_out, ", "));
    if (!exported.files_left_out.empty()) {
      fmt::print("left out (weights in other formats, folders): {}\n",
                 shown_name(fmt::format("{}", fmt::join(exported.files_left_out, ", "))));
    }
  });
}

}  // namespace twobw::cli
