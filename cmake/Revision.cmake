# cmake -D folder=SOURCES -D from=TEMPLATE -D to=FILE -P Revision.cmake: replaces @TWOBW_REVISION@ by git's revision of
# the folder. The file is written only if it changes.
execute_process(
  COMMAND git --git-dir=${folder}/.git --work-tree=${folder} describe --always --dirty --abbrev=10 --exclude=*
  OUTPUT_VARIABLE TWOBW_REVISION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(TWOBW_REVISION unknown)
endif()
configure_file(${from} ${to} @ONLY)
