// Random programs (generator.h) on chips must give what running their tasks one by one gives: every value, every count, every
// dependency and no other, and nothing left in the rings, for thousands of programs in thousands of orders.
//
//   test_programs                                       the tests
//   test_programs --replay KIND SEED                    one program in seeded mode, told step by step
//   test_programs --endless [SEED]                      all kinds, seed after seed, until one fails or it is interrupted
//
// Chips are in-process and in seeded mode (the seed of the program is the seed of the schedule), then the same programs run on
// chip processes with several carriers.
//
// ctest: TIMEOUT 300
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "generator.h"

#include "api.h"

namespace {

using program::Kind;
using program::Program;
using program::Step;
using program::Task;

const char *const kKindNames[] = {"all", "intervals", "tiles"};

enum class Schedule {
  kSeeded,
  kThreads
};

// One worker for many programs.
class Bench {
 public:
  Bench(void *state, Schedule schedule) : schedule_(schedule) {
    simpler_worker_options options = api_options(state, 1);
    options.heap_bytes = uint64_t{1} << 16;
    options.seed = schedule == Schedule::kSeeded ? 1 : 0;
    options.carriers_per_chip = schedule == Schedule::kSeeded ? 0 : 3;
    worker_ = api_start_with(state, &options);
    callable_ = api_register(worker_, "program");
    assert_ok(simpler_buffer_create(worker_, program::kArenaBytes, &arena_, &err));
    assert_ok(simpler_buffer_create(worker_, program::kLogWords * 8, &log_, &err));
  }

  // What is wrong; "" if nothing is.
  std::string run(uint64_t seed, Kind kind) {
    Program program(seed, kind);
    auto *arena = static_cast<uint8_t *>(simpler_buffer_data(arena_));
    auto *log = static_cast<uint64_t *>(simpler_buffer_data(log_));
    std::vector<uint8_t> staged = program.arena(1);
    const std::vector<uint8_t> staged_before = staged;
    memcpy(arena, program.arena(0).data(), program::kArenaBytes);
    memset(log, 0, program::kLogWords * 8);

    const uint64_t bytes[] = {program::kArenaBytes};
    const uint64_t log_words[] = {program::kLogWords};
    const uint64_t program_words[] = {program.words().size()};
    const simpler_tensor_arg tensors[] = {
        simpler_tensor_arg_make_in_buffer(arena_, 0, SIMPLER_TAG_INOUT, SIMPLER_DTYPE_UINT8, 1, bytes),
        simpler_tensor_arg_make(staged.data(), SIMPLER_TAG_INOUT, SIMPLER_DTYPE_UINT8, 1, bytes),
        simpler_tensor_arg_make_in_buffer(log_, 0, SIMPLER_TAG_INOUT, SIMPLER_DTYPE_UINT64, 1, log_words),
        simpler_tensor_arg_make(const_cast<uint64_t *>(program.words().data()), SIMPLER_TAG_INPUT, SIMPLER_DTYPE_UINT64, 1,
                                program_words)};
    const simpler_task task = api_task(callable_, 0, tensors, 4, nullptr, 0);
    simpler_run_options options = SIMPLER_RUN_OPTIONS_INIT;
    options.window = program.window;
    options.heap_bytes = program.heap_bytes;
    options.seed = schedule_ == Schedule::kSeeded ? seed : 0;
    simpler_run *run = nullptr;
    simpler_error *error = nullptr;
    assert_ok(simpler_worker_submit(worker_, &task, &options, &run, &err));
    const simpler_status status = simpler_run_wait(run, SIMPLER_FOREVER, &error);
    const simpler_run_stats stats = api_stats(run);
    const std::string message = simpler_error_message(error);
    simpler_error_free(error);
    assert_ok(simpler_run_release(run, &err));

    std::string wrong = check(program, kind, status, stats, log);
    if (!wrong.empty()) return wrong + (message.empty() ? "" : " (the run's error: " + message + ")");
    for (uint64_t i = 0; i < program::kArenaBytes; i++) {
      if (arena[i] != program.arena(0)[i])
        return "byte " + std::to_string(i) + " of the arena in a buffer differs from running the tasks in order";
    }
    if (staged != (status == SIMPLER_OK ? program.arena(1) : staged_before))
      return "the arena in host memory differs from running the tasks in order";
    return "";
  }

 private:
  static bool holds(const simpler_tensor &element, const simpler_predicate &predicate) {
    const uint64_t word = load(element);
    const bool is_signed = element.dtype == SIMPLER_DTYPE_INT16 || element.dtype == SIMPLER_DTYPE_INT64;
    const auto compare = [&](auto a, auto b) {
      switch (predicate.compare) {
        case SIMPLER_COMPARE_EQ:
          return a == b;
        case SIMPLER_COMPARE_NE:
          return a != b;
        case SIMPLER_COMPARE_LT:
          return a < b;
        case SIMPLER_COMPARE_LE:
          return a <= b;
        case SIMPLER_COMPARE_GT:
          return a > b;
        default:
          return a >= b;
      }
    };
    return is_signed ? compare(static_cast<int64_t>(word), static_cast<int64_t>(predicate.constant))
                     : compare(word, predicate.constant);
  }
  static uint64_t load(const simpler_tensor &element) {
    uint64_t word = 0;
    memcpy(&word, element.data, simpler_dtype_bits(element.dtype) / 8);
    return element.dtype == SIMPLER_DTYPE_INT16 ? static_cast<uint64_t>(static_cast<int16_t>(word)) : word;
  }

