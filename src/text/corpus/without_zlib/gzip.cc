// Throws InputError in builds without zlib.
#include "core/base/error.h"
#include "text/corpus/byte_source.h"

namespace twobw::corpus {

std::unique_ptr<ByteSource> unpack_gzip(std::unique_ptr<ByteSource>, const std::string& path) {
  fail_input("input '{}' needs zlib, which this build lacks: install zlib1g-dev and build again", path);
}

}  // namespace twobw::corpus
