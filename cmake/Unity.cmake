# Headers are most of what the compiler reads here: LibTorch's templates alone cost every file four seconds, precompiled
# or not. So files are compiled together, many at a time. `-D TWOBW_UNITY=OFF` compiles each by itself, which is what
# one wants while working on one of them.
option(TWOBW_UNITY "Compile many files together" ON)

# Two dozen files at a time, folder after folder: names in the anonymous namespaces of a folder must not clash.
function(twobw_unity)
  if(NOT TWOBW_UNITY)
    return()
  endif()
  foreach(target IN LISTS ARGN)
    get_target_property(sources ${target} SOURCES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    set(paths "")
    foreach(source IN LISTS sources)
      cmake_path(ABSOLUTE_PATH source OUTPUT_VARIABLE path)
      list(APPEND paths ${path})
    endforeach()
    list(SORT paths)
    set(count 0)
    foreach(path IN LISTS paths)
      math(EXPR group "${count} / 24")
      math(EXPR count "${count} + 1")
      set_source_files_properties(${path} PROPERTIES UNITY_GROUP "${target}_${group}")
    endforeach()
  endforeach()
endfunction()
