// lib/chip as a whole: a Chip driven through a Link over plain memory, as its host drives it.
// ctest: TIMEOUT 120
#include <algorithm>
#include <atomic>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <sys/mman.h>
#include <vector>

#include "../callables/chip_scenarios.h"
#include "base/cpu_budget.h"
#include "base/error.h"
#include "base/shared_memory.h"
#include "base/signals.h"
#include "chip/chip.h"
#include "simpler/device.h"

// Last: its macro `fail` would change device.h.
extern "C" {
#include <cmocka.h>
}

using namespace simpler;
using namespace simpler::chip;

namespace {

constexpr uint64_t kGmBytes = 4 << 20;
constexpr uint64_t kTimeoutNs = 100'000'000'000;  // far beyond anything that is not a hang

std::vector<std::byte> read_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  assert_true(file.good());
  const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::byte> result(bytes.size());
  memcpy(result.data(), bytes.data(), bytes.size());
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

void assert_error(const ErrorInfo &error, simpler_status code, const std::string &part) {
  if (error.code != code || error.message.find(part) == std::string::npos)
    fail_msg("expected %s with \"%s\", got %s: %s", status_name(code), part.c_str(), status_name(error.code),
             error.message.c_str());
}

// A chip with its link, GM and a host that pops completions.
class Host {
 public:
  explicit Host(const char *platform = "a2a3sim", uint32_t clusters = 0, uint32_t carriers = 2)
      : link_memory_(SharedMemory::create("link", control::kLinkBytes)),
        gm_(SharedMemory::create("gm", kGmBytes + Signals::kPageBytes)),
        link_(control::Link::create(link_memory_.data())) {
    config_.platform = platform;
    config_.clusters = clusters;
    config_.carriers = carriers;
    config_.callable_capacity = 8;
    config_.window = 1024;
    config_.heap_bytes = 1 << 20;
    config_.gm_bytes = gm_.span().size();
    config_.link_bytes = control::kLinkBytes;
    chip_ = std::make_unique<Chip>(config_, link_, gm_.span());
  }

  Chip &chip() { return *chip_; }
  control::Link &link() { return link_; }
  uint64_t *words(uint64_t offset = 0) { return reinterpret_cast<uint64_t *>(gm_.data() + offset); }
  float *floats(uint64_t offset) { return reinterpret_cast<float *>(gm_.data() + offset); }
  const std::vector<control::LogRecord> &logs() const { return logs_; }

  void load(const char *callable, uint32_t cid = 0, uint32_t generation = 1) {
    const std::vector<std::byte> bytes = read_file(std::string(TEST_CALLABLE_DIR "/") + callable + ".so");
    const std::span<const std::byte> part(bytes);
    control::CallableManifest manifest;
    manifest.images.push_back({0, bytes.size()});
    chip_->load(cid, generation, manifest, make_sealed_memfd("images", {&part, 1}));
  }

  static control::TensorRecord tensor(uint64_t offset, uint64_t elements, simpler_dtype dtype = SIMPLER_DTYPE_UINT64,
                                      simpler_tag tag = SIMPLER_TAG_INOUT) {
    control::TensorRecord record;
    record.offset = record.allocation_offset = offset;
    record.allocation_bytes = elements * simpler_dtype_bits(dtype) / 8;
    record.tag = tag;
    record.dtype = dtype;
    record.rank = 1;
    record.shape[0] = elements;
    record.strides[0] = 1;
    return record;
  }

  uint64_t start_record(control::RunRecord record) {
    record.run = ++last_run_;
    if (record.generation == 0) record.generation = 1;
    const std::vector<std::byte> body = encode(record);
    while (!link_.to_chip.push(control::RecordType::kRun, body)) {
      if (!link_.header().host_bell.wait(deadline_after(kTimeoutNs), [&] { return link_.to_chip.has_room(body.size()); }))
        fail_msg("the chip takes no runs");
    }
    link_.header().chip_bell.ring();
    return record.run;
  }
  // A scenario of chip_scenarios.cpp over `elements` words at the start of GM.
  uint64_t start(std::vector<uint64_t> scalars, uint64_t elements = 64) {
    control::RunRecord record;
    record.scalars = std::move(scalars);
    record.tensors.push_back(tensor(0, elements));
    return start_record(std::move(record));
  }

