# What tokenizers need of other libraries. Where one is missing, opening such a tokenizer says what to install.
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h)
find_library(UTF8PROC_LIBRARY utf8proc)
if(UTF8PROC_INCLUDE_DIR AND UTF8PROC_LIBRARY)
  set(TWOBW_UTF8PROC ON)
else()
  message(STATUS "building without utf8proc: no tokenizers but bytes and sentencepiece")
endif()

find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h)
find_library(SENTENCEPIECE_LIBRARY sentencepiece)
if(SENTENCEPIECE_INCLUDE_DIR AND SENTENCEPIECE_LIBRARY)
  set(TWOBW_SENTENCEPIECE ON)
  # Where programs and tests find its module.
  list(APPEND CMAKE_BUILD_RPATH "$ORIGIN" "$ORIGIN/..")
else()
  message(STATUS "building without sentencepiece: no tokenizers from .model files")
endif()
