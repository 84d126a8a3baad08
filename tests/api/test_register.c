/* Callables: register and unregister at any time, what is refused, identity, slots, capacity.
 * ctest: TIMEOUT 120 */
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api.h"

/* ---- the founding cases -------------------------------------------------------------------------------------------------- */

/* Registers after the start, which broadcasts to two chips, and runs on both. */
static void register_broadcast_run(simpler_worker *worker, const char *name, uint64_t k) {
  simpler_callable *callable = api_register(worker, name);
  uint64_t words[2][100] = {{0}};
  simpler_run *runs[2];
  int chip, i;
  for (chip = 0; chip < 2; chip++) {
    for (i = 0; i < 100; i++) words[chip][i] = 1000 * (uint64_t)chip + (uint64_t)i;
    runs[chip] = api_submit(worker, callable, chip, words[chip], 100, NULL, 0);
  }
  for (chip = 0; chip < 2; chip++) {
    assert_ok(simpler_run_wait(runs[chip], SIMPLER_FOREVER, &err));
    assert_int_equal(api_stats(runs[chip]).chip, chip);
    assert_ok(simpler_run_release(runs[chip], &err));
    for (i = 0; i < 100; i++) assert_int_equal(words[chip][i], 1000 * chip + i + k);
  }
  assert_ok(simpler_worker_unregister(worker, callable, &err));
}

static void register_after_init_parallel_broadcast(void **state) {
  register_broadcast_run(api_start(*state, 2), "add_3", 3);
}

static void register_after_init_parallel_broadcast_200_times(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  int i;
  for (i = 0; i < 200; i++) {
    char name[16];
    snprintf(name, sizeof name, "add_%d", 1 + i % 12);
    register_broadcast_run(worker, name, 1 + (uint64_t)i % 12);
  }
}

/* Runs, unregisters, registers another callable, which gets the freed cid, and runs that. */
static void run_unregister_reuse_run(simpler_worker *worker, uint64_t first, uint64_t second) {
  const uint64_t versions[2] = {first, second};
  simpler_callable_info infos[2];
  uint32_t chip;
  int i;
  for (i = 0; i < 2; i++) {
    char name[24];
    simpler_callable *callable;
    snprintf(name, sizeof name, "add_%d", (int)versions[i]);
    callable = api_register(worker, name);
    infos[i] = api_callable_info(callable);
    for (chip = 0; chip < 2; chip++) {
      uint64_t word = 100;
      assert_ok(api_run(worker, callable, (int32_t)chip, &word, 1, NULL, 0, &err));
      assert_int_equal(word, 100 + versions[i]);
    }
    assert_ok(simpler_worker_unregister(worker, callable, &err));
  }
  assert_int_equal(infos[0].cid, infos[1].cid);
  assert_int_not_equal(infos[0].generation, infos[1].generation);
  assert_memory_not_equal(infos[0].digest, infos[1].digest, sizeof infos[0].digest);
}

static void register_unregister_register_runs_each_time(void **state) {
  run_unregister_reuse_run(api_start(*state, 2), 1, 2);
}

static void register_unregister_register_runs_each_time_200_times(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  uint64_t i;
  for (i = 0; i < 200; i++) run_unregister_reuse_run(worker, 1 + i % 12, 1 + (i + 1) % 12);
}

/* ---- identity and lifetime ------------------------------------------------------------------------------------------------- */

static uint32_t callables_loaded(simpler_worker *worker) {
  simpler_worker_info info = SIMPLER_WORKER_INFO_INIT;
  assert_ok(simpler_worker_get_info(worker, &info, &err));
  return info.callables;
}

static void check_runs(simpler_worker *worker, simpler_callable *callable, uint64_t k) {
  uint64_t word = 10;
  assert_ok(api_run(worker, callable, SIMPLER_CHIP_ANY, &word, 1, NULL, 0, &err));
  assert_int_equal(word, 10 + k);
}

static void check_refused(simpler_worker *worker, simpler_callable *callable) {
  uint64_t word = 10;
  assert_fails(SIMPLER_INVALID_HANDLE, "callable", api_run(worker, callable, 0, &word, 1, NULL, 0, &err));
  assert_int_equal(word, 10);
}

