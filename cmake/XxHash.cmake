# Checksums of checkpoints. The header is all that is used of it.
find_path(XXHASH_INCLUDE_DIR xxhash.h)
if(NOT XXHASH_INCLUDE_DIR)
  message(FATAL_ERROR "xxhash.h is missing; install libxxhash-dev")
endif()
