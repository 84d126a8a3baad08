// Looks at the bytes of a shared object before the dynamic loader gets them. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace simpler::chip {

// Checks that the bytes are a 64-bit ELF shared object for this machine whose headers and segments lie inside the image (the
// dynamic loader would die of SIGBUS on one that was cut off). Throws LOAD_IMAGE saying what was found.
void check_elf(std::span<const std::byte> bytes, const std::string &description);

// File offsets of the st_info bytes of all dynamic symbols with binding STB_GNU_UNIQUE, in an image that passed check_elf. Tables
// that do not make sense give fewer results, never an access outside of the image.
std::vector<size_t> find_unique_symbols(std::span<const std::byte> bytes);

// The st_info byte with binding STB_WEAK in place of the one that it has.
std::byte make_weak(std::byte st_info);

}  // namespace simpler::chip
