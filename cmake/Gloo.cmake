# Gloo sends tensors between processes. LibTorch contains it without its headers; without them a stub is built.
find_path(GLOO_INCLUDE_DIR gloo/transport/device.h)
if(GLOO_INCLUDE_DIR)
  set(TWOBW_GLOO ON)
else()
  message(STATUS "building without Gloo's headers: one process only")
endif()
