# simpler_add_callable(<target> SOURCES <file>... [OUTPUT_NAME <name>])
#
# Builds <name>.so (default: <target>.so), a shared object of kernels and orchestrations that a worker can register. It
# includes simpler/device.h and links nothing of libsimpler. The same without CMake:
#
#   cc  -O2 -fPIC -shared -fvisibility=hidden $(pkg-config --cflags simpler) kernels.c -o kernels.so
#   c++ -O2 -fPIC -shared -fvisibility=hidden -fno-gnu-unique $(pkg-config --cflags simpler) kernels.cpp -o kernels.so
#
# -fno-gnu-unique matters for g++: an object with unique symbols can never be unloaded. What kernels need besides (libm, for
# example) is added with target_link_libraries(<target> PRIVATE m). The file is $<TARGET_FILE:<target>>.
include_guard(GLOBAL)

function(simpler_add_callable target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_NAME" "SOURCES")
  if(NOT arg_SOURCES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "simpler_add_callable(<target> SOURCES <file>... [OUTPUT_NAME <name>]): "
                        "got SOURCES '${arg_SOURCES}', and '${arg_UNPARSED_ARGUMENTS}'")
  endif()
  if(NOT arg_OUTPUT_NAME)
    set(arg_OUTPUT_NAME ${target})
  endif()
  add_library(${target} MODULE ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE simpler::headers)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  target_link_options(${target} PRIVATE -Wl,-z,defs)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    target_compile_options(${target} PRIVATE -O2)
  endif()
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${arg_OUTPUT_NAME} POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
endfunction()
