# How our own code is built: simpler_flags (warnings, sanitizers, visibility), simpler_add_part and the build id.

set(SIMPLER_GENERATED_DIR ${PROJECT_BINARY_DIR}/generated)

# ---- flags ------------------------------------------------------------------------------------------------------------
#
# Linked PRIVATE by everything of ours and by nothing else: callables and the programs of users get none of this. In
# particular sanitizers are not put into CMAKE_<LANG>_FLAGS, because callables are built once and loaded into any build.
add_library(simpler_flags INTERFACE)
target_compile_features(simpler_flags INTERFACE c_std_11 cxx_std_20)
target_compile_definitions(simpler_flags INTERFACE _GNU_SOURCE)
target_compile_options(simpler_flags INTERFACE
  -fno-omit-frame-pointer # stacks in hang reports
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wformat=2 -Wundef -Wvla -Wpointer-arith
  -Wimplicit-fallthrough
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi>
  $<$<CXX_COMPILER_ID:GNU>:-Wlogical-op -Wduplicated-cond>
  $<$<BOOL:${SIMPLER_WERROR}>:-Werror>)

# Sanitizers reach the executables of our tree that link the shared library, too (BUILD_INTERFACE below).
add_library(simpler_sanitize INTERFACE)
if(SIMPLER_SANITIZE)
  # -g1: file and line are enough for reports, and halve the size of the build tree.
  target_compile_options(simpler_sanitize INTERFACE
    -fsanitize=${SIMPLER_SANITIZE} -fno-sanitize-recover=all -O1 -g1)
  target_link_options(simpler_sanitize INTERFACE -fsanitize=${SIMPLER_SANITIZE})
  if(SIMPLER_SANITIZE MATCHES "thread")
    # Fences are not understood by ThreadSanitizer; gcc warns about each.
    target_compile_options(simpler_sanitize INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()
target_link_libraries(simpler_flags INTERFACE simpler_sanitize)

# What a target of our own gets, whatever it is: simpler_use_flags(<target>)
function(simpler_use_flags target)
  target_link_libraries(${target} PRIVATE simpler_flags)
  set_target_properties(${target} PROPERTIES
    C_EXTENSIONS OFF CXX_EXTENSIONS OFF C_STANDARD 11 C_STANDARD_REQUIRED ON
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
endfunction()

# ---- the parts under lib/ -----------------------------------------------------------------------------------------------
#
# simpler_add_part(<target> [DEPENDS <part targets>] [LINK <other libraries>])
# A static library of all *.cpp of the folder; an INTERFACE library while the folder has headers only. DEPENDS is public and
# states the one-way order of the parts: base <- graph, control <- chip <- host. SIMPLER_PARTS collects the targets.
function(simpler_add_part target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS;LINK")
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  if(sources)
    add_library(${target} STATIC ${sources})
    simpler_use_flags(${target})
    add_dependencies(${target} simpler_generate)
    set(kind PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(kind INTERFACE)
  endif()
  target_include_directories(${target} ${kind} ${PROJECT_SOURCE_DIR}/lib ${SIMPLER_GENERATED_DIR})
  target_include_directories(${target} SYSTEM ${kind} ${SIMPLER_GENERATED_DIR}/flatbuffers)
  target_compile_features(${target} ${kind} cxx_std_20)
  target_link_libraries(${target} ${kind} simpler_headers ${arg_DEPENDS} ${arg_LINK})
  set_property(GLOBAL APPEND PROPERTY SIMPLER_PARTS ${target})
endfunction()

# ---- generated headers ----------------------------------------------------------------------------------------------------
#
# generated/build_id.h: a digest of all sources under lib/ and include/, the compilers and the flags. The library and
# simpler-chip compare it at their handshake. Rewritten only when it changes. Include it in as few files as possible.
file(GLOB_RECURSE simpler_id_sources CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/lib/*.cpp ${PROJECT_SOURCE_DIR}/lib/*.h ${PROJECT_SOURCE_DIR}/lib/*.fbs
  ${PROJECT_SOURCE_DIR}/include/*.h)
string(TOUPPER "${CMAKE_BUILD_TYPE}" simpler_config)
set(simpler_config_flags "${CMAKE_CXX_FLAGS_${simpler_config}}")
list(JOIN simpler_id_sources "\n" simpler_id_list)
file(CONFIGURE OUTPUT ${SIMPLER_GENERATED_DIR}/build_id.in @ONLY CONTENT
"@PROJECT_VERSION@ @CMAKE_SYSTEM_PROCESSOR@ @CMAKE_CXX_COMPILER_ID@ @CMAKE_CXX_COMPILER_VERSION@ \
@CMAKE_CXX_FLAGS@ @simpler_config_flags@ @SIMPLER_SANITIZE@
@simpler_id_list@
")
add_custom_command(
  OUTPUT ${SIMPLER_GENERATED_DIR}/build_id.h
  COMMAND ${CMAKE_COMMAND} -D INPUT=${SIMPLER_GENERATED_DIR}/build_id.in -D OUTPUT=${SIMPLER_GENERATED_DIR}/build_id.h
          -D ROOT=${PROJECT_SOURCE_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/build_id.cmake
  DEPENDS ${simpler_id_sources} ${SIMPLER_GENERATED_DIR}/build_id.in ${PROJECT_SOURCE_DIR}/cmake/build_id.cmake
  COMMENT "Digest of the sources" VERBATIM)

# generated/flatbuffers/protocol_generated.h from the schema of the control messages.
file(GLOB simpler_schema CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/lib/control/protocol.fbs)
set(simpler_generated_headers ${SIMPLER_GENERATED_DIR}/build_id.h)
if(simpler_schema)
  list(APPEND simpler_generated_headers ${SIMPLER_GENERATED_DIR}/flatbuffers/protocol_generated.h)
  add_custom_command(
    OUTPUT ${SIMPLER_GENERATED_DIR}/flatbuffers/protocol_generated.h
    COMMAND ${SIMPLER_FLATC} --cpp --scoped-enums --warnings-as-errors
            -o ${SIMPLER_GENERATED_DIR}/flatbuffers ${simpler_schema}
    DEPENDS ${simpler_schema} VERBATIM)
endif()
add_custom_target(simpler_generate DEPENDS ${simpler_generated_headers})
