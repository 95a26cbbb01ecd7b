# Gloo carries tensors between processes. LibTorch has it inside, but not its headers; where those are missing, that
# part builds as the stub.
find_path(GLOO_INCLUDE_DIR gloo/transport/device.h)
if(GLOO_INCLUDE_DIR)
  set(TWOBW_GLOO ON)
else()
  message(STATUS "building without Gloo's headers: one process only")
endif()
