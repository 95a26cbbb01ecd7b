# Install rules of the Python package (pyproject.toml): the programs and their shared libraries go to bin. LibTorch's
# libraries stay in the package torch, which pip installs next to the package twobw.
set(package_targets twobw)
if(TWOBW_SENTENCEPIECE)
  list(APPEND package_targets twobw_sentencepiece)
endif()
set_target_properties(${package_targets} PROPERTIES INSTALL_RPATH "$ORIGIN")

set(engine_folder bin)
if(TWOBW_ENGINE)
  set(engine twobw-engine)
  set(engine_rpath "$ORIGIN" "$ORIGIN/../../torch/lib")
  if(TWOBW_TORCH_CUDA)
    set(engine twobw-engine-cuda)
    set(engine_folder bin/cuda)  # renamed below
    # The packages nvidia-*, at the paths that LibTorch itself searches; torch/lib is as deep as twobw/bin.
    file(READ_ELF "${TORCH_ROOT}/lib/libtorch_cuda.so" RPATH torch_rpath RUNPATH torch_runpath)
    string(REPLACE ":" ";" torch_rpath "${torch_rpath};${torch_runpath}")
    list(FILTER torch_rpath INCLUDE REGEX "nvidia")
    list(APPEND engine_rpath ${torch_rpath})
  endif()
  set_target_properties(twobw-engine PROPERTIES INSTALL_RPATH "${engine_rpath}")
  install(TARGETS twobw-engine RUNTIME_DEPENDENCY_SET package_libraries DESTINATION ${engine_folder} COMPONENT wheel)
endif()

install(TARGETS ${package_targets} RUNTIME_DEPENDENCY_SET package_libraries DESTINATION bin COMPONENT wheel)
# The libraries of the second line are part of every Linux.
install(RUNTIME_DEPENDENCY_SET package_libraries DESTINATION bin COMPONENT wheel
  PRE_EXCLUDE_REGEXES "^lib(torch|c10|cuda|cublas|nccl|gomp)"
                      "^(ld-linux|lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s|z)\\.so)")

# Next to an installed engine, the version of LibTorch that it needs: app/cli/engine_program.h. In the build folder it is
# not next to the programs, which would take themselves for installed ones.
if(TWOBW_ENGINE)
  file(WRITE ${CMAKE_BINARY_DIR}/package/${engine}.torch "${TORCH_VARIANT}\n")
  install(FILES ${CMAKE_BINARY_DIR}/package/${engine}.torch DESTINATION bin COMPONENT wheel)
  if(TWOBW_TORCH_CUDA)
    install(CODE "file(RENAME \${CMAKE_INSTALL_PREFIX}/bin/cuda/twobw-engine \${CMAKE_INSTALL_PREFIX}/bin/${engine})
                  file(REMOVE_RECURSE \${CMAKE_INSTALL_PREFIX}/bin/cuda)" COMPONENT wheel)
  endif()
endif()
