// lib/base: errors, waits, shared memory, digests, CPU budget.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "support.h"

#include "base/clock.h"
#include "base/cpu_budget.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/shared_memory.h"
#include "base/wait.h"

using namespace simpler;

namespace {

// ---- errors ---------------------------------------------------------------------------------------------------------

void error_carries_code_and_text(void **) {
  try {
    throw_error(SIMPLER_BUSY, "buffer of {} bytes", 12);
    fail();
  } catch (...) {
    const ErrorInfo info = capture_current_exception();
    assert_int_equal(info.code, SIMPLER_BUSY);
    assert_string_equal(info.message.c_str(), "buffer of 12 bytes");
    assert_int_equal(info.chip, kNoChip);
  }
}

void foreign_exceptions_become_values(void **) {
  try {
    throw std::bad_alloc();
  } catch (...) {
    assert_int_equal(capture_current_exception().code, SIMPLER_OUT_OF_MEMORY);
  }
  try {
    throw 42;
  } catch (...) {
    assert_int_equal(capture_current_exception().code, SIMPLER_INTERNAL);
  }
}

void system_error_names_call_and_errno(void **) {
  try {
    throw_system_error(EACCES, "opening it");
    fail();
  } catch (const Error &error) {
    assert_int_equal(error.info().code, SIMPLER_SYSTEM_ERROR);
    assert_non_null(strstr(error.what(), "opening it failed: Permission denied"));
  }
}

void broken_invariant_is_internal(void **) {
  try {
    SIMPLER_ASSERT(1 == 2);
    fail();
  } catch (const Error &error) {
    assert_int_equal(error.info().code, SIMPLER_INTERNAL);
    assert_non_null(strstr(error.what(), "1 == 2"));
  }
}

void every_status_has_a_name(void **) {
  assert_string_equal(status_name(SIMPLER_OK), "OK");
  assert_string_equal(status_name(SIMPLER_DEADLOCK_WINDOW), "DEADLOCK_WINDOW");
  assert_string_equal(status_name(-1), "UNKNOWN");
  assert_string_equal(status_name(9999), "UNKNOWN");
}

// ---- waits ----------------------------------------------------------------------------------------------------------

void wait_ends_at_its_deadline(void **) {
  Doorbell bell;
  const uint64_t start = now_ns();
  assert_false(bell.wait(deadline_after(3'000'000), [] { return false; }));
  assert_true(now_ns() - start >= 3'000'000);
}

void deadline_saturates(void **) {
  assert_true(deadline_after(kForever) == kForever);
  assert_true(deadline_after(kForever - 1) == kForever);
  assert_true(deadline_after(0) <= now_ns());
}

void a_true_condition_does_not_wait(void **) {
  Doorbell bell;
  assert_true(bell.wait(0, [] { return true; }));
}

// Two threads hand a token back and forth; a single lost wake-up would hang the test (ctest's timeout fails it).
void no_wake_up_is_lost(void **) {
  constexpr uint64_t kRounds = 20'000;
  Doorbell bells[2];
  std::atomic<uint64_t> turn{0};
  auto player = [&](uint64_t parity) {
    for (uint64_t round = 0; round < kRounds; round++) {
      const uint64_t mine = round * 2 + parity;
      bells[parity].wait(kForever, [&] { return turn.load(std::memory_order_seq_cst) == mine; });
      turn.store(mine + 1, std::memory_order_seq_cst);
      bells[1 - parity].ring();
    }
  };
  std::thread other(player, 1);
  player(0);
  other.join();
  assert_int_equal(turn.load(), kRounds * 2);
}

// The same with sleepers that park at once, over two processes.
void doorbell_works_across_processes(void **) {
  struct Page {
    Doorbell bells[2];
    std::atomic<uint64_t> turn;
  };
  constexpr uint64_t kRounds = 2'000;
  SharedMemory memory = SharedMemory::create("test", 4096);
  auto *page = new (memory.data()) Page();
  auto player = [&](uint64_t parity) {
    PollBudget budget;
    for (int i = 0; i < 10; i++) budget.had_to_park();
    for (uint64_t round = 0; round < kRounds; round++) {
      const uint64_t mine = round * 2 + parity;
      page->bells[parity].wait(kForever, budget, [&] { return page->turn.load(std::memory_order_seq_cst) == mine; });
      page->turn.store(mine + 1, std::memory_order_seq_cst);
      page->bells[1 - parity].ring();
    }
  };
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    player(1);
    _exit(0);
  }
  player(0);
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  assert_int_equal(page->turn.load(), kRounds * 2);
}

