// Throws InputError in builds without libzstd.
#include "core/base/error.h"
#include "text/corpus/byte_source.h"

namespace twobw::corpus {

std::unique_ptr<ByteSource> unpack_zstd(std::unique_ptr<ByteSource>, const std::string& path) {
  fail_input("input '{}' needs libzstd, which this build lacks: install libzstd-dev and build again", path);
}

}  // namespace twobw::corpus
