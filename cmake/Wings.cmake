# twobw_add(TARGET FOLDER...) adds the .cc files directly in these folders to the target. Code for an optional library
# is in the folders with_LIBRARY and without_LIBRARY.
function(twobw_add target)
  list(TRANSFORM ARGN APPEND /*.cc OUTPUT_VARIABLE patterns)
  list(TRANSFORM patterns PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  target_sources(${target} PRIVATE ${sources})
endfunction()

# twobw_wing(TARGET FOLDERS... LINKS...) is a static library of these folders.
function(twobw_wing target)
  cmake_parse_arguments(ARG "" "" "FOLDERS;LINKS" ${ARGN})
  add_library(${target} STATIC)
  twobw_add(${target} ${ARG_FOLDERS})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target} PUBLIC ${ARG_LINKS})
endfunction()
