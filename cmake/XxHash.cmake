# xxHash, for checksums of checkpoints; header only.
find_path(XXHASH_INCLUDE_DIR xxhash.h)
if(NOT XXHASH_INCLUDE_DIR)
  message(FATAL_ERROR "xxhash.h is missing; install libxxhash-dev")
endif()
