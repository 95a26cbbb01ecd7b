# LibTorch from the PyPI package torch in .venv, or of the interpreter TWOBW_PYTHON, or of the one that builds the Python
# package, as an imported target: the package's CMake config requires a CUDA toolkit even for CPU use.
if(DEFINED ENV{TWOBW_PYTHON})
  set(TWOBW_PYTHON "$ENV{TWOBW_PYTHON}")
elseif(SKBUILD)
  set(TWOBW_PYTHON "${Python_EXECUTABLE}")
else()
  set(TWOBW_PYTHON "${PROJECT_SOURCE_DIR}/.venv/bin/python")
endif()
execute_process(
  COMMAND "${TWOBW_PYTHON}" -c
          "import importlib.util, importlib.metadata as m; print(importlib.util.find_spec('torch').submodule_search_locations[0] + ';' + m.version('torch'), end='')"
  OUTPUT_VARIABLE torch_found RESULT_VARIABLE torch_failed ERROR_VARIABLE torch_error)
if(torch_failed)
  message(FATAL_ERROR "no torch for ${TWOBW_PYTHON}: run scripts/install.sh first.\n${torch_error}")
endif()
list(GET torch_found 0 TORCH_ROOT)
list(GET torch_found 1 TORCH_VERSION)

file(STRINGS "${PROJECT_SOURCE_DIR}/requirements.txt" torch_pin REGEX "^torch==")
string(REPLACE "torch==" "" torch_pin "${torch_pin}")
string(REGEX REPLACE "\\+.*" "" torch_plain "${TORCH_VERSION}")
if(NOT torch_plain STREQUAL torch_pin)
  message(FATAL_ERROR "torch ${TORCH_VERSION} at ${TORCH_ROOT}, but requirements.txt pins ${torch_pin}")
endif()

add_library(libtorch INTERFACE IMPORTED)
# Searched last: the wheel brings a copy of fmt, which must not hide the system's.
target_compile_options(libtorch INTERFACE
  "SHELL:-idirafter ${TORCH_ROOT}/include" "SHELL:-idirafter ${TORCH_ROOT}/include/torch/csrc/api/include")
target_link_libraries(libtorch INTERFACE "${TORCH_ROOT}/lib/libtorch_cpu.so" "${TORCH_ROOT}/lib/libc10.so")
# The program finds the wheel's libraries by the rpath that CMake sets; their dependencies, such as CUDA's runtime, need
# not be resolved at link time.
target_link_options(libtorch INTERFACE "-Wl,--unresolved-symbols=ignore-in-shared-libs")
target_compile_definitions(libtorch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
# With the variant, which the package's own version may lack: 2.11.0+cu130.
file(STRINGS "${TORCH_ROOT}/version.py" TORCH_VARIANT REGEX "^__version__")
string(REGEX REPLACE ".*'(.*)'.*" "\\1" TORCH_VARIANT "${TORCH_VARIANT}")
message(STATUS "LibTorch ${TORCH_VARIANT} at ${TORCH_ROOT}")
