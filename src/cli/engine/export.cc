// twobw export: a run's model for Hugging Face's transformers.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "device/cpu.h"
#include "train/huggingface.h"

namespace twobw::cli {

void add_export(CLI::App& command, int& exit_code) {
  auto request = std::make_shared<train::Export>();
  command.add_option("run", request->from, "The run directory, a checkpoint, or a model's folder")
      ->required();
  command.add_option("folder", request->folder, "The folder to make")->required();
  command.add_option("--dtype", request->dtype, "Number format of the weights: fp32, bf16 or fp16")
      ->check(CLI::IsMember(train::export_dtypes()))
      ->capture_default_str();
  command.callback([request, &exit_code] {
    device::initialize();
    train::export_model(*request);
    fmt::print("the model of {} is in {}, in {}\n", request->from, request->folder, request->dtype);
    exit_code = 0;
  });
}

}  // namespace twobw::cli
