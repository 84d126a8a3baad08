#include "chip/elf_image.h"

#include <cstring>
#include <elf.h>
#include <optional>

#include "base/error.h"

namespace simpler::chip {

namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
#elif defined(__riscv)
constexpr uint16_t kMachine = EM_RISCV;
#elif defined(__powerpc64__)
constexpr uint16_t kMachine = EM_PPC64;
#elif defined(__s390x__)
constexpr uint16_t kMachine = EM_S390;
#else
#error "add this machine's ELF number"
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
constexpr unsigned char kData = ELFDATA2LSB;
#else
constexpr unsigned char kData = ELFDATA2MSB;
#endif

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "AArch64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "32-bit Arm";
    case EM_RISCV:
      return "RISC-V";
    case EM_PPC64:
      return "64-bit PowerPC";
    case EM_S390:
      return "s390";
    default:
      return fmt::format("machine number {}", machine);
  }
}

const char *type_name(uint16_t type) {
  switch (type) {
    case ET_REL:
      return "a relocatable object (link it with -shared)";
    case ET_EXEC:
      return "an executable at a fixed address";
    case ET_CORE:
      return "a core dump";
    default:
      return "of an unknown ELF type";
  }
}

// Reads a T at `offset`, wherever it lies; nothing when it is not inside.
template <class T>
std::optional<T> read_at(std::span<const std::byte> bytes, uint64_t offset) {
  if (offset > bytes.size() || sizeof(T) > bytes.size() - offset) return std::nullopt;
  T value;
  memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

bool lies_inside(uint64_t offset, uint64_t length, uint64_t total) { return offset <= total && length <= total - offset; }

std::string describe_start(std::span<const std::byte> bytes) {
  std::string text;
  bool printable = true;
  for (size_t i = 0; i < bytes.size() && i < 16; i++) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (c == '\n' || c == '\r' || c == '\t') {
      text += ' ';
    } else if (c >= 0x20 && c < 0x7f) {
      text += static_cast<char>(c);
    } else {
      printable = false;
    }
  }
  if (printable) return fmt::format("starts with the text \"{}\"", text);
  std::string hex;
  for (size_t i = 0; i < bytes.size() && i < 4; i++)
    hex += fmt::format("{}{:02x}", i == 0 ? "" : " ", static_cast<unsigned>(bytes[i]));
  return fmt::format("starts with the bytes {}", hex);
}

Elf64_Phdr program_header(std::span<const std::byte> bytes, const Elf64_Ehdr &header, uint32_t i) {
  // check_elf has made sure that the table lies inside
  return *read_at<Elf64_Phdr>(bytes, header.e_phoff + uint64_t{i} * header.e_phentsize);
}

}  // namespace

void check_elf(std::span<const std::byte> bytes, const std::string &description) {
  const auto refuse = [&](const std::string &why) { throw_error(SIMPLER_LOAD_IMAGE, "{}: {}", description, why); };
  if (bytes.empty()) refuse("is empty");
  if (bytes.size() < SELFMAG || memcmp(bytes.data(), ELFMAG, SELFMAG) != 0)
    refuse(fmt::format("is not an ELF shared object: it {}", describe_start(bytes)));
  if (bytes.size() < EI_NIDENT) refuse(fmt::format("is cut off: {} bytes are less than an ELF header", bytes.size()));
  const auto elf_class = static_cast<unsigned char>(bytes[EI_CLASS]);
  if (elf_class != ELFCLASS64)
    refuse(fmt::format("is a {} ELF file, 64-bit is needed", elf_class == ELFCLASS32 ? "32-bit" : "malformed"));
  const auto elf_data = static_cast<unsigned char>(bytes[EI_DATA]);
  if (elf_data != kData) refuse("has the other byte order than this machine");
  const std::optional<Elf64_Ehdr> header = read_at<Elf64_Ehdr>(bytes, 0);
  if (!header) refuse(fmt::format("is cut off: {} bytes are less than an ELF header", bytes.size()));
  if (header->e_machine != kMachine)
    refuse(fmt::format("was built for {}, this machine is {}", machine_name(header->e_machine), machine_name(kMachine)));
  if (header->e_type != ET_DYN) refuse(fmt::format("is {}, a shared object is needed", type_name(header->e_type)));
  if (header->e_phentsize != sizeof(Elf64_Phdr) || header->e_phnum == 0)
    refuse(fmt::format("has {} program headers of {} bytes", header->e_phnum, header->e_phentsize));
  const auto check_inside = [&](uint64_t offset, uint64_t length, const char *what) {
    if (!lies_inside(offset, length, bytes.size()))
      refuse(fmt::format("is cut off: {} of {} bytes at offset {} in an image of {} bytes", what, length, offset,
                         bytes.size()));
  };
  check_inside(header->e_phoff, uint64_t{header->e_phnum} * header->e_phentsize, "program headers");
  if (header->e_shoff != 0)
    check_inside(header->e_shoff, uint64_t{header->e_shnum} * header->e_shentsize, "section headers");
  bool has_dynamic = false;
  for (uint32_t i = 0; i < header->e_phnum; i++) {
    const Elf64_Phdr segment = program_header(bytes, *header, i);
    if (segment.p_type == PT_LOAD || segment.p_type == PT_DYNAMIC)
      check_inside(segment.p_offset, segment.p_filesz, "a segment");
    has_dynamic = has_dynamic || segment.p_type == PT_DYNAMIC;
  }
  if (!has_dynamic) refuse("has no dynamic section, a shared object is needed");
}

