# CUDA where a compiler for it is found; a GPU is not needed to build. Without one nothing of it is built, nor
# under the sanitizers, which do not know CUDA.
if(NOT TWOBW_SANITIZE)
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(CMAKE_CUDA_COMPILER)
  # For the GPUs of this machine; where there are none PTX, which the driver compiles for the GPU it meets (Ampere or
  # later). CMAKE_CUDA_ARCHITECTURES names others.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE found ERROR_QUIET RESULT_VARIABLE failed)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" found "${found}")
    list(TRANSFORM found REPLACE "\\." "")
    list(REMOVE_DUPLICATES found)
    if(found AND NOT failed)
      set(CMAKE_CUDA_ARCHITECTURES ${found})
    else()
      set(CMAKE_CUDA_ARCHITECTURES 80-virtual)
    endif()
  endif()
  enable_language(CUDA)
  set(CMAKE_CUDA_STANDARD 20)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 13 has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  endif()
  find_package(CUDAToolkit REQUIRED)
  message(STATUS "CUDA ${CUDAToolkit_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "building without CUDA")
endif()

# Training on GPUs also needs a LibTorch with CUDA; kernels build without.
if(CMAKE_CUDA_COMPILER AND EXISTS "${TORCH_ROOT}/lib/libtorch_cuda.so")
  set(TWOBW_TORCH_CUDA ON)
  target_link_options(libtorch INTERFACE "-Wl,--no-as-needed")
  target_link_libraries(libtorch INTERFACE "${TORCH_ROOT}/lib/libtorch_cuda.so" "${TORCH_ROOT}/lib/libc10_cuda.so")
else()
  message(STATUS "LibTorch has no CUDA: building without training on GPUs")
endif()