  control::CompletionRecord wait(uint64_t run) {
    for (;;) {
      control::RecordType type;
      std::vector<std::byte> body;
      if (!link_.header().host_bell.wait(deadline_after(kTimeoutNs), budget_, [&] { return !link_.to_host.empty(); }))
        fail_msg("run %lu does not end", static_cast<unsigned long>(run));
      while (link_.to_host.pop(type, body)) {
        link_.header().chip_bell.ring();
        if (type == control::RecordType::kLog) {
          logs_.push_back(control::decode_log(body));
          continue;
        }
        control::CompletionRecord completion = control::decode_completion(body);
        if (completion.run == run) return completion;
      }
    }
  }
  control::CompletionRecord run_record(control::RunRecord record) { return wait(start_record(std::move(record))); }
  control::CompletionRecord run(std::vector<uint64_t> scalars, uint64_t elements = 64) {
    return wait(start(std::move(scalars), elements));
  }
  control::RunCounts run_well(std::vector<uint64_t> scalars, uint64_t elements = 64) {
    const control::CompletionRecord completion = run(std::move(scalars), elements);
    if (!completion.error.ok())
      fail_msg("the run failed: %s: %s", status_name(completion.error.code), completion.error.message.c_str());
    return completion.counts;
  }
  void clear() { memset(gm_.data(), 0, 65536); }

 private:
  SharedMemory link_memory_;
  SharedMemory gm_;
  control::Link link_;
  control::ChipConfig config_;
  std::unique_ptr<Chip> chip_;
  uint64_t last_run_ = 0;
  PollBudget budget_;
  std::vector<control::LogRecord> logs_;
};

size_t count_threads(const std::string &prefix) {
  size_t count = 0;
  for (const auto &entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "comm");
    std::string name;
    std::getline(file, name);
    if (name.starts_with(prefix)) count++;
  }
  return count;
}

size_t count_lines(const char *path) {
  std::ifstream file(path);
  size_t lines = 0;
  for (std::string line; std::getline(file, line);) lines++;
  return lines;
}

// ---- start and stop -----------------------------------------------------------------------------------------------------

void chip_reports_what_it_is(void **) {
  for (const char *platform : {"a2a3sim", "a5sim"}) {
    Host host(platform, 0, 3);
    const control::ChipReady ready = host.chip().ready();
    assert_int_equal(ready.clusters, platform[1] == '2' ? 24 : 36);
    assert_int_equal(ready.cores, ready.clusters * 3);
    assert_int_equal(ready.carriers, 3);
  }
}

