# NCCL, for what GPUs exchange: of the package that comes with a LibTorch for CUDA, whose library that loads too,
# else the system's.
if(TWOBW_TORCH_CUDA)
  cmake_path(GET TORCH_ROOT PARENT_PATH torch_packages)
  find_path(NCCL_INCLUDE_DIR nccl.h
    HINTS "${torch_packages}/nvidia/nccl/include" ${CUDAToolkit_INCLUDE_DIRS})
  find_library(NCCL_LIBRARY NAMES libnccl.so.2 nccl
    HINTS "${torch_packages}/nvidia/nccl/lib" ${CUDAToolkit_LIBRARY_DIR})
endif()
if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
  set(TWOBW_NCCL ON)
  cmake_path(GET NCCL_LIBRARY PARENT_PATH nccl_folder)
  add_library(nccl INTERFACE IMPORTED)
  target_include_directories(nccl INTERFACE "${NCCL_INCLUDE_DIR}")
  target_link_libraries(nccl INTERFACE "${NCCL_LIBRARY}")
  target_link_options(nccl INTERFACE "-Wl,-rpath,${nccl_folder}")
  file(STRINGS "${NCCL_INCLUDE_DIR}/nccl.h" NCCL_VERSION REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
  list(TRANSFORM NCCL_VERSION REPLACE ".* " "")
  list(JOIN NCCL_VERSION . NCCL_VERSION)
  message(STATUS "NCCL ${NCCL_VERSION} at ${NCCL_LIBRARY}")
else()
  message(STATUS "building without NCCL: no links and groups between GPUs")
endif()