/* P73 */
static void P73_equal_bytes_share_a_copy_and_handles_live_apart(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  simpler_callable *h1 = api_register(worker, "add_4"), *h2 = api_register(worker, "add_4");
  const simpler_callable_info i1 = api_callable_info(h1), i2 = api_callable_info(h2);
  assert_ptr_not_equal(h1, h2);
  assert_int_equal(i1.cid, i2.cid);
  assert_int_equal(i1.generation, i2.generation);
  assert_memory_equal(i1.digest, i2.digest, sizeof i1.digest);
  assert_int_equal(callables_loaded(worker), 1);
  assert_ok(simpler_worker_unregister(worker, h1, &err));
  check_runs(worker, h2, 4);
  check_refused(worker, h1);
  assert_int_equal(callables_loaded(worker), 1);
  assert_ok(simpler_worker_unregister(worker, h2, &err));
  check_refused(worker, h2);
  assert_int_equal(callables_loaded(worker), 0);
  check_runs(worker, api_register(worker, "add_4"), 4);
}

/* The whole content of a file; malloc'ed. */
static char *read_file(const char *path, size_t *size) {
  FILE *file = fopen(path, "rb");
  struct stat status;
  char *data;
  assert_non_null(file);
  assert_int_equal(fstat(fileno(file), &status), 0);
  data = malloc((size_t)status.st_size + 1);
  assert_non_null(data);
  *size = fread(data, 1, (size_t)status.st_size, file);
  fclose(file);
  assert_int_equal(*size, status.st_size);
  return data;
}

static simpler_callable_desc *describe_bytes(api_desc *d, const void *data, size_t size) {
  api_describe(d, "");
  d->image.path = NULL;
  d->image.data = data;
  d->image.size = size;
  return &d->desc;
}

static void images_may_be_bytes_that_end_after_the_call(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  size_t size;
  char *data = read_file(api_path("add_5"), &size);
  simpler_callable *by_bytes, *by_path = api_register(worker, "add_5");
  api_desc d;
  assert_ok(simpler_worker_register(worker, describe_bytes(&d, data, size), &by_bytes, &err));
  memset(data, 0, size);
  free(data);
  check_runs(worker, by_bytes, 5);
  assert_memory_equal(api_callable_info(by_bytes).digest, api_callable_info(by_path).digest, 32);
  assert_int_equal(callables_loaded(worker), 1);
}

static void a_file_may_go_after_the_call(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  const char *folder = getenv("TMPDIR");
  char path[512];
  size_t size;
  char *data = read_file(api_path("add_6"), &size);
  simpler_callable *callable;
  api_desc d;
  int fd;
  snprintf(path, sizeof path, "%s/callable-XXXXXX", folder != NULL ? folder : "/tmp");
  fd = mkstemp(path);
  assert_true(write(fd, data, size) == (ssize_t)size);
  close(fd);
  free(data);
  api_describe(&d, "");
  d.image.path = path;
  {
    simpler_error *error = NULL;
    const simpler_status status = simpler_worker_register(worker, &d.desc, &callable, &error);
    unlink(path);
    api_check_ok(status, error, "register", __FILE__, __LINE__);
  }
  check_runs(worker, callable, 6);
}