  // Runs the operations that were done, in order, and compares.
  static std::string check(const Program &program, Kind kind, simpler_status status, const simpler_run_stats &stats,
                           const uint64_t *log) {
    const bool is_deadlock = status == SIMPLER_DEADLOCK_WINDOW || status == SIMPLER_DEADLOCK_HEAP;
    if (is_deadlock && (program.uses_no_memory() || kind != Kind::kAll)) return "a deadlock without a cause";
    if (!is_deadlock && status != SIMPLER_OK && !(program.has_failures && status == SIMPLER_KERNEL_FAILED))
      return std::string("the run ended with ") + simpler_status_name(status);
    const uint64_t operations = log[program::kOperationsDone];
    if (status == SIMPLER_OK && operations != program.steps().size()) return "not all operations were done";

    uint64_t submitted = 0, done = 0, failed = 0, dependencies = 0, state = 0;
    std::set<const Task *> unwell;
    for (uint64_t i = 0; i < operations; i++) {
      const Step &step = program.steps()[i];
      if (step.operation == program::kRead) state = program::next_state(state, load(step.element));
      if (step.operation == program::kWrite) memcpy(step.element.data, &state, simpler_dtype_bits(step.element.dtype) / 8);
      if (step.operation != program::kTask) continue;
      const Task &task = *step.task;
      const std::string name = "task " + std::to_string(task.number);
      const uint64_t begin = log[program::kBegin + task.number];
      submitted++;
      dependencies += task.producers.size();
      bool must_be_skipped = false, may_be_skipped = false;
      for (const Task *producer : task.producers) {
        must_be_skipped = must_be_skipped || unwell.contains(producer);
        if (begin != 0 && log[program::kEnd + producer->number] >= begin)
          return name + " began before task " + std::to_string(producer->number) + " had ended";
      }
      for (const Task *producer : task.near_producers) may_be_skipped = may_be_skipped || unwell.contains(producer);
      if (kind != Kind::kAll) may_be_skipped = must_be_skipped;
      if (must_be_skipped && begin != 0) return name + " ran although one that it depends on did not end well";

      const bool is_called =
          task.shape != 0 && (task.predicate.compare == 0 || holds(task.predicate_element, task.predicate));
      if (is_called && begin == 0) {
        if (!may_be_skipped) return name + " did not run";
        unwell.insert(&task);
        continue;
      }
      if (!is_called && begin != 0) return name + " ran although its predicate does not hold";
      if (task.fails) {
        failed++;
        unwell.insert(&task);
        continue;
      }
      done++;
      for (uint64_t part = 0; is_called && part < task.parts; part++)
        program::work(task.number, state, task.uses, part, task.parts);
    }
    const auto differs = [](const char *what, uint64_t got, uint64_t expected) {
      return std::string(what) + " is " + std::to_string(got) + ", " + std::to_string(expected) + " would be right";
    };
    if (stats.tasks_submitted != submitted) return differs("tasks_submitted", stats.tasks_submitted, submitted);
    if (stats.tasks_done != done) return differs("tasks_done", stats.tasks_done, done);
    if (stats.tasks_failed != failed) return differs("tasks_failed", stats.tasks_failed, failed);
    if (stats.tasks_skipped != unwell.size() - failed)
      return differs("tasks_skipped", stats.tasks_skipped, unwell.size() - failed);
    if (kind != Kind::kAll && stats.dependencies != dependencies)
      return differs("dependencies", stats.dependencies, dependencies);
    return "";
  }