void many_sleepers_all_wake(void **) {
  Doorbell bell;
  std::atomic<bool> go{false};
  std::atomic<int> awake{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; i++) {
    threads.emplace_back([&] {
      bell.wait(kForever, [&] { return go.load(std::memory_order_seq_cst); });
      awake.fetch_add(1);
    });
  }
  go.store(true, std::memory_order_seq_cst);
  bell.ring();
  for (std::thread &thread : threads) thread.join();
  assert_int_equal(awake.load(), 8);
}

void poll_budget_adapts_within_bounds(void **) {
  PollBudget budget;
  for (int i = 0; i < 20; i++) budget.satisfied_by_polling();
  assert_true(budget.budget_ns() == PollBudget::kPollMaxNs);
  for (int i = 0; i < 20; i++) budget.had_to_park();
  assert_true(budget.budget_ns() == PollBudget::kPollMinNs);
}

// ---- shared memory --------------------------------------------------------------------------------------------------

void two_mappings_share_bytes(void **) {
  SharedMemory first = SharedMemory::create("test", 1 << 20);
  SharedMemory second = SharedMemory::map("test", UniqueFd(fcntl(first.fd(), F_DUPFD_CLOEXEC, 3)), 1 << 20);
  first.data()[4097] = std::byte{7};
  assert_int_equal(static_cast<int>(second.data()[4097]), 7);
}

void a_segment_smaller_than_announced_is_refused(void **) {
  SharedMemory first = SharedMemory::create("test", 4096);
  try {
    SharedMemory::map("test", UniqueFd(fcntl(first.fd(), F_DUPFD_CLOEXEC, 3)), 4097);
    fail();
  } catch (const Error &error) {
    assert_int_equal(error.info().code, SIMPLER_PROTOCOL_ERROR);
  }
}

void a_peer_cannot_shrink_a_segment(void **) {
  SharedMemory memory = SharedMemory::create("test", 8192);
  assert_int_equal(ftruncate(memory.fd(), 0), -1);
  assert_int_equal(errno, EPERM);
}

