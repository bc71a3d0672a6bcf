# Included into llama-cpp-python's build right after its project() call (see the Makefile).
#
# Its CMakeLists forces llama.cpp's `common` library on as a cache entry, although only llama.cpp's
# own programs use it: chat templates, argument parsing, a JSON library. A normal variable of that
# name takes precedence, and halves the time of the build.
set(LLAMA_BUILD_COMMON OFF)