  Schedule schedule_;
  simpler_worker *worker_ = nullptr;
  simpler_callable *callable_ = nullptr;
  simpler_buffer *arena_ = nullptr;
  simpler_buffer *log_ = nullptr;
};

void run_or_fail(Bench &bench, Schedule schedule, Kind kind, uint64_t seed) {
  const std::string wrong = bench.run(seed, kind);
  if (wrong.empty()) return;
  fail_msg("%s, program \"%s\" %" PRIu64 ": %s. Replay: tests/seeded/test_programs --replay %s %" PRIu64,
           schedule == Schedule::kSeeded ? "seeded" : "threads", kKindNames[static_cast<int>(kind)], seed, wrong.c_str(),
           kKindNames[static_cast<int>(kind)], seed);
}

void sweep(void *state, Schedule schedule, Kind kind, uint64_t seeds) {
  Bench bench(state, schedule);
  if (api_is_sanitized()) seeds /= 20;
  for (uint64_t seed = 1; seed <= seeds; seed++) run_or_fail(bench, schedule, kind, seed);
}

void programs_equal_sequential_execution(void **state) { sweep(*state, Schedule::kSeeded, Kind::kAll, 12000); }
void intervals_give_exactly_the_dependencies_of_the_oracle(void **state) {
  sweep(*state, Schedule::kSeeded, Kind::kIntervals, 5000);
}
void tiles_give_exactly_the_dependencies_of_the_oracle(void **state) {
  sweep(*state, Schedule::kSeeded, Kind::kTiles, 5000);
}
void programs_on_threads_equal_sequential_execution(void **state) { sweep(*state, Schedule::kThreads, Kind::kAll, 2000); }
void tiles_on_threads_equal_sequential_execution(void **state) { sweep(*state, Schedule::kThreads, Kind::kTiles, 1000); }

// ---- one program, and all of them ----------------------------------------------------------------------------------------

Kind chosen_kind = Kind::kAll;
uint64_t chosen_seed = 1;

void replay(void **state) {
  const Program program(chosen_seed, chosen_kind);
  printf("window %u, heap %" PRIu64 " bytes, failures %s\n", program.window, program.heap_bytes,
         program.has_failures ? "yes" : "no");
  uint64_t number = 0;
  for (const Step &step : program.steps()) {
    static const char *const names[] = {"", "scope begin", "scope end", "alloc", "read", "write", "task"};
    printf("%3" PRIu64 " %s", number++, names[step.operation]);
    if (step.task != nullptr) {
      const Task &task = *step.task;
      printf(" %" PRIu64 ": shape %" PRIu64 ", %" PRIu64 " parts%s%s, after", task.number, task.shape, task.parts,
             task.fails ? ", fails" : "", task.predicate.compare != 0 ? ", predicate" : "");
      for (const Task *producer : task.producers) printf(" %" PRIu64, producer->number);
      for (const program::Use &use : task.uses) {
        printf("; tag %u %s", use.tag,
               use.view.allocation == program.arena(0).data()   ? "buffer"
               : use.view.allocation == program.arena(1).data() ? "host"
                                                                : "intermediate");
        for (uint32_t i = 0; i < use.view.rank; i++)
          printf("[%" PRIu64 ":%" PRIu64 "]", use.view.shape[i], use.view.strides[i]);
        printf(" dtype %u from %td", use.view.dtype,
               static_cast<uint8_t *>(use.view.data) - static_cast<uint8_t *>(use.view.allocation));
      }
    }
    printf("\n");
  }
  fflush(stdout);
  Bench bench(*state, Schedule::kSeeded);
  run_or_fail(bench, Schedule::kSeeded, chosen_kind, chosen_seed);
}

void endless(void **state) {
  Bench bench(*state, Schedule::kSeeded);
  for (uint64_t seed = chosen_seed;; seed++) {
    for (uint32_t kind = 0; kind < program::kKinds; kind++)
      run_or_fail(bench, Schedule::kSeeded, static_cast<Kind>(kind), seed);
    if (seed % 10000 == 0) printf("%" PRIu64 " seeds\n", seed), fflush(stdout);
  }
}

int usage() {
  fprintf(stderr, "usage: test_programs [--replay all|intervals|tiles SEED | --endless [SEED]]\n");
  return 2;
}

bool read_seed(const char *text) {
  char *end = nullptr;
  chosen_seed = strtoull(text, &end, 10);
  return end != text && *end == '\0';
}

}  // namespace

int main(int argc, char **argv) {
  if (argc == 4 && strcmp(argv[1], "--replay") == 0 && read_seed(argv[3])) {
    uint32_t kind = 0;
    while (kind < program::kKinds && strcmp(argv[2], kKindNames[kind]) != 0) kind++;
    if (kind == program::kKinds) return usage();
    chosen_kind = static_cast<Kind>(kind);
    const CMUnitTest tests[] = {API_TEST_IN_PROCESS(replay)};
    return api_run_tests(tests);
  }
  if ((argc == 2 || argc == 3) && strcmp(argv[1], "--endless") == 0 && (argc == 2 || read_seed(argv[2]))) {
    const CMUnitTest tests[] = {API_TEST_IN_PROCESS(endless)};
    return api_run_tests(tests);
  }
  if (argc != 1) return usage();
  const CMUnitTest tests[] = {
      API_TEST_IN_PROCESS(programs_equal_sequential_execution),
      API_TEST_IN_PROCESS(intervals_give_exactly_the_dependencies_of_the_oracle),
      API_TEST_IN_PROCESS(tiles_give_exactly_the_dependencies_of_the_oracle),
      API_TEST_BOTH(programs_on_threads_equal_sequential_execution),
      API_TEST_BOTH(tiles_on_threads_equal_sequential_execution),
  };
  return api_run_tests(tests);
}