static void info_counts_kernels(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable_info info = SIMPLER_CALLABLE_INFO_INIT;
  simpler_callable *callable = api_register(worker, "add_1");
  assert_int_equal(api_callable_info(callable).kernel_count, 1);
  assert_true(api_callable_info(api_register_orchestration(worker, "orch_chain")).kernel_count > 10);
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_callable_get_info((simpler_callable *)worker, &info, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "callable", simpler_callable_get_info(NULL, &info, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "info", simpler_callable_get_info(callable, NULL, &err));
}

/* C30, P77 */
static void C30_handles_end_once(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable = api_register(worker, "add_1");
  simpler_callable_info info = SIMPLER_CALLABLE_INFO_INIT;
  uint64_t invented[16] = {0};
  assert_ok(simpler_worker_unregister(worker, NULL, &err));
  assert_ok(simpler_worker_unregister(worker, callable, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "callable", simpler_worker_unregister(worker, callable, &err));
  assert_fails(SIMPLER_INVALID_HANDLE, "", simpler_callable_get_info(callable, &info, &err));
  check_refused(worker, callable);
  check_refused(worker, (simpler_callable *)(void *)invented);
  check_refused(worker, (simpler_callable *)1);
  assert_fails(SIMPLER_INVALID_HANDLE, "callable",
               simpler_worker_unregister(worker, (simpler_callable *)(void *)invented, &err));
  {
    const simpler_task task = api_task(NULL, 0, NULL, 0, NULL, 0);
    assert_fails(SIMPLER_INVALID_ARGUMENT, "callable", simpler_worker_run(worker, &task, NULL, &err));
  }
}

/* ---- while runs are in flight --------------------------------------------------------------------------------------------- */

static void register_while_runs_are_in_flight(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  api_gate gate = api_gate_make(worker);
  simpler_run *first = api_gate_enter(worker, &gate, 0);
  simpler_callable *callable = api_register(worker, "add_2"); /* chip 0 is busy, and loads it all the same */
  uint64_t words[2] = {0};
  simpler_run *behind = api_submit(worker, callable, 0, &words[0], 1, NULL, 0);
  assert_ok(api_run(worker, callable, 1, &words[1], 1, NULL, 0, &err));
  assert_int_equal(words[1], 2);
  assert_int_equal(simpler_run_wait(behind, 0, NULL), SIMPLER_TIMEOUT);
  api_gate_open(&gate);
  api_finish(first);
  api_finish(behind);
  assert_int_equal(words[0], 2);
}

/* The handle is dead at once; the code stays until the run that uses it ends; then the slot is free. */
static void unregister_during_a_run_keeps_the_code_until_it_ends(void **state) {
  simpler_worker_options options = api_options(*state, 2);
  simpler_worker *worker;
  api_gate gate;
  simpler_run *run;
  simpler_callable *next;
  options.callable_capacity = 1;
  worker = api_start_with(*state, &options);
  gate = api_gate_make(worker);
  run = api_gate_enter(worker, &gate, 1);
  assert_ok(simpler_worker_unregister(worker, gate.callable, &err));
  check_refused(worker, gate.callable);
  assert_int_equal(simpler_run_wait(run, 0, NULL), SIMPLER_TIMEOUT);
  api_gate_open(&gate);
  api_finish(run);
  next = api_register(worker, "add_3");
  check_runs(worker, next, 3);
}

/* What was submitted before runs what it was submitted with, although its slot may have another tenant by then. */
static void unregister_with_queued_runs_and_reuse_of_the_slot(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  api_gate gate = api_gate_make(worker);
  simpler_run *at_gate = api_gate_enter(worker, &gate, 0), *old_runs[20], *new_runs[20];
  simpler_callable *callable = api_register(worker, "add_1"), *next;
  uint64_t old_words[20] = {0}, new_words[20] = {0};
  int i;
  for (i = 0; i < 20; i++) old_runs[i] = api_submit(worker, callable, 0, &old_words[i], 1, NULL, 0);
  assert_ok(simpler_worker_unregister(worker, callable, &err));
  check_refused(worker, callable);
  next = api_register(worker, "add_9");
  for (i = 0; i < 20; i++) new_runs[i] = api_submit(worker, next, 0, &new_words[i], 1, NULL, 0);
  check_runs(worker, next, 9); /* on the chip that has nothing to do */
  api_gate_open(&gate);
  api_finish(at_gate);
  for (i = 0; i < 20; i++) {
    api_finish(old_runs[i]);
    api_finish(new_runs[i]);
    assert_int_equal(old_words[i], 1);
    assert_int_equal(new_words[i], 9);
  }
}

typedef struct churn {
  simpler_worker *worker;
  int number;
  int rounds;
  char message[512]; /* "" if all went well */
} churn;

/* Registers, runs on both chips and unregisters two callables in turn. No cmocka here: this is another thread. */
static void *churn_on_thread(void *argument) {
  churn *c = argument;
  int round;
  for (round = 0; round < c->rounds && c->message[0] == '\0'; round++) {
    const int k = 1 + (c->number * 3 + round) % 12;
    char path[1024];
    simpler_image image = {path, NULL, 0};
    simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
    simpler_callable *callable = NULL;
    simpler_error *error = NULL;
    uint64_t word = 0;
    int32_t chip;
    simpler_status status;
    snprintf(path, sizeof path, "%s/add_%d.so", TEST_CALLABLE_DIR, k);
    desc.images = &image;
    desc.image_count = 1;
    status = simpler_worker_register(c->worker, &desc, &callable, &error);
    for (chip = 0; chip < 2 && status == SIMPLER_OK; chip++) {
      status = api_run(c->worker, callable, chip, &word, 1, NULL, 0, &error);
    }
    if (status == SIMPLER_OK) status = simpler_worker_unregister(c->worker, callable, &error);
    if (status != SIMPLER_OK || word != 2 * (uint64_t)k) {
      snprintf(c->message, sizeof c->message, "round %d: add_%d twice gave %llu: %s: %s", round, k, (unsigned long long)word,
               simpler_status_name(status), simpler_error_message(error));
    }
    simpler_error_free(error);
  }
  return NULL;
}

/* P71, P80 */
static void P71_four_threads_register_run_and_unregister(void **state) {
  simpler_worker *worker = api_start(*state, 2);
  churn churns[4];
  pthread_t threads[4];
  int i;
  memset(churns, 0, sizeof churns);
  for (i = 0; i < 4; i++) {
    churns[i].worker = worker;
    churns[i].number = i;
    churns[i].rounds = 50;
    pthread_create(&threads[i], NULL, churn_on_thread, &churns[i]);
  }
  for (i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  for (i = 0; i < 4; i++) assert_string_equal(churns[i].message, "");
  assert_int_equal(callables_loaded(worker), 0);
}

/* ---- objects ------------------------------------------------------------------------------------------------------------- */

/* P80: symbols of the same names with different behaviour, loaded side by side and one after the other. */
static void P80_objects_with_equal_symbols_stay_apart(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callables[12];
  uint64_t k;
  for (k = 1; k <= 12; k++) {
    char name[24];
    snprintf(name, sizeof name, "add_%d", (int)k);
    callables[k - 1] = api_register(worker, name);
  }
  for (k = 1; k <= 12; k++) check_runs(worker, callables[k - 1], k);
  for (k = 12; k >= 1; k--) {
    assert_ok(simpler_worker_unregister(worker, callables[k - 1], &err));
    if (k > 1) check_runs(worker, callables[(k - 1) / 2], (k - 1) / 2 + 1);
  }
}

/* Static initialisers, thread-local and function-local variables, exceptions; loaded and unloaded again and again. */
static void P80_objects_in_cxx_load_and_unload(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  int i;
  for (i = 0; i < 30; i++) {
    simpler_callable *callable;
    uint64_t word = 0;
    api_desc d;
    assert_ok(simpler_worker_register(worker, api_describe_orchestration(&d, "work_cxx", "orch_cxx"), &callable, &err));
    assert_ok(api_run(worker, callable, 0, &word, 1, NULL, 0, &err));
    assert_int_equal(word, 6);
    assert_ok(simpler_worker_unregister(worker, callable, &err));
  }
}

static void kernels_may_come_from_several_images(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_callable *callable;
  simpler_image images[2] = {{api_path("work_cxx"), NULL, 0}, {api_path("work"), NULL, 0}};
  simpler_kernel_desc kernels[2] = {{5, SIMPLER_CORE_AIV, 1, 0, "increment"}, {1, SIMPLER_CORE_AIC, 0, 0, "increment"}};
  const uint64_t n = 3;
  uint64_t word = 0;
  simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
  desc.images = images;
  desc.image_count = 2;
  desc.kernels = kernels;
  desc.kernel_count = 2;
  desc.orchestration_symbol = "orch_chain";
  desc.orchestration_image = 1;
  assert_ok(simpler_worker_register(worker, &desc, &callable, &err));
  assert_ok(api_run(worker, callable, 0, &word, 1, &n, 1, &err));
  assert_int_equal(word, 3);
}

/* P79: nothing grows with cycles. */
static void P79_cycles_leave_nothing_behind(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  simpler_test_snapshot *before;
  int i;
  run_unregister_reuse_run(api_start(*state, 2), 1, 2);
  check_runs(worker, api_register(worker, "add_1"), 1);
  before = simpler_test_snapshot_take();
  for (i = 0; i < 100; i++) {
    simpler_callable *callable = api_register(worker, "add_2");
    check_runs(worker, callable, 2);
    assert_ok(simpler_worker_unregister(worker, callable, &err));
  }
  assert_int_equal(simpler_test_snapshot_check(before, "a hundred cycles"), 0);
}

/* ---- capacity ------------------------------------------------------------------------------------------------------------- */

/* P76 */
static void P76_the_limit_is_an_error_that_says_so_and_ends_with_unregister(void **state) {
  simpler_worker_options options = api_options(*state, 2);
  simpler_worker *worker;
  simpler_callable *callables[4], *more;
  api_desc d;
  uint32_t cid;
  int i;
  options.callable_capacity = 4;
  worker = api_start_with(*state, &options);
  for (i = 0; i < 4; i++) {
    char name[16];
    snprintf(name, sizeof name, "add_%d", i + 1);
    callables[i] = api_register(worker, name);
  }
  for (i = 0; i < 3; i++) {
    assert_fails(SIMPLER_CAPACITY_CALLABLES, "4", simpler_worker_register(worker, api_describe(&d, "add_5"), &more, &err));
    assert_null(more);
  }
  assert_fails(SIMPLER_CAPACITY_CALLABLES, "callable_capacity",
               simpler_worker_register(worker, api_describe(&d, "add_5"), &more, &err));
  more = api_register(worker, "add_2"); /* equal bytes need no slot */
  assert_ok(simpler_worker_unregister(worker, more, &err));
  for (i = 0; i < 4; i++) check_runs(worker, callables[i], (uint64_t)i + 1);
  cid = api_callable_info(callables[2]).cid;
  assert_ok(simpler_worker_unregister(worker, callables[2], &err));
  more = api_register(worker, "add_5");
  assert_int_equal(api_callable_info(more).cid, cid);
  check_runs(worker, more, 5);
  check_refused(worker, callables[2]);
  assert_int_equal(callables_loaded(worker), 4);
}

/* ---- what is refused -------------------------------------------------------------------------------------------------------- */

/* After a refusal nothing is left: the worker still has a free slot, its only one, and works. */
static void check_worker_is_unharmed(simpler_worker *worker) {
  simpler_callable *callable;
  assert_int_equal(callables_loaded(worker), 0);
  callable = api_register(worker, "add_1");
  check_runs(worker, callable, 1);
  assert_ok(simpler_worker_unregister(worker, callable, &err));
}

static simpler_worker *start_with_one_slot(void *state) {
  simpler_worker_options options = api_options(state, 2);
  options.callable_capacity = 1;
  return api_start_with(state, &options);
}

static void missing_files_are_named(void **state) {
  simpler_worker *worker = start_with_one_slot(*state);
  simpler_callable *callable = (simpler_callable *)1;
  api_desc d;
  api_describe(&d, "");
  d.image.path = "/nowhere/kernels.so";
  assert_fails(SIMPLER_NOT_FOUND, "/nowhere/kernels.so", simpler_worker_register(worker, &d.desc, &callable, &err));
  assert_null(callable);
  d.image.path = TEST_CALLABLE_DIR; /* a folder */
  assert_int_not_equal(simpler_worker_register(worker, &d.desc, &callable, NULL), SIMPLER_OK);
  assert_null(callable);
  check_worker_is_unharmed(worker);
}

static void files_that_are_no_shared_objects_are_refused(void **state) {
  simpler_worker *worker = start_with_one_slot(*state);
  simpler_callable *callable;
  static const char text[] =
      "This is not a shared object, but it is longer than an ELF header, which has sixty-four bytes.\n";
  size_t size, cut;
  char *data = read_file(api_path("add_1"), &size);
  Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)data;
  const Elf64_Ehdr good = *header;
  api_desc d;
#define REFUSED(data, size)                                                                                                 \
  do {                                                                                                                      \
    assert_fails(SIMPLER_LOAD_IMAGE, "", simpler_worker_register(worker, describe_bytes(&d, data, size), &callable, &err)); \
    assert_null(callable);                                                                                                  \
  } while (0)
  REFUSED(text, sizeof text);
  REFUSED("x", 1);
  for (cut = 1; cut < size; cut = cut < 70 ? cut + 23 : cut * 2) REFUSED(data, cut); /* truncated */
  REFUSED(data, size - 1);
  header->e_machine = header->e_machine == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;
  REFUSED(data, size);
  *header = good;
  header->e_ident[EI_CLASS] = ELFCLASS32;
  REFUSED(data, size);
  *header = good;
  header->e_type = ET_EXEC;
  REFUSED(data, size);
  *header = good;
  header->e_phoff = UINT64_MAX - 8;
  REFUSED(data, size);
  *header = good;
  header->e_phnum = 0xffff;
  REFUSED(data, size);
  free(data);
#undef REFUSED
  check_worker_is_unharmed(worker);
}

/* Like any program's, a damaged image may crash the loader: then it is the chip that goes, not the host. With the header and
 * the program headers whole, no damage here may do even that. */
static void damaged_tables_are_refused(void **state) {
  simpler_worker *worker = start_with_one_slot(*state);
  simpler_callable *callable = NULL;
  size_t size;
  char *data = read_file(api_path("add_1"), &size);
  Elf64_Ehdr *header = (Elf64_Ehdr *)(void *)data;
  Elf64_Phdr *segments = (Elf64_Phdr *)(void *)(data + header->e_phoff);
  api_desc d;
  int i;
  for (i = 0; i < header->e_phnum; i++) {
    const Elf64_Phdr good = segments[i];
    if (good.p_type != PT_LOAD) continue;
    segments[i].p_offset = (size + 0x200000) & ~(size_t)0xfff;
    assert_fails(SIMPLER_LOAD_IMAGE, "", simpler_worker_register(worker, describe_bytes(&d, data, size), &callable, &err));
    segments[i] = good;
    segments[i].p_filesz = segments[i].p_memsz = (uint64_t)1 << 60;
    assert_fails(SIMPLER_LOAD_IMAGE, "", simpler_worker_register(worker, describe_bytes(&d, data, size), &callable, &err));
    segments[i] = good;
  }
  free(data);
  check_worker_is_unharmed(worker);
}

/* P84 */
static void P84_missing_symbols_are_named(void **state) {
  simpler_worker *worker = start_with_one_slot(*state);
  simpler_callable *callable;
  api_desc d;
  api_describe_kernel(&d, "fill");
  d.kernels[0].symbol = "no_such_kernel";
  assert_fails(SIMPLER_LOAD_SYMBOL, "no_such_kernel", simpler_worker_register(worker, &d.desc, &callable, &err));
  assert_null(callable);
  api_describe_orchestration(&d, "work", "no_such_orchestration");
  assert_fails(SIMPLER_LOAD_SYMBOL, "no_such_orchestration", simpler_worker_register(worker, &d.desc, &callable, &err));
  assert_null(callable);
  assert_fails(SIMPLER_LOAD_SYMBOL, "simpler_exported_callable",
               simpler_worker_register(worker, api_describe(&d, "work"), &callable, &err)); /* does not describe itself */
  assert_null(callable);
  check_worker_is_unharmed(worker);
}

static void objects_of_a_later_interface_are_refused(void **state) {
  simpler_worker *worker = start_with_one_slot(*state);
  simpler_callable *callable;
  api_desc d;
  assert_fails(SIMPLER_LOAD_VERSION, "", simpler_worker_register(worker, api_describe(&d, "chip_future"), &callable, &err));
  assert_null(callable);
  check_worker_is_unharmed(worker);
}

static void bad_descriptions_are_refused_by_name(void **state) {
  simpler_worker *worker = start_with_one_slot(*state);
  simpler_callable *callable;
  const simpler_parameter bad_signature[2] = {SIMPLER_PARAMETER_IN, 9};
  api_desc d;
#define REFUSED(part)                                                                                        \
  do {                                                                                                       \
    assert_fails(SIMPLER_INVALID_ARGUMENT, part, simpler_worker_register(worker, &d.desc, &callable, &err)); \
    assert_null(callable);                                                                                   \
    api_describe_orchestration(&d, "work", "orch_chain");                                                    \
  } while (0)
  assert_fails(SIMPLER_INVALID_ARGUMENT, "desc", simpler_worker_register(worker, NULL, &callable, &err));
  assert_fails(SIMPLER_INVALID_ARGUMENT, "callable", simpler_worker_register(worker, api_describe(&d, "add_1"), NULL, &err));
  api_describe_orchestration(&d, "work", "orch_chain");
  d.desc.struct_size = 0;
  REFUSED("struct_size");
  d.desc.images = NULL;
  REFUSED("images");
  d.desc.image_count = 0;
  REFUSED("image");
  d.image.path = NULL;
  REFUSED("image");
  d.image.data = "x";
  d.image.size = 1;
  REFUSED("image"); /* both path and bytes */
  d.kernels[3].image = 1;
  REFUSED("image");
  d.desc.orchestration_image = 1;
  REFUSED("image");
  d.kernels[3].core_type = 7;
  REFUSED("core_type");
  d.kernels[3].symbol = NULL;
  REFUSED("symbol");
  d.kernels[3].kernel_id = d.kernels[2].kernel_id;
  REFUSED("kernel_id");
  d.kernels[3].kernel_id = SIMPLER_NO_KERNEL;
  REFUSED("kernel_id");
  d.kernels[3].reserved = 1;
  REFUSED("reserved");
  d.desc.kernels = NULL;
  REFUSED("kernels");
  d.desc.orchestration_symbol = NULL;
  REFUSED("orchestration"); /* many kernels, and nothing that says which to run */
  d.desc.signature = bad_signature;
  d.desc.signature_count = 2;
  REFUSED("signature");
  d.desc.signature_count = 2;
  REFUSED("signature"); /* NULL */
  d.desc.reserved = 1;
  REFUSED("reserved");
#undef REFUSED
  check_worker_is_unharmed(worker);
}

static void arguments_are_checked_against_the_signature(void **state) {
  simpler_worker *worker = api_start(*state, 1);
  static const simpler_parameter signature[] = {SIMPLER_PARAMETER_IN, SIMPLER_PARAMETER_SCALAR, SIMPLER_PARAMETER_OUT};
  uint64_t in[4] = {1, 2, 3, 4}, out[4] = {0};
  const uint64_t scalar = 0;
  simpler_tensor_arg tensors[2] = {api_words(in, 4), api_words(out, 4)};
  simpler_callable *callable;
  simpler_task task;
  api_desc d;
  api_describe_kernel(&d, "copy");
  d.desc.signature = signature;
  d.desc.signature_count = 3;
  assert_ok(simpler_worker_register(worker, &d.desc, &callable, &err));
  task = api_task(callable, 0, tensors, 2, &scalar, 1);
  tensors[0].tag = SIMPLER_TAG_INPUT;
  tensors[1].tag = SIMPLER_TAG_OUTPUT_EXISTING;
  assert_ok(simpler_worker_run(worker, &task, NULL, &err));
  assert_memory_equal(in, out, sizeof in);
  task.scalar_count = 0;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "scalar", simpler_worker_run(worker, &task, NULL, &err));
  task.scalar_count = 1;
  task.tensor_count = 1;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "tensor", simpler_worker_run(worker, &task, NULL, &err));
  task.tensor_count = 2;
  tensors[0].tag = SIMPLER_TAG_INOUT;
  assert_fails(SIMPLER_INVALID_ARGUMENT, "tag", simpler_worker_run(worker, &task, NULL, &err));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      API_TEST_BOTH(register_after_init_parallel_broadcast),
      API_TEST_BOTH(register_unregister_register_runs_each_time),
      API_TEST_BOTH(register_after_init_parallel_broadcast_200_times),
      API_TEST_BOTH(register_unregister_register_runs_each_time_200_times),
      API_TEST_BOTH(P73_equal_bytes_share_a_copy_and_handles_live_apart),
      API_TEST_BOTH(images_may_be_bytes_that_end_after_the_call),
      API_TEST_BOTH(a_file_may_go_after_the_call),
      API_TEST_BOTH(info_counts_kernels),
      API_TEST_BOTH(C30_handles_end_once),
      API_TEST_BOTH(register_while_runs_are_in_flight),
      API_TEST_BOTH(unregister_during_a_run_keeps_the_code_until_it_ends),
      API_TEST_BOTH(unregister_with_queued_runs_and_reuse_of_the_slot),
      API_TEST_BOTH(P71_four_threads_register_run_and_unregister),
      API_TEST_BOTH(P80_objects_with_equal_symbols_stay_apart),
      API_TEST_BOTH(P80_objects_in_cxx_load_and_unload),
      API_TEST_BOTH(kernels_may_come_from_several_images),
      API_TEST_BOTH(P79_cycles_leave_nothing_behind),
      API_TEST_BOTH(P76_the_limit_is_an_error_that_says_so_and_ends_with_unregister),
      API_TEST_BOTH(missing_files_are_named),
      API_TEST_BOTH(files_that_are_no_shared_objects_are_refused),
      API_TEST_BOTH(damaged_tables_are_refused),
      API_TEST_BOTH(P84_missing_symbols_are_named),
      API_TEST_BOTH(objects_of_a_later_interface_are_refused),
      API_TEST_BOTH(bad_descriptions_are_refused_by_name),
      API_TEST_BOTH(arguments_are_checked_against_the_signature),
  };
  return api_run_tests(tests);
}
