# Libraries that decompress the inputs of `twobw prepare`. Without one of them a stub refuses such inputs and names the
# package to install.
find_path(ZLIB_INCLUDE_DIR zlib.h)
find_library(ZLIB_LIBRARY z)
if(ZLIB_INCLUDE_DIR AND ZLIB_LIBRARY)
  set(TWOBW_ZLIB ON)
else()
  message(STATUS "building without zlib: no inputs packed by gzip")
endif()

find_path(ZSTD_INCLUDE_DIR zstd.h)
find_library(ZSTD_LIBRARY zstd)
if(ZSTD_INCLUDE_DIR AND ZSTD_LIBRARY)
  set(TWOBW_ZSTD ON)
else()
  message(STATUS "building without libzstd: no inputs packed by zstd")
endif()
