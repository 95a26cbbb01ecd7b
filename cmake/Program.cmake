# An extended twobw program: twobw_add_program(NAME SOURCES...) builds ${CMAKE_BINARY_DIR}/NAME from the sources, one of
# which has main() (app/cli/program.h), and from all of twobw. Example: examples/gmlp.
option(TWOBW_EXAMPLES "Build the programs in examples/" ON)
set(TWOBW_PROGRAMS "" CACHE STRING "Folders elsewhere, each with a CMakeLists.txt that calls twobw_add_program")

function(twobw_add_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE twobw_app)
  target_compile_options(${name} PRIVATE -O1)
  target_precompile_headers(${name} REUSE_FROM twobw_engine)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
endfunction()
