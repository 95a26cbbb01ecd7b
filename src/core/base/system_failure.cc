#include "core/base/system_failure.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <filesystem>
#include <new>
#include <string_view>
#include <system_error>

namespace twobw {
namespace {

// "; the limit on processes is 64 (ulimit -u)"; empty if unlimited. `unit`: bytes in the unit of the shell's
// command.
std::string limit(__rlimit_resource resource, std::string_view of, const char* command, rlim_t unit = 1) {
  rlimit now{};
  if (getrlimit(resource, &now) != 0 || now.rlim_cur == RLIM_INFINITY) return {};
  return fmt::format("; the limit on {} is {}{} ({})", of, now.rlim_cur / unit, unit == 1024 ? " KiB" : "",
                     command);
}

std::string_view first_line(const std::exception& error) {
  const std::string_view what = error.what();
  return what.substr(0, what.find('\n'));
}

}  // namespace

std::optional<SystemFailure> system_failure(const std::exception& error) {
  // LibTorch's allocator for CPUs throws an exception of its own.
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                         first_line(error).find("can't allocate memory") != std::string_view::npos;
  if (no_memory) return SystemFailure{"out of memory" + limit(RLIMIT_AS, "memory", "ulimit -v", 1024)};
  if (const auto* path = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return SystemFailure{
        fmt::format("'{}' cannot be used: {}", path->path1().string(), path->code().message()), true};
  }
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system == nullptr || system->code() != std::errc::resource_unavailable_try_again) return std::nullopt;
  return SystemFailure{fmt::format("a thread cannot be started: {}{}", system->code().message(),
                                   limit(RLIMIT_NPROC, "processes", "ulimit -u")),
                       true};
}

std::string describe_failure(const std::exception& error) {
  const std::optional<SystemFailure> failure = system_failure(error);
  return failure ? failure->sentence : std::string(first_line(error));
}

}  // namespace twobw
