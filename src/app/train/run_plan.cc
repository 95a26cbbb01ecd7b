#include "app/train/run_plan.h"

#include "core/base/bytes.h"
#include "core/base/codec.h"
#include "engine/runtime/placement.h"
#include "text/tokenizer/load.h"

namespace twobw::train {

std::string to_bytes(const RunPlan& plan) {
  ByteWriter writer;
  writer.add(std::string_view(plan.config)).add(static_cast<std::uint64_t>(plan.devices.size()));
  for (const device::Device& device : plan.devices) writer.add(device.cores.cores).add(device.gpu);
  return writer.add(std::string_view(plan.checkpoint))
      .add(plan.save_every)
      .add(plan.save_last)
      .add(plan.first_batch)
      .add(plan.sync_updates)
      .add(plan.begins_drained)
      .add(plan.record_events)
      .take();
}

RunPlan to_run_plan(std::string_view bytes) {
  ByteReader reader(bytes);
  RunPlan plan;
  plan.config = reader.take_text();
  const auto workers = reader.take<std::uint64_t>();
  for (std::uint64_t i = 0; i < workers; ++i) {
    device::Device& device = plan.devices.emplace_back();
    device.cores.cores = reader.take_list<int>();
    device.gpu = reader.take_optional<GpuSlice>();
  }
  plan.checkpoint = reader.take_text();
  plan.save_every = reader.take<std::int64_t>();
  plan.save_last = reader.take<bool>();
  plan.first_batch = reader.take<std::int64_t>();
  plan.sync_updates = reader.take<std::int64_t>();
  plan.begins_drained = reader.take<bool>();
  plan.record_events = reader.take<bool>();
  return plan;
}

RunPlan plan_of(const Config& resolved, const runtime::Setup& setup, const std::string& checkpoint,
                bool record_events) {
  return {.config = to_yaml(resolved),
          .devices = setup.devices,
          .checkpoint = checkpoint,
          .save_every = setup.spec.save_every,
          .save_last = setup.spec.save_last,
          .first_batch = setup.spec.first_batch,
          .sync_updates = setup.spec.sync_updates,
          .begins_drained = setup.spec.begins_drained,
          .record_events = record_events};
}

runtime::Setup prepare(const RunPlan& plan) {
  const Config config = config_from_text(plan.config, "the configuration that process 0 sent");
  runtime::Setup setup = runtime::prepare(computed_with(config, plan.checkpoint), plan.devices);
  setup.spec.save_every = plan.save_every;
  setup.spec.save_last = plan.save_last;
  setup.spec.first_batch = plan.first_batch;
  setup.spec.sync_updates = plan.sync_updates;
  setup.spec.begins_drained = plan.begins_drained;
  return setup;
}

Config computed_with(Config config, const std::string& checkpoint) {
  if (checkpoint.empty()) return config;
  config.model.from = "none";
  config.data.tokenizer = tokenizer::present_tokenizer(config.data.tokenizer, checkpoint + "/model");
  return config;
}

void check_share(const Config& config, const transport::Processes& processes) {
  if (config.plan != "auto") runtime::Placement(config.pipeline, processes.size(), processes.rank());
}

std::vector<runtime::HostDevices> gather_hosts(transport::Processes& processes) {
  const runtime::HostDevices own = runtime::host_devices();
  if (processes.rank() > 0) {
    processes.mail().send(0, twobw::to_bytes(own));
    return {};
  }
  std::vector<runtime::HostDevices> hosts = {own};
  for (int rank = 1; rank < processes.size(); ++rank)
    hosts.push_back(from_bytes<runtime::HostDevices>(processes.mail().receive(rank)));
  return hosts;
}

void send_plan(transport::Processes& processes, const RunPlan& plan) {
  processes.mail().send_to_others(to_bytes(plan));
}

RunPlan receive_plan(transport::Processes& processes) {
  return to_run_plan(processes.mail().receive(0));
}

}  // namespace twobw::train