void zero_clears_exactly_its_range(void **) {
  constexpr uint64_t kBytes = 2 << 20;
  SharedMemory memory = SharedMemory::create("test", kBytes);
  const uint64_t ranges[][2] = {{0, kBytes}, {1, kBytes - 2}, {4095, 300'000}, {4096, 4096},
                                {100, 1},    {5000, 0},       {8192, 262'144}};
  for (const auto &range : ranges) {
    memset(memory.data(), 0xAB, kBytes);
    memory.zero(range[0], range[1]);
    for (uint64_t i = 0; i < kBytes; i++) {
      const bool inside = i >= range[0] && i < range[0] + range[1];
      if (memory.data()[i] != (inside ? std::byte{0} : std::byte{0xAB}))
        fail_msg("byte %lu of [%lu,+%lu)", i, range[0], range[1]);
    }
  }
}

void a_sealed_memfd_holds_its_bytes_for_good(void **) {
  const char first[] = "first";
  const char second[] = "second";
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(first)), std::as_bytes(std::span(second))};
  UniqueFd fd = make_sealed_memfd("test", parts);
  char read_back[sizeof first + sizeof second] = {0};
  assert_int_equal(pread(fd.get(), read_back, sizeof read_back, 0), sizeof read_back);
  assert_string_equal(read_back, "first");
  assert_string_equal(read_back + sizeof first, "second");
  assert_int_equal(pwrite(fd.get(), "x", 1, 0), -1);
  assert_true((fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
}

// ---- digests --------------------------------------------------------------------------------------------------------

void sha256_gives_the_published_values(void **) {  // FIPS 180-4 examples
  Sha256 empty;
  assert_string_equal(to_hex(empty.finish()).c_str(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  Sha256 abc;
  abc.update(std::as_bytes(std::span("abc", 3)));
  assert_string_equal(to_hex(abc.finish()).c_str(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

void texts_do_not_run_into_each_other(void **) {
  Sha256 first;
  first.update_text("ab");
  first.update_text("c");
  Sha256 second;
  second.update_text("a");
  second.update_text("bc");
  assert_true(first.finish() != second.finish());
}

// ---- CPU budget -----------------------------------------------------------------------------------------------------

struct FakeRoot {
  std::filesystem::path path;
  FakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "simpler-test-XXXXXX").string();
    assert_non_null(mkdtemp(name.data()));
    path = name;
  }
  ~FakeRoot() { std::filesystem::remove_all(path); }
  void write(const std::string &file, const std::string &text) const {
    const std::filesystem::path full = path / file;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
};

void no_cgroup_means_no_quota(void **) {
  const FakeRoot root;
  assert_int_equal(cgroup_cpu_quota(root.path.string()), 0);
}

void cgroup_v2_quota_is_rounded_up(void **) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "0::/a/b\n");
  root.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  assert_int_equal(cgroup_cpu_quota(root.path.string()), 0);
  root.write("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
  assert_int_equal(cgroup_cpu_quota(root.path.string()), 2);
  root.write("sys/fs/cgroup/a/cpu.max", "50000 100000\n");  // a parent may be tighter
  assert_int_equal(cgroup_cpu_quota(root.path.string()), 1);
}

void cgroup_v1_quota_counts_too(void **) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "5:cpuset:/x\n4:cpu,cpuacct:/x\n");
  root.write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "300000\n");
  root.write("sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
  assert_int_equal(cgroup_cpu_quota(root.path.string()), 3);
  root.write("sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
  assert_int_equal(cgroup_cpu_quota(root.path.string()), 0);
}

void garbage_in_cgroup_files_does_not_limit(void **) {
  const FakeRoot root;
  root.write("proc/self/cgroup", "nonsense\n0::/\n");
  root.write("sys/fs/cgroup/cpu.max", "what ever\n");
  assert_int_equal(cgroup_cpu_quota(root.path.string()), 0);
}

void usable_cpus_follow_the_affinity_mask(void **) {
  cpu_set_t before;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  }
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  assert_int_equal(usable_cpus(), 1);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
  assert_true(usable_cpus() >= 1);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      SIMPLER_TEST(error_carries_code_and_text),
      SIMPLER_TEST(foreign_exceptions_become_values),
      SIMPLER_TEST(system_error_names_call_and_errno),
      SIMPLER_TEST(broken_invariant_is_internal),
      SIMPLER_TEST(every_status_has_a_name),
      SIMPLER_TEST(wait_ends_at_its_deadline),
      SIMPLER_TEST(deadline_saturates),
      SIMPLER_TEST(a_true_condition_does_not_wait),
      SIMPLER_TEST(no_wake_up_is_lost),
      SIMPLER_TEST(doorbell_works_across_processes),
      SIMPLER_TEST(many_sleepers_all_wake),
      SIMPLER_TEST(poll_budget_adapts_within_bounds),
      SIMPLER_TEST(two_mappings_share_bytes),
      SIMPLER_TEST(a_segment_smaller_than_announced_is_refused),
      SIMPLER_TEST(a_peer_cannot_shrink_a_segment),
      SIMPLER_TEST(zero_clears_exactly_its_range),
      SIMPLER_TEST(a_sealed_memfd_holds_its_bytes_for_good),
      SIMPLER_TEST(sha256_gives_the_published_values),
      SIMPLER_TEST(texts_do_not_run_into_each_other),
      SIMPLER_TEST(no_cgroup_means_no_quota),
      SIMPLER_TEST(cgroup_v2_quota_is_rounded_up),
      SIMPLER_TEST(cgroup_v1_quota_counts_too),
      SIMPLER_TEST(garbage_in_cgroup_files_does_not_limit),
      SIMPLER_TEST(usable_cpus_follow_the_affinity_mask),
  };
  return simpler_run_tests(tests);
}
