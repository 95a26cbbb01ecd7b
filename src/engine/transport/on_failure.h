#pragma once

#include <exception>
#include <functional>
#include <string>

namespace twobw::transport {

// Told what went wrong, from the thread where it did, with its name. A cancellation is nothing wrong.
using OnFailure = std::function<void(const std::string& thread, const std::exception_ptr& failure)>;

}  // namespace twobw::transport
