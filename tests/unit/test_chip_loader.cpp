// lib/chip: images (what is refused and why, names that do not meet, unloading) and the callable table.
#include <algorithm>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/shared_memory.h"
#include "chip/callable_table.h"
#include "chip/elf_image.h"
#include "chip/image_loader.h"

// Last: its macro `fail` would change device.h.
extern "C" {
#include <cmocka.h>
}

using namespace simpler;
using namespace simpler::chip;

namespace {

std::vector<std::byte> read_callable(const std::string &name) {
  std::ifstream file(std::string(TEST_CALLABLE_DIR "/") + name + ".so", std::ios::binary);
  assert_true(file.good());
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::byte> result(bytes.size());
  memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

std::vector<std::byte> bytes_of(const std::string &text) {
  std::vector<std::byte> result(text.size());
  memcpy(result.data(), text.data(), text.size());
  return result;
}

template <class Action>
ErrorInfo error_of(Action &&action) {
  try {
    action();
  } catch (...) {
    return capture_current_exception();
  }
  return {};
}

void assert_error(const ErrorInfo &error, simpler_status code, const char *part) {
  if (error.code != code || error.message.find(part) == std::string::npos)
    fail_msg("expected %s with \"%s\", got %s: %s", status_name(code), part, status_name(error.code), error.message.c_str());
}

ErrorInfo load_error(const std::vector<std::byte> &bytes) {
  return error_of([&] { (void)process_loader().load(bytes, "image 0 of callable \"x\""); });
}

size_t count_lines(const char *path) {
  std::ifstream file(path);
  size_t lines = 0;
  for (std::string line; std::getline(file, line);) lines++;
  return lines;
}

// One image of a callable that describes itself.
struct Package {
  explicit Package(const std::vector<std::byte> &bytes) {
    const std::span<const std::byte> part(bytes);
    fd = make_sealed_memfd("images", {&part, 1});
    manifest.name = "package";
    manifest.images.push_back({0, bytes.size()});
  }
  explicit Package(const char *callable) : Package(read_callable(callable)) {}
  std::shared_ptr<const Callable> load() const { return Callable::load(manifest, fd); }
  UniqueFd fd;
  control::CallableManifest manifest;
};

uint64_t run_kernel(const Kernel &kernel) {
  uint64_t result = 0;
  simpler_tensor tensor{};
  tensor.data = &result;
  const simpler_args args = {&tensor, nullptr, 1, 0};
  const simpler_kernel_context context{};
  kernel.function(&context, &args);
  return result;
}

// ---- images that are refused ------------------------------------------------------------------------------------------

void image_that_is_no_elf_file_is_refused_with_what_it_is(void **) {
  assert_error(load_error({}), SIMPLER_LOAD_IMAGE, "is empty");
  assert_error(load_error(bytes_of("#!/bin/sh\nexit 0\n")), SIMPLER_LOAD_IMAGE, "text \"#!/bin/sh exit 0\"");
  assert_error(load_error(std::vector<std::byte>(100, std::byte{0xff})), SIMPLER_LOAD_IMAGE, "bytes ff ff ff ff");
  assert_error(load_error(bytes_of("\177ELF")), SIMPLER_LOAD_IMAGE, "cut off");
}

void image_of_another_machine_is_refused_with_its_name(void **) {
  std::vector<std::byte> bytes = read_callable("chip_names_a");
  const uint16_t other = EM_S390;
  memcpy(bytes.data() + offsetof(Elf64_Ehdr, e_machine), &other, sizeof other);
  assert_error(load_error(bytes), SIMPLER_LOAD_IMAGE, "was built for s390");
  bytes = read_callable("chip_names_a");
  bytes[EI_CLASS] = std::byte{ELFCLASS32};
  assert_error(load_error(bytes), SIMPLER_LOAD_IMAGE, "32-bit");
}

void image_that_is_no_shared_object_is_refused_with_its_type(void **) {
  std::vector<std::byte> bytes = read_callable("chip_names_a");
  const uint16_t type = ET_REL;
  memcpy(bytes.data() + offsetof(Elf64_Ehdr, e_type), &type, sizeof type);
  assert_error(load_error(bytes), SIMPLER_LOAD_IMAGE, "relocatable object");
}

void image_cut_off_anywhere_is_refused(void **) {
  const std::vector<std::byte> whole = read_callable("chip_names_a");
  for (size_t bytes = 1; bytes < whole.size(); bytes += 61) {
    const ErrorInfo error = load_error({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes)});
    if (error.code != SIMPLER_LOAD_IMAGE) fail_msg("%zu bytes of %zu were accepted", bytes, whole.size());
  }
}

void image_with_undefined_symbol_gives_the_loaders_text(void **) {
  std::vector<std::byte> bytes = read_callable("chip_imports");
  const std::vector<std::byte> name = bytes_of("getppid");
  const auto at = std::search(bytes.begin(), bytes.end(), name.begin(), name.end());
  assert_true(at != bytes.end());
  *at = std::byte{'x'};
  assert_error(load_error(bytes), SIMPLER_LOAD_IMAGE, "undefined symbol: xetppid");
}

void missing_symbol_is_named(void **) {
  Package package("chip_names_a");
  package.manifest.kernels.push_back({1, SIMPLER_CORE_AIC, 0, "no_such_kernel"});
  assert_error(error_of([&] { package.load(); }), SIMPLER_LOAD_SYMBOL, "no_such_kernel");
  package.manifest.kernels.clear();
  assert_error(error_of([&] { package.load(); }), SIMPLER_LOAD_SYMBOL, SIMPLER_CALLABLE_TABLE_SYMBOL);
}

// ---- callables that make no sense ---------------------------------------------------------------------------------------

void callable_with_bad_kernel_list_is_refused(void **) {
  Package package("chip_names_a");
  auto &kernels = package.manifest.kernels;
  kernels.push_back({1, SIMPLER_CORE_AIC, 0, "write_answer"});
  kernels.push_back({1, SIMPLER_CORE_AIV, 0, "write_answer"});
  assert_error(error_of([&] { package.load(); }), SIMPLER_INVALID_ARGUMENT, "kernel id 1");
  kernels[1].kernel_id = SIMPLER_NO_KERNEL;
  assert_error(error_of([&] { package.load(); }), SIMPLER_INVALID_ARGUMENT, "SIMPLER_NO_KERNEL");
  kernels[1].kernel_id = 2;
  assert_error(error_of([&] { package.load(); }), SIMPLER_INVALID_ARGUMENT, "exactly one");
  kernels[1].core_type = 3;
  assert_error(error_of([&] { package.load(); }), SIMPLER_INVALID_ARGUMENT, "core type 3");
  kernels[1].core_type = SIMPLER_CORE_AIV;
  kernels[1].image = 4;
  assert_error(error_of([&] { package.load(); }), SIMPLER_INVALID_ARGUMENT, "image 4 of 1");
  kernels.resize(1);
  package.manifest.images[0].bytes += 1;
  assert_error(error_of([&] { package.load(); }), SIMPLER_INVALID_ARGUMENT, "image 0");
}

void table_of_another_version_is_refused(void **) {
  assert_error(error_of([] { Package("chip_future").load(); }), SIMPLER_LOAD_VERSION, "device interface 4096");
}

void sparse_kernel_ids_are_found(void **) {
  Package package("chip_names_a");
  const uint32_t ids[] = {4000000000u, 7, 0, 123456, 4294967294u};
  for (const uint32_t id : ids) package.manifest.kernels.push_back({id, SIMPLER_CORE_AIC, 0, "write_answer"});
  package.manifest.orchestration_symbol = "shared_answer";
  const std::shared_ptr<const Callable> callable = package.load();
  for (const uint32_t id : ids) assert_int_equal(callable->find_kernel(id)->id, id);
  assert_null(callable->find_kernel(1));
  assert_null(callable->find_kernel(SIMPLER_NO_KERNEL));
}

// ---- two images, reloading ----------------------------------------------------------------------------------------------

void equal_names_in_two_images_do_not_meet(void **) {
  Package a("chip_names_a"), b("chip_names_b");
  for (Package *package : {&a, &b}) package->manifest.kernels.push_back({1, SIMPLER_CORE_AIC, 0, "write_answer"});
  const auto loaded_a = a.load(), loaded_b = b.load();
  assert_int_equal(run_kernel(loaded_a->kernels()[0]), (1ull << 32) + 0xa);
  assert_int_equal(run_kernel(loaded_b->kernels()[0]), (1ull << 32) + 0xb);
  assert_int_equal(run_kernel(loaded_a->kernels()[0]), (2ull << 32) + 0xa);
}

void equal_bytes_loaded_twice_have_variables_of_their_own(void **) {
  Package package("chip_names_a");
  package.manifest.kernels.push_back({1, SIMPLER_CORE_AIC, 0, "write_answer"});
  const auto first = package.load(), second = package.load();
  assert_int_equal(run_kernel(first->kernels()[0]), (1ull << 32) + 0xa);
  assert_int_equal(run_kernel(second->kernels()[0]), (1ull << 32) + 0xa);
}

void alternating_images_never_give_old_code_and_leave_nothing_behind(void **) {
  const Package unique("chip_unique");
  Package packages[] = {Package("chip_names_a"), Package("chip_names_b")};
  for (Package &package : packages) package.manifest.kernels.push_back({1, SIMPLER_CORE_AIC, 0, "write_answer"});
  size_t maps = 0;
  for (int cycle = 0; cycle < 500; cycle++) {
    const auto callable = packages[cycle % 2].load();
    assert_int_equal(run_kernel(callable->kernels()[0]), (1ull << 32) + (cycle % 2 == 0 ? 0xa : 0xb));
    const auto with_unique = unique.load();
    assert_int_equal(run_kernel(with_unique->kernels()[0]), 1);  // neither merged nor left over from the last cycle
    if (cycle == 20) maps = count_lines("/proc/self/maps");
  }
  assert_int_equal(process_loader().pinned_count(), 0);
  assert_in_range(count_lines("/proc/self/maps"), 1, maps + 8);
}

void object_that_stays_loaded_is_taken_up_again(void **) {
  const Package package("chip_pinned");
  for (int cycle = 0; cycle < 50; cycle++) {
    {
      const auto callable = package.load();
      assert_int_equal(run_kernel(callable->kernels()[0]), 1);
      assert_int_equal(process_loader().pinned_count(), 0);
    }
    assert_int_equal(process_loader().pinned_count(), 1);
  }
}

void unique_symbols_are_found_in_an_image(void **) {
  assert_int_equal(find_unique_symbols(read_callable("chip_unique")).size(), 1);
  assert_int_equal(find_unique_symbols(read_callable("chip_names_a")).size(), 0);
}

// ---- the table ----------------------------------------------------------------------------------------------------------

void slot_is_free_at_once_and_a_stale_generation_is_refused(void **) {
  CallableTable table(4);
  const Package package("chip_unique");
  table.load(2, 10, package.manifest, package.fd);
  assert_error(error_of([&] { table.load(2, 11, package.manifest, package.fd); }), SIMPLER_ALREADY_EXISTS, "cid 2");
  assert_error(error_of([&] { table.load(4, 1, package.manifest, package.fd); }), SIMPLER_INVALID_ARGUMENT, "4 slots");
  const auto in_use = table.find(2, 10);
  assert_error(error_of([&] { table.unload(2, 9); }), SIMPLER_NOT_FOUND, "generation 10");
  table.unload(2, 10);
  assert_error(error_of([&] { table.unload(2, 10); }), SIMPLER_NOT_FOUND, "empty");
  table.load(2, 11, package.manifest, package.fd);
  assert_error(error_of([&] { (void)table.find(2, 10); }), SIMPLER_INVALID_HANDLE, "generation 11");
  assert_ptr_not_equal(table.find(2, 11).get(), in_use.get());
  assert_int_equal(run_kernel(in_use->kernels()[0]), 1);  // the code is still there for whoever holds it
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(image_that_is_no_elf_file_is_refused_with_what_it_is),
      cmocka_unit_test(image_of_another_machine_is_refused_with_its_name),
      cmocka_unit_test(image_that_is_no_shared_object_is_refused_with_its_type),
      cmocka_unit_test(image_cut_off_anywhere_is_refused),
      cmocka_unit_test(image_with_undefined_symbol_gives_the_loaders_text),
      cmocka_unit_test(missing_symbol_is_named),
      cmocka_unit_test(callable_with_bad_kernel_list_is_refused),
      cmocka_unit_test(table_of_another_version_is_refused),
      cmocka_unit_test(sparse_kernel_ids_are_found),
      cmocka_unit_test(equal_names_in_two_images_do_not_meet),
      cmocka_unit_test(equal_bytes_loaded_twice_have_variables_of_their_own),
      cmocka_unit_test(alternating_images_never_give_old_code_and_leave_nothing_behind),
      cmocka_unit_test(object_that_stays_loaded_is_taken_up_again),
      cmocka_unit_test(unique_symbols_are_found_in_an_image),
      cmocka_unit_test(slot_is_free_at_once_and_a_stale_generation_is_refused),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