void nonsense_configurations_are_refused(void **) {
  assert_error(error_of([] { Host("a9sim"); }), SIMPLER_INVALID_ARGUMENT, "known: a2a3sim");
  assert_error(error_of([] { Host("a2a3sim", 25); }), SIMPLER_INVALID_ARGUMENT, "25");
  assert_error(error_of([] { Host("a2a3sim", 24, 100'000); }), SIMPLER_INVALID_ARGUMENT, "carriers");
}

void chip_has_carriers_and_one_orchestrator_thread(void **) {
  {
    Host host("a2a3sim", 0, 3);
    host.load("chip_scenarios");
    for (int i = 0; i < 20; i++) host.run_well({kScenarioIndependent, 100});
    assert_int_equal(count_threads("simpler-car"), 3);
    assert_int_equal(count_threads("simpler-orch"), 1);
    assert_int_equal(count_threads("simpler-"), 4);
  }
  assert_int_equal(count_threads("simpler-"), 0);
  Host host("a2a3sim", 0, 0);
  assert_int_equal(host.chip().ready().carriers, usable_cpus());
}

void stop_with_queued_runs_ends_at_once(void **) {
  Host host;
  host.load("chip_scenarios");
  for (int i = 0; i < 100; i++) host.start({kScenarioChain, 500});
  host.chip().stop();
  host.chip().stop();
  assert_int_equal(count_threads("simpler-"), 0);
}

// ---- tasks --------------------------------------------------------------------------------------------------------------

void run_that_submits_nothing_ends(void **) {
  Host host;
  host.load("chip_scenarios");
  for (int i = 0; i < 1000; i++) assert_int_equal(host.run_well({kScenarioNothing}).tasks_submitted, 0);
}

void each_shape_runs_once_on_its_type_of_core(void **) {
  for (const char *platform : {"a2a3sim", "a5sim"}) {
    Host host(platform);
    host.load("chip_scenarios");
    const uint32_t clusters = host.chip().ready().clusters;
    const control::RunCounts counts = host.run_well({kScenarioShapes});
    assert_int_equal(counts.tasks_submitted, 5);
    assert_int_equal(counts.tasks_done, 5);
    const uint64_t *words = host.words();
    assert_int_equal(words[0], 1);
    assert_int_equal(words[1], SIMPLER_CORE_AIV);
    assert_in_range(words[2], clusters, clusters * 3 - 1);
    assert_int_equal(words[3] & 0xffffffff, 1);
    assert_int_equal(words[4], 1);
    assert_int_equal(words[5], SIMPLER_CORE_AIC);
    assert_in_range(words[6], 0, clusters - 1);
    assert_int_equal(words[7] >> 32, SIMPLER_POSITION_AIC);
    assert_int_equal(words[8], 1);
    assert_int_equal(words[9], SIMPLER_CORE_AIV);
    assert_int_equal(words[12], 1);
  }
}

void independent_tasks_all_run_once(void **) {
  Host host;
  host.load("chip_scenarios");
  for (const uint64_t tasks : {uint64_t{1}, uint64_t{2}, uint64_t{24}, uint64_t{1000}, uint64_t{20'000}}) {
    host.clear();
    const control::RunCounts counts = host.run_well({kScenarioIndependent, tasks}, 1000);
    assert_int_equal(counts.tasks_done, tasks);
    for (uint64_t i = 0; i < 1000; i++) assert_int_equal(host.words()[i], tasks / 1000 + (i < tasks % 1000));
  }
}

// More than the orchestrator thread takes on at once while it helps, with many tasks made ready together.
void fans_run_each_task_once(void **) {
  Host host;
  host.load("chip_scenarios");
  for (int round = 0; round < 5; round++) {
    host.clear();
    const control::RunCounts counts = host.run_well({kScenarioFan, 200, 100}, 128);
    assert_int_equal(counts.tasks_done, 200 * 101);
    for (uint64_t i = 0; i <= 100; i++) assert_int_equal(host.words()[i], 200);
  }
}

void chain_runs_in_order(void **) {
  Host host;
  host.load("chip_scenarios");
  const control::RunCounts counts = host.run_well({kScenarioChain, 50'000});
  assert_int_equal(host.words()[0], 50'000);
  assert_int_equal(counts.dependencies, 49'999);
  host.clear();
  host.words()[1] = 3;
  host.run_well({kScenarioManual, 500});
  assert_int_equal(host.words()[0], 1500);
}

void spmd_runs_every_block_once_also_when_blocks_outnumber_cores(void **) {
  Host host("a2a3sim", 2);
  host.load("chip_scenarios");
  for (const uint64_t blocks : {1, 2, 3, 4, 5, 100, 1000}) {
    host.clear();
    assert_int_equal(host.run_well({kScenarioSpmd, blocks, 10}, 4096).tasks_done, 10);
    assert_int_equal(host.run_well({kScenarioSpmdBoth, blocks, 20}, 4096).tasks_done, 20);
    for (uint64_t i = 0; i < blocks; i++) {
      assert_int_equal(host.words()[i * 4], 30);
      assert_int_equal(host.words()[i * 4 + 3] & 0xffffffff, blocks);
    }
    assert_int_equal(host.words()[blocks * 4], 0);
  }
}

void fewer_cores_than_carriers_is_no_trouble(void **) {
  Host host("a2a3sim", 1, 3);
  host.load("chip_scenarios");
  for (int i = 0; i < 20; i++) {
    host.clear();
    host.run_well({kScenarioIndependent, 5000}, 50);
    assert_int_equal(host.words()[49], 100);
    host.clear();
    host.run_well({kScenarioSpmdBoth, 50, 10}, 512);
    for (uint64_t block = 0; block < 50; block++) assert_int_equal(host.words()[block * 4], 10);
    host.run_well({kScenarioShapes});
  }
}

void vector_example_has_five_tasks_six_edges_and_exact_results(void **) {
  Host host;
  host.load("chip_scenarios");
  constexpr uint64_t n = 128 * 128;
  for (uint64_t round = 0; round < 50; round++) {
    control::RunRecord record;
    record.scalars = {kScenarioVectorExample};
    for (const uint64_t i : {0, 1, 2}) {
      control::TensorRecord tensor =
          Host::tensor(i * n * 4, n, SIMPLER_DTYPE_FLOAT32, i == 2 ? SIMPLER_TAG_OUTPUT_EXISTING : SIMPLER_TAG_INPUT);
      tensor.rank = 2;
      tensor.shape[0] = tensor.shape[1] = tensor.strides[0] = 128;
      tensor.strides[1] = 1;
      record.tensors.push_back(tensor);
    }
    for (uint64_t i = 0; i < n; i++) {
      host.floats(0)[i] = static_cast<float>(i % 100 + round);
      host.floats(n * 4)[i] = static_cast<float>(i % 7);
    }
    const control::CompletionRecord completion = host.run_record(record);
    assert_int_equal(completion.error.code, SIMPLER_OK);
    assert_int_equal(completion.counts.tasks_done, 5);
    assert_int_equal(completion.counts.dependencies, 6);
    for (uint64_t i = 0; i < n; i++) {
      const float sum = static_cast<float>(i % 100 + round) + static_cast<float>(i % 7);
      assert_true(host.floats(2 * n * 4)[i] == (sum + 1) * (sum + 2) + sum);
    }
  }
}

void allocated_memory_reads_as_zero(void **) {
  Host host;
  host.load("chip_scenarios");
  host.run_well({kScenarioAlloc, 3000});  // through the heap ring many times
  assert_int_equal(host.words()[0], 3000);
}

void single_kernel_without_orchestration_is_the_run(void **) {
  Host host;
  host.load("chip_unique");
  control::RunRecord record;
  record.tensors.push_back(Host::tensor(64, 1, SIMPLER_DTYPE_UINT64, SIMPLER_TAG_OUTPUT));
  for (uint64_t i = 1; i <= 5; i++) {
    const control::CompletionRecord completion = host.run_record(record);
    assert_int_equal(completion.error.code, SIMPLER_OK);
    assert_int_equal(completion.counts.tasks_done, 1);
    assert_int_equal(host.words(64)[0], i);
  }
}

void orchestration_can_ask_for_the_geometry(void **) {
  Host host("a5sim", 7);
  host.load("chip_scenarios");
  host.run_well({kScenarioCounts});
  assert_int_equal(host.words()[0], 7);
  assert_int_equal(host.words()[1], 7);
  assert_int_equal(host.words()[2], 14);
}

void two_thousand_runs_in_a_row(void **) {
  Host host;
  host.load("chip_scenarios");
  for (uint64_t i = 1; i <= 2000; i++) {
    host.run_well({kScenarioChain, 1});
    assert_int_equal(host.words()[0], i);
  }
}

void per_run_window_and_heap_are_used(void **) {
  Host host;
  host.load("chip_scenarios");
  control::RunRecord record;
  record.scalars = {kScenarioIndependent, 20'000};
  record.tensors.push_back(Host::tensor(0, 64));
  record.window = 64;
  const control::CompletionRecord completion = host.run_record(record);
  assert_int_equal(completion.error.code, SIMPLER_OK);
  assert_int_equal(completion.counts.tasks_done, 20'000);
  assert_in_range(completion.counts.window_peak, 1, 64);
}

// ---- failures -----------------------------------------------------------------------------------------------------------

void failing_kernel_skips_its_dependents_only(void **) {
  Host host;
  host.load("chip_scenarios");
  for (int i = 1; i <= 100; i++) {
    const control::CompletionRecord completion = host.run({kScenarioFail});
    assert_error(completion.error, SIMPLER_KERNEL_FAILED, "as asked for");
    assert_int_equal(completion.error.user_code, 42);
    assert_int_equal(completion.error.kernel, 5);
    assert_true(completion.error.task != 0);
    assert_string_equal(completion.error.task_label.c_str(), "the broken one");
    assert_string_equal(completion.error.callable.c_str(), "scenarios");
    assert_int_equal(completion.counts.tasks_submitted, 6);
    assert_int_equal(completion.counts.tasks_failed, 1);
    assert_int_equal(completion.counts.tasks_skipped, 2);
    assert_int_equal(completion.counts.tasks_done, 3);
    assert_int_equal(host.words()[0], 0);
    assert_int_equal(host.words()[3], i);
  }
  host.run_well({kScenarioChain, 10});
}

void kernel_that_throws_fails_its_task(void **) {
  Host host;
  host.load("chip_scenarios");
  const control::CompletionRecord completion = host.run({kScenarioThrow});
  assert_error(completion.error, SIMPLER_KERNEL_FAILED, "thrown by a kernel");
  assert_int_equal(completion.counts.tasks_skipped, 2);
  host.run_well({kScenarioChain, 10});
}

void one_failing_block_fails_the_task(void **) {
  Host host;
  host.load("chip_scenarios");
  for (const uint64_t block : {0, 4, 9}) {
    const control::CompletionRecord completion = host.run({kScenarioFailBlock, block});
    assert_error(completion.error, SIMPLER_KERNEL_FAILED, fmt::format("as asked for (block {} of 10)", block));
    assert_int_equal(completion.counts.tasks_failed, 1);
  }
  assert_int_equal(host.run_well({kScenarioFailBlock, 10}).tasks_done, 1);
}

struct Expectation {
  Mistake mistake;
  simpler_status code;
  const char *text;
};
constexpr Expectation kExpectations[] = {
    {kMistakeNullTask, SIMPLER_INVALID_ARGUMENT, "simpler_orch_submit: task is NULL"},
    {kMistakeStructSize, SIMPLER_INVALID_ARGUMENT, "simpler_orch_submit: task->struct_size is 8"},
    {kMistakeUnknownKernel, SIMPLER_INVALID_ARGUMENT, "task->aiv0: there is no kernel 777"},
    {kMistakeWrongCore, SIMPLER_INVALID_ARGUMENT, "task->aiv0: kernel 3 (\"record\") is for AIC cores"},
    {kMistakeWrongCoreAic, SIMPLER_INVALID_ARGUMENT, "task->aic: kernel 1 (\"count\") is for AIV cores"},
    {kMistakeZeroBlocks, SIMPLER_INVALID_ARGUMENT, "task->block_count is 0"},
    {kMistakeTensorCount, SIMPLER_CAPACITY_ARGUMENTS, "task->tensor_count is 4097"},
    {kMistakeScalarCount, SIMPLER_CAPACITY_ARGUMENTS, "task->scalar_count is 4097"},
    {kMistakeNullTensors, SIMPLER_INVALID_ARGUMENT, "task->tensors is NULL"},
    {kMistakeNullTensor, SIMPLER_INVALID_ARGUMENT, "task->tensors[0].tensor is NULL"},
    {kMistakeNullScalars, SIMPLER_INVALID_ARGUMENT, "task->scalars is NULL"},
    {kMistakeNullAfter, SIMPLER_INVALID_ARGUMENT, "task->after is NULL"},
    {kMistakeTag, SIMPLER_INVALID_ARGUMENT, "task->tensors[0]: tag 9"},
    {kMistakeRank, SIMPLER_INVALID_ARGUMENT, "rank is 9"},
    {kMistakeSlice, SIMPLER_INVALID_ARGUMENT, "rank is 0"},
    {kMistakeDtype, SIMPLER_INVALID_ARGUMENT, "dtype 99"},
    {kMistakeOverflow, SIMPLER_INVALID_ARGUMENT, "overflows"},
    {kMistakeOutside, SIMPLER_INVALID_ARGUMENT, "of an allocation of 512 bytes"},
    {kMistakeBefore, SIMPLER_INVALID_ARGUMENT, "before its allocation"},
    {kMistakeZeroStride, SIMPLER_INVALID_ARGUMENT, "stride of 0"},
    {kMistakeNoMemory, SIMPLER_INVALID_ARGUMENT, "no memory"},
    {kMistakeOutputWithData, SIMPLER_INVALID_ARGUMENT, "memory already"},
    {kMistakeOutputStrides, SIMPLER_INVALID_ARGUMENT, "not contiguous"},
    {kMistakeOutputOverflow, SIMPLER_INVALID_ARGUMENT, "overflows"},
    {kMistakeFutureTask, SIMPLER_INVALID_ARGUMENT, "task->after[0]"},
    {kMistakeNoTask, SIMPLER_INVALID_ARGUMENT, "task->after[0]"},
    {kMistakeScopeMode, SIMPLER_INVALID_ARGUMENT, "simpler_orch_scope_begin: mode is 5"},
    {kMistakeAutoInManual, SIMPLER_INVALID_ARGUMENT, "simpler_orch_scope_begin"},
    {kMistakeScopeEnd, SIMPLER_INVALID_ARGUMENT, "simpler_orch_scope_end"},
    {kMistakeUnclosedScope, SIMPLER_ORCHESTRATION_FAILED, "scope"},
    {kMistakeAllocNull, SIMPLER_INVALID_ARGUMENT, "simpler_orch_alloc: tensor is NULL"},
    {kMistakeAllocTwice, SIMPLER_INVALID_ARGUMENT, "memory already"},
    {kMistakeFlags, SIMPLER_NOT_SUPPORTED, "flags"},
    {kMistakeReturn, SIMPLER_ORCHESTRATION_FAILED, "returned 17"},
    {kMistakeFail, SIMPLER_ORCHESTRATION_FAILED, "given up"},
    {kMistakeThrow, SIMPLER_ORCHESTRATION_FAILED, "thrown by an orchestration"},
    {kMistakeThrowNonsense, SIMPLER_ORCHESTRATION_FAILED, "exception"},
    {kMistakeHeap, SIMPLER_CAPACITY_HEAP, ""},
    {kMistakeWindow, SIMPLER_DEADLOCK_WINDOW, ""},
};

void each_mistake_has_its_error_and_the_next_run_works(void **) {
  Host host;
  host.load("chip_scenarios");
  for (const Expectation &expected : kExpectations) {
    control::RunRecord record;
    record.scalars = {kScenarioMistake, expected.mistake};
    record.tensors.push_back(Host::tensor(64, 64));
    record.window = 16;
    const control::CompletionRecord completion = host.run_record(record);
    if (completion.error.code != expected.code || completion.error.message.find(expected.text) == std::string::npos)
      fail_msg("mistake %d: expected %s with \"%s\", got %s: %s", static_cast<int>(expected.mistake),
               status_name(expected.code), expected.text, status_name(completion.error.code),
               completion.error.message.c_str());
    assert_string_equal(completion.error.callable.c_str(), "scenarios");
    host.clear();
    host.run_well({kScenarioChain, 3});
    assert_int_equal(host.words()[0], 3);
  }
}

void run_with_impossible_arguments_is_refused(void **) {
  Host host;
  host.load("chip_scenarios");
  control::RunRecord good;
  good.scalars = {kScenarioChain, 1};
  good.tensors.push_back(Host::tensor(0, 64));
  control::RunRecord bad = good;
  bad.tensors[0].allocation_bytes = kGmBytes + 1;
  assert_error(host.run_record(bad).error, SIMPLER_INVALID_ARGUMENT, "argument 0");
  bad = good;
  bad.tensors[0].offset = UINT64_MAX - 7;
  assert_error(host.run_record(bad).error, SIMPLER_INVALID_ARGUMENT, "argument 0");
  bad = good;
  bad.tensors[0].shape[0] = 65;
  assert_error(host.run_record(bad).error, SIMPLER_INVALID_ARGUMENT, "argument 0");
  bad = good;
  bad.tensors[0].rank = 0;
  assert_error(host.run_record(bad).error, SIMPLER_INVALID_ARGUMENT, "rank");
  bad = good;
  bad.cid = 7;
  assert_error(host.run_record(bad).error, SIMPLER_INVALID_HANDLE, "slot 7");
  bad.cid = 70000;
  assert_error(host.run_record(bad).error, SIMPLER_INVALID_HANDLE, "8 slots");
  assert_int_equal(host.run_record(good).error.code, SIMPLER_OK);
}

// ---- callables ----------------------------------------------------------------------------------------------------------

void reloaded_slot_runs_the_new_code_and_refuses_the_old_generation(void **) {
  Host host;
  const auto run = [&](uint32_t generation) {
    control::RunRecord record;
    record.generation = generation;
    record.scalars = {kScenarioChain, 1};
    record.tensors.push_back(Host::tensor(0, 64));
    return host.run_record(record);
  };
  for (uint32_t generation = 1; generation <= 40; generation += 2) {
    host.clear();
    host.load("chip_scenarios", 0, generation);
    assert_int_equal(run(generation).counts.tasks_submitted, 1);
    assert_int_equal(host.words()[0], 1);
    host.chip().unload(0, generation);
    assert_error(run(generation).error, SIMPLER_INVALID_HANDLE, "empty");
    host.load("chip_unique", 0, generation + 1);
    assert_error(run(generation).error, SIMPLER_INVALID_HANDLE, fmt::format("generation {}", generation + 1));
    assert_int_equal(run(generation + 1).error.code, SIMPLER_OK);
    host.chip().unload(0, generation + 1);
  }
}

void unload_while_a_run_uses_it_keeps_the_code(void **) {
  Host host;
  host.load("chip_scenarios");
  const uint64_t run = host.start({kScenarioWait});
  std::atomic_ref<uint64_t> go(host.words()[0]), started(host.words()[1]);
  const uint64_t deadline = deadline_after(kTimeoutNs);
  while (started.load() == 0 && now_ns() < deadline) yield_cpu();
  assert_int_equal(host.link().header().running_run.load(), run);
  host.chip().unload(0, 1);
  host.load("chip_unique", 0, 2);  // the slot is free at once
  go.store(1);
  assert_int_equal(host.wait(run).error.code, SIMPLER_OK);
}

void loading_and_unloading_for_ever_leaves_nothing_behind(void **) {
  Host host;
  size_t maps = 0;
  for (uint32_t i = 1; i <= 300; i++) {
    host.load(i % 2 == 0 ? "chip_unique" : "chip_scenarios", 0, i);
    control::RunRecord record;
    record.generation = i;
    record.scalars = {kScenarioChain, 1};
    record.tensors.push_back(Host::tensor(0, 64));
    assert_int_equal(host.run_record(record).error.code, SIMPLER_OK);
    host.chip().unload(0, i);
    if (i == 50) maps = count_lines("/proc/self/maps");
  }
  assert_in_range(count_lines("/proc/self/maps"), 1, maps + 8);
}

void logs_of_kernels_and_orchestrations_arrive(void **) {
  Host host;
  host.load("chip_scenarios");
  host.run_well({kScenarioLog});
  assert_int_equal(host.logs().size(), 2);
  assert_true(host.logs()[0].text.find("hello from an orchestration") != std::string::npos);
  assert_int_equal(host.logs()[0].level, SIMPLER_LOG_ERROR);
  assert_true(host.logs()[1].text.find("hello from a kernel") != std::string::npos);
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(chip_reports_what_it_is),
      cmocka_unit_test(nonsense_configurations_are_refused),
      cmocka_unit_test(chip_has_carriers_and_one_orchestrator_thread),
      cmocka_unit_test(stop_with_queued_runs_ends_at_once),
      cmocka_unit_test(run_that_submits_nothing_ends),
      cmocka_unit_test(each_shape_runs_once_on_its_type_of_core),
      cmocka_unit_test(independent_tasks_all_run_once),
      cmocka_unit_test(fans_run_each_task_once),
      cmocka_unit_test(chain_runs_in_order),
      cmocka_unit_test(spmd_runs_every_block_once_also_when_blocks_outnumber_cores),
      cmocka_unit_test(fewer_cores_than_carriers_is_no_trouble),
      cmocka_unit_test(vector_example_has_five_tasks_six_edges_and_exact_results),
      cmocka_unit_test(allocated_memory_reads_as_zero),
      cmocka_unit_test(single_kernel_without_orchestration_is_the_run),
      cmocka_unit_test(orchestration_can_ask_for_the_geometry),
      cmocka_unit_test(two_thousand_runs_in_a_row),
      cmocka_unit_test(per_run_window_and_heap_are_used),
      cmocka_unit_test(failing_kernel_skips_its_dependents_only),
      cmocka_unit_test(kernel_that_throws_fails_its_task),
      cmocka_unit_test(one_failing_block_fails_the_task),
      cmocka_unit_test(each_mistake_has_its_error_and_the_next_run_works),
      cmocka_unit_test(run_with_impossible_arguments_is_refused),
      cmocka_unit_test(reloaded_slot_runs_the_new_code_and_refuses_the_old_generation),
      cmocka_unit_test(unload_while_a_run_uses_it_keeps_the_code),
      cmocka_unit_test(loading_and_unloading_for_ever_leaves_nothing_behind),
      cmocka_unit_test(logs_of_kernels_and_orchestrations_arrive),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