std::vector<size_t> find_unique_symbols(std::span<const std::byte> bytes) {
  std::vector<size_t> found;
  const std::optional<Elf64_Ehdr> header = read_at<Elf64_Ehdr>(bytes, 0);
  if (!header) return found;
  const auto file_offset = [&](uint64_t address) -> std::optional<uint64_t> {
    for (uint32_t i = 0; i < header->e_phnum; i++) {
      const Elf64_Phdr segment = program_header(bytes, *header, i);
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
        return segment.p_offset + (address - segment.p_vaddr);
    }
    return std::nullopt;
  };

  std::optional<uint64_t> symbols, hash, gnu_hash;
  for (uint32_t i = 0; i < header->e_phnum; i++) {
    const Elf64_Phdr segment = program_header(bytes, *header, i);
    if (segment.p_type != PT_DYNAMIC) continue;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz; at += sizeof(Elf64_Dyn)) {
      const std::optional<Elf64_Dyn> entry = read_at<Elf64_Dyn>(bytes, segment.p_offset + at);
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_SYMTAB) symbols = file_offset(entry->d_un.d_ptr);
      if (entry->d_tag == DT_HASH) hash = file_offset(entry->d_un.d_ptr);
      if (entry->d_tag == DT_GNU_HASH) gnu_hash = file_offset(entry->d_un.d_ptr);
    }
  }
  if (!symbols) return found;

  // The symbol table does not say how long it is; the hash tables do.
  uint64_t count = 0;
  if (hash) {
    count = read_at<uint32_t>(bytes, *hash + 4).value_or(0);
  } else if (gnu_hash) {
    const uint32_t buckets = read_at<uint32_t>(bytes, *gnu_hash).value_or(0);
    const uint32_t first = read_at<uint32_t>(bytes, *gnu_hash + 4).value_or(0);
    const uint32_t bloom_words = read_at<uint32_t>(bytes, *gnu_hash + 8).value_or(0);
    const uint64_t bucket_at = *gnu_hash + 16 + uint64_t{bloom_words} * 8;
    const uint64_t chain_at = bucket_at + uint64_t{buckets} * 4;
    uint32_t last = 0;
    for (uint32_t i = 0; i < buckets; i++) {
      const std::optional<uint32_t> bucket = read_at<uint32_t>(bytes, bucket_at + uint64_t{i} * 4);
      if (!bucket) return found;
      last = *bucket > last ? *bucket : last;
    }
    if (last < first) return found;  // no symbol is defined
    for (;; last++) {                // the low bit ends the last bucket's chain
      const std::optional<uint32_t> chain = read_at<uint32_t>(bytes, chain_at + uint64_t{last - first} * 4);
      if (!chain) return found;
      if ((*chain & 1u) != 0) break;
    }
    count = uint64_t{last} + 1;
  }
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t at = *symbols + i * sizeof(Elf64_Sym);
    const std::optional<Elf64_Sym> symbol = read_at<Elf64_Sym>(bytes, at);
    if (!symbol) break;
    if (ELF64_ST_BIND(symbol->st_info) == STB_GNU_UNIQUE) found.push_back(at + offsetof(Elf64_Sym, st_info));
  }
  return found;
}

std::byte make_weak(std::byte st_info) {
  return static_cast<std::byte>(ELF64_ST_INFO(STB_WEAK, ELF64_ST_TYPE(static_cast<unsigned char>(st_info))));
}

}  // namespace simpler::chip
