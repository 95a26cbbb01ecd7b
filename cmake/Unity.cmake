# Headers are most of what the compiler reads here: LibTorch's templates alone cost every file four seconds, precompiled
# or not. So the files of a folder are compiled together, some at a time. `-D TWOBW_UNITY=OFF` compiles each by
# itself, which is what one wants while working on one of them.
option(TWOBW_UNITY "Compile the files of a folder together" ON)

# Sixteen files of one folder at a time: names in their anonymous namespaces must not clash.
function(twobw_unity)
  if(NOT TWOBW_UNITY)
    return()
  endif()
  foreach(target IN LISTS ARGN)
    get_target_property(sources ${target} SOURCES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
      cmake_path(GET path PARENT_PATH folder)
      string(MAKE_C_IDENTIFIER "${folder}" name)
      if(NOT DEFINED count_${name})
        set(count_${name} 0)
      endif()
      math(EXPR group "${count_${name}} / 16")
      math(EXPR count_${name} "${count_${name}} + 1")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${target}_${name}_${group}")
    endforeach()
  endforeach()
endfunction()
