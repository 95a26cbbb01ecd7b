// A thread beside the workers, on no core of theirs, which tells what goes wrong on it.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "engine/transport/on_failure.h"

namespace twobw::transport {

std::thread start_own_thread(std::string name, OnFailure on_failure, std::function<void()> work);

}  // namespace twobw::transport
