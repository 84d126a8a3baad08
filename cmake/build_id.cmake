# Writes OUTPUT with the digest of INPUT and of the files that INPUT lists from its second line on. Paths count relative to
# ROOT, so that two checkouts of the same sources have the same id.
cmake_minimum_required(VERSION 3.25)
file(STRINGS ${INPUT} lines)
list(POP_FRONT lines text)
foreach(path IN LISTS lines)
  file(SHA256 ${path} digest)
  file(RELATIVE_PATH name ${ROOT} ${path})
  string(APPEND text "\n${name} ${digest}")
endforeach()
string(SHA256 id "${text}")
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT
"/* Generated. Digest of the sources, the compiler and the flags: equal in a library and a simpler-chip that belong together. */
#define SIMPLER_BUILD_ID \"${id}\"
")
