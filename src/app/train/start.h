// What a run begins as, on process 0 or alone: its configuration with all that it is made of, and the
// checkpoint that it goes on from.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "app/train/resume.h"
#include "core/base/config.h"
#include "engine/runtime/process_devices.h"
#include "engine/runtime/setup.h"
#include "engine/runtime/snapshot.h"
#include "engine/transport/processes.h"

namespace twobw::train {

struct Start {
  Config config;
  runtime::Setup setup;
  std::optional<ResumePoint> resume;                       // that all processes have read; nothing: a new run
  std::shared_ptr<const runtime::Restored> restored = {};  // what the stages here take from it
};

// `planned` is what `asked` has become, `newest` the checkpoint to begin with; where any process finds it
// damaged, it is the one before that. `hosts`: of the processes. An open split is that of the run that saved
// the checkpoint, where it has as many stages: it is not measured again. Throws InputError.
Start prepare_start(const Config& planned, const Config& asked, std::optional<ResumePoint> newest,
                    const std::vector<runtime::HostDevices>& hosts, transport::Processes* processes);

// With all that is decided.
Config resolved_config(const Start& start);

}  // namespace twobw::train
