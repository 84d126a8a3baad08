// Kernels and orchestrations of the programming model beyond single kernels: MIX tasks, synchronised starts, predicates, scalars of
// tensors, signals, deferred completion. model.h says what each scenario does.
#include "model.h"

#include <initializer_list>
#include <vector>

#include "simpler/device.h"

namespace {

uint64_t *words(const simpler_args *args) { return static_cast<uint64_t *>(args->tensors[0].data); }
void add_to(uint64_t *word, uint64_t value) { __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST); }
uint64_t load(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
void store(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }
// Counts one more mistake unless it holds.
void expect(bool holds, const simpler_args *args) {
  if (!holds) add_to(words(args), 1);
}
bool has_part(uint64_t shape, uint32_t position) { return (shape >> position & 1) != 0; }

// Set when the orchestration has submitted everything.
uint64_t submitted_all;
void await_all_submitted(const simpler_kernel_context *context) {
  while (load(&submitted_all) == 0) simpler_kernel_yield(context);
}

// ---- kernels that work together ---------------------------------------------------------------------------------------

// Scalar 0: words.
void fifo(const simpler_kernel_context *c, const simpler_args *args) {
  const uint64_t n = args->scalars[0];
  uint64_t sum = 0, word = 0;
  if (c->position == SIMPLER_POSITION_AIC) {
    for (uint64_t i = 1; i <= n; i++) {
      expect(simpler_kernel_push(c, SIMPLER_POSITION_AIV0, i) == SIMPLER_OK, args);
      expect(simpler_kernel_push(c, SIMPLER_POSITION_AIV1, 2 * i) == SIMPLER_OK, args);
    }
    expect(simpler_kernel_pop(c, SIMPLER_POSITION_AIV1, &word) == SIMPLER_OK, args);
    sum += word;
    expect(simpler_kernel_pop(c, SIMPLER_POSITION_AIV0, &word) == SIMPLER_OK, args);
    add_to(words(args) + 1, sum + word);
    return;
  }
  for (uint64_t i = 1; i <= n; i++) {
    expect(simpler_kernel_pop(c, SIMPLER_POSITION_AIC, &word) == SIMPLER_OK, args);
    expect(word == i * c->position, args);  // in the order in which they were pushed
    sum += word;
  }
  expect(simpler_kernel_push(c, SIMPLER_POSITION_AIC, sum) == SIMPLER_OK, args);
}

// Scalar 0: shape. The parts tell each other where they are.
void parts(const simpler_kernel_context *c, const simpler_args *args) {
  const uint64_t shape = args->scalars[0];
  expect(has_part(shape, c->position), args);
  expect(c->core_type == (c->position == SIMPLER_POSITION_AIC ? SIMPLER_CORE_AIC : SIMPLER_CORE_AIV), args);
  for (uint32_t other = 0; other < 3; other++) {
    if (other == c->position || !has_part(shape, other)) continue;
    uint64_t word = 0;
    expect(simpler_kernel_push(c, other, uint64_t{c->cluster} << 32 | c->block_index) == SIMPLER_OK, args);
    expect(simpler_kernel_pop(c, other, &word) == SIMPLER_OK, args);
    expect(word == (uint64_t{c->cluster} << 32 | c->block_index), args);
  }
  add_to(words(args) + 1, 1);
}

// Scalars: rounds, members that meet, and whether each block has a counter of its own (tensor 1).
void meet(const simpler_kernel_context *c, const simpler_args *args) {
  const uint64_t rounds = args->scalars[0], members = args->scalars[1];
  uint64_t *counter = static_cast<uint64_t *>(args->tensors[1].data) + (args->scalars[2] != 0 ? c->block_index : 0);
  for (uint64_t round = 1; round <= rounds; round++) {
    add_to(counter, 1);
    if (simpler_kernel_barrier(c) != SIMPLER_OK) return add_to(words(args), 1);
    expect(load(counter) == round * members, args);
    if (simpler_kernel_barrier(c) != SIMPLER_OK) return add_to(words(args), 1);
  }
  add_to(words(args) + 1, 1);
}

void single(const simpler_kernel_context *c, const simpler_args *args) {
  await_all_submitted(c);
  add_to(words(args) + 1, 1);
}
void count_calls(const simpler_kernel_context *, const simpler_args *args) { add_to(words(args) + 1, 1); }
void cohort_member(const simpler_kernel_context *c, const simpler_args *args) {
  if (c->block_index == 0) store(words(args) + 2, load(words(args) + 1) + 1);
  expect(simpler_kernel_barrier(c) == SIMPLER_OK, args);
}

// Scalar 0: what to do wrong. The parts that have nothing to do wrong return at once.
void misuse(const simpler_kernel_context *c, const simpler_args *args) {
  uint64_t word = 77;
  const auto *bytes = static_cast<const char *>(args->tensors[0].data);
  const auto is_refused = [&](simpler_status status) { expect(status != SIMPLER_OK, args); };
  if (args->scalars[0] == MODEL_MISUSE_BARRIER_SPMD) return is_refused(simpler_kernel_barrier(c));
  if (args->scalars[0] == MODEL_MISUSE_BARRIER_LEFT && c->block_index != 0) return is_refused(simpler_kernel_barrier(c));
  if (c->position != SIMPLER_POSITION_AIC) return;
  switch (args->scalars[0]) {
    case MODEL_MISUSE_POP_OWN:
      is_refused(simpler_kernel_pop(c, SIMPLER_POSITION_AIC, &word));
      return expect(word == 0, args);
    case MODEL_MISUSE_POP_ABSENT:
      return is_refused(simpler_kernel_pop(c, SIMPLER_POSITION_AIV1, &word));
    case MODEL_MISUSE_POP_NOWHERE:
      return is_refused(simpler_kernel_pop(c, 3, &word));
    case MODEL_MISUSE_POP_NULL:
      return is_refused(simpler_kernel_pop(c, SIMPLER_POSITION_AIV0, nullptr));
    case MODEL_MISUSE_POP_LEFT:
      return is_refused(simpler_kernel_pop(c, SIMPLER_POSITION_AIV0, &word));
    case MODEL_MISUSE_PUSH_LEFT:
      for (uint32_t i = 0; i < SIMPLER_FIFO_WORDS; i++)
        expect(simpler_kernel_push(c, SIMPLER_POSITION_AIV0, i) == SIMPLER_OK, args);
      return is_refused(simpler_kernel_push(c, SIMPLER_POSITION_AIV0, 0));
    case MODEL_MISUSE_SIGNAL_NULL:
      return simpler_kernel_signal_set(c, nullptr, 1);
    case MODEL_MISUSE_SIGNAL_MISALIGNED:
      expect(simpler_kernel_signal_add(c, reinterpret_cast<uint64_t *>(const_cast<char *>(bytes + 4)), 1) == 0, args);
      return;
    case MODEL_MISUSE_SIGNAL_COMPARE:
      return is_refused(simpler_kernel_signal_wait(c, words(args), 7, 0));
    default:
      return;
  }
}

// Scalar 0: how the others wait. Block 0 (its AIC part) fails when they do.
void fail_waiting(const simpler_kernel_context *c, const simpler_args *args) {
  const uint64_t how = args->scalars[0], waiters = args->scalars[1];
  const bool fails = c->block_index == 0 && c->position != SIMPLER_POSITION_AIV1 && (waiters > 1 || c->position == 0);
  uint64_t *waiting = words(args) + 1;
  if (fails) {
    while (load(waiting) < waiters) simpler_kernel_yield(c);
    return simpler_kernel_fail(c, 42, "fails while others wait");
  }
  uint64_t word = 0;
  simpler_status status = SIMPLER_OK;
  if (how == MODEL_WAITING_PUSH)
    for (uint32_t i = 0; i < SIMPLER_FIFO_WORDS; i++)
      expect(simpler_kernel_push(c, SIMPLER_POSITION_AIC, i) == SIMPLER_OK, args);
  add_to(waiting, 1);
  if (how == MODEL_WAITING_BARRIER) status = simpler_kernel_barrier(c);
  if (how == MODEL_WAITING_POP) status = simpler_kernel_pop(c, SIMPLER_POSITION_AIC, &word);
  if (how == MODEL_WAITING_PUSH) status = simpler_kernel_push(c, SIMPLER_POSITION_AIC, 0);
  if (how == MODEL_WAITING_SIGNAL) status = simpler_kernel_signal_wait(c, words(args) + 5, SIMPLER_COMPARE_EQ, 99);
  expect(status == SIMPLER_CANCELLED || status == SIMPLER_KERNEL_FAILED, args);
  add_to(words(args) + 2, 1);
}

// ---- other kernels ------------------------------------------------------------------------------------------------------

void nothing(const simpler_kernel_context *, const simpler_args *) {}
void fail_42(const simpler_kernel_context *c, const simpler_args *) {
  await_all_submitted(c);
  simpler_kernel_fail(c, 42, "as asked for");
}
// Element scalar 0 of tensor 0 += 1. Tensor 1 may be an output, which it then fills with ones.
void count(const simpler_kernel_context *, const simpler_args *args) {
  add_to(words(args) + args->scalars[0], 1);
  if (args->tensor_count < 2) return;
  uint64_t *out = static_cast<uint64_t *>(args->tensors[1].data);
  for (uint64_t i = 0; i < simpler_tensor_elements(&args->tensors[1]); i++) out[i] = 1;
}
// Element scalar 0 of tensor 0 += sum of tensor 1.
void sum(const simpler_kernel_context *, const simpler_args *args) {
  const uint64_t *in = static_cast<const uint64_t *>(args->tensors[1].data);
  for (uint64_t i = 0; i < simpler_tensor_elements(&args->tensors[1]); i++) add_to(words(args) + args->scalars[0], in[i]);
}
// Tensor 0 := 1, late.
void set_late(const simpler_kernel_context *c, const simpler_args *args) {
  await_all_submitted(c);
  for (int i = 0; i < 100; i++) simpler_kernel_yield(c);
  words(args)[0] = 1;
}
// Not atomic: right only when ordered.
void increment(const simpler_kernel_context *, const simpler_args *args) { words(args)[0]++; }
// Element scalar 0 of tensor 0 += tensor 1's first.
void read_one(const simpler_kernel_context *c, const simpler_args *args) {
  for (int i = 0; i < 10; i++) simpler_kernel_yield(c);
  add_to(words(args) + args->scalars[0], *static_cast<const uint64_t *>(args->tensors[1].data));
}
void count_halves(const simpler_kernel_context *, const simpler_args *args) {
  const auto *in = static_cast<const float *>(args->tensors[1].data);
  for (uint64_t i = 0; i < simpler_tensor_elements(&args->tensors[1]); i++) add_to(words(args) + 1, in[i] == 2.5f ? 1 : 0);
}

void signal_waiter(const simpler_kernel_context *c, const simpler_args *args) {
  auto *signal = static_cast<uint64_t *>(args->tensors[1].data);
  expect(simpler_kernel_signal_wait(c, signal, SIMPLER_COMPARE_GE, 1) == SIMPLER_OK, args);
  expect(signal[1] == 5, args);  // written before the signal
  add_to(words(args) + 1, 1);
}
void signal_setter(const simpler_kernel_context *c, const simpler_args *args) {
  auto *signal = static_cast<uint64_t *>(args->tensors[1].data);
  signal[1] = 5;
  expect(simpler_kernel_signal_add(c, signal, 1) == 0, args);
}
// Scalars: compare, value.
void signal_compare(const simpler_kernel_context *c, const simpler_args *args) {
  auto *signal = static_cast<uint64_t *>(args->tensors[1].data);
  expect(
      simpler_kernel_signal_wait(c, signal, static_cast<simpler_compare>(args->scalars[0]), args->scalars[1]) == SIMPLER_OK,
      args);
  add_to(words(args) + 1, 1);
}
void signal_seven(const simpler_kernel_context *c, const simpler_args *args) {
  simpler_kernel_signal_set(c, static_cast<uint64_t *>(args->tensors[1].data), 7);
}
void wait_here(const simpler_kernel_context *c, const simpler_args *args) {
  if (simpler_kernel_signal_wait(c, words(args) + 1, SIMPLER_COMPARE_GE, args->scalars[0]) != SIMPLER_OK) return;
  add_to(words(args) + 2, 1);
}
void add_here(const simpler_kernel_context *c, const simpler_args *args) {
  simpler_kernel_signal_add(c, words(args) + 1, args->scalars[0]);
}

// Scalar 0: conditions, words of tensor 1, each at 3.
void complete_when(const simpler_kernel_context *c, const simpler_args *args) {
  auto *counters = static_cast<uint64_t *>(args->tensors[1].data);
  for (uint64_t i = 0; i < args->scalars[0]; i++)
    expect(simpler_kernel_complete_when(c, counters + i, 3) == SIMPLER_OK, args);
}
void complete_when_block(const simpler_kernel_context *c, const simpler_args *args) {
  auto *counters = static_cast<uint64_t *>(args->tensors[1].data);
  expect(simpler_kernel_complete_when(c, counters + c->block_index, 3) == SIMPLER_OK, args);
}
// Scalars: counters, and how: 0 by signals, 1 by plain stores.
void add_to_counters(const simpler_kernel_context *c, const simpler_args *args) {
  auto *counters = static_cast<uint64_t *>(args->tensors[1].data);
  await_all_submitted(c);
  for (uint64_t i = 0; i < args->scalars[0]; i++) {
    if (args->scalars[1] != 0) {
      add_to(counters + i, 1);
    } else {
      simpler_kernel_signal_add(c, counters + i, 1);
    }
  }
}
void check_counters(const simpler_kernel_context *, const simpler_args *args) {
  auto *counters = static_cast<uint64_t *>(args->tensors[1].data);
  for (uint64_t i = 0; i < args->scalars[0]; i++) expect(load(counters + i) >= 3, args);
  add_to(words(args) + 1, 1);
}

uint64_t position_now;
// Scalars: number, tasks.
void write_down(const simpler_kernel_context *c, const simpler_args *args) {
  words(args)[1 + args->scalars[0]] = __atomic_fetch_add(&position_now, 1, __ATOMIC_SEQ_CST);
  words(args)[1 + args->scalars[1] + args->scalars[0]] = c->core_id;
}

// ---- table ----------------------------------------------------------------------------------------------------------------

// Each kernel is there for both types of core: AIV under its number, AIC under that + 100.
// clang-format 14 does not come to rest on this list.
// clang-format off
#define KERNELS(X) \
  X(fifo) X(parts) X(meet) X(single) X(count_calls) X(cohort_member) X(misuse) X(fail_waiting) X(nothing) \
  X(fail_42) X(count) X(sum) X(set_late) X(increment) X(read_one) X(count_halves) X(signal_waiter) \
  X(signal_setter) X(signal_compare) X(signal_seven) X(wait_here) X(add_here) X(complete_when) \
  X(complete_when_block) X(add_to_counters) X(check_counters) X(write_down)
// clang-format on
enum Kernel : uint32_t {
#define NUMBER(name) k_##name,
  KERNELS(NUMBER)
#undef NUMBER
};
constexpr uint32_t kAic = 100;
const simpler_callable_kernel kernels[] = {
#define ENTRIES(name) \
  SIMPLER_KERNEL(k_##name, SIMPLER_CORE_AIV, name), SIMPLER_KERNEL(k_##name + kAic, SIMPLER_CORE_AIC, name),
    KERNELS(ENTRIES)
#undef ENTRIES
};

// ---- building tasks -------------------------------------------------------------------------------------------------------

constexpr uint64_t kAiv = 1u << SIMPLER_POSITION_AIV0;
constexpr uint64_t kMix = 7;

class Task {
 public:
  explicit Task(Kernel kernel, uint64_t shape = kAiv) {
    if (has_part(shape, SIMPLER_POSITION_AIC)) task_.aic = kernel + kAic;
    if (has_part(shape, SIMPLER_POSITION_AIV0)) task_.aiv0 = kernel;
    if (has_part(shape, SIMPLER_POSITION_AIV1)) task_.aiv1 = kernel;
  }
  Task &tensor(const simpler_tensor &view, simpler_tag tag) {
    views_.push_back(view);
    tags_.push_back(tag);
    return *this;
  }
  Task &scalars(std::initializer_list<uint64_t> scalars) {
    scalars_ = scalars;
    return *this;
  }
  Task &blocks(uint64_t count, bool sync = false) {
    task_.block_count = static_cast<uint32_t>(count);
    task_.flags = sync ? SIMPLER_TASK_SYNC_START : 0;
    return *this;
  }
  Task &after(simpler_task_id id) {
    after_.push_back(id);
    return *this;
  }
  Task &predicate(const simpler_predicate &predicate) {
    task_.predicate = &predicate;
    return *this;
  }
  const simpler_tensor &view(size_t i) const { return views_[i]; }
  simpler_task_id submit(simpler_orch *orch) {
    std::vector<simpler_task_tensor> tensors;
    for (size_t i = 0; i < views_.size(); i++) tensors.push_back({&views_[i], tags_[i], 0});
    task_.tensors = tensors.data();
    task_.tensor_count = static_cast<uint32_t>(tensors.size());
    task_.scalars = scalars_.data();
    task_.scalar_count = static_cast<uint32_t>(scalars_.size());
    task_.after = after_.data();
    task_.after_count = static_cast<uint32_t>(after_.size());
    simpler_task_id id = 0;
    simpler_orch_submit(orch, &task_, &id);
    return id;
  }

 private:
  simpler_kernel_task task_ = SIMPLER_KERNEL_TASK_INIT;
  std::vector<simpler_tensor> views_;
  std::vector<simpler_tag> tags_;
  std::vector<uint64_t> scalars_;
  std::vector<simpler_task_id> after_;
};

simpler_tensor allocate(simpler_orch *orch, uint64_t elements, simpler_dtype dtype = SIMPLER_DTYPE_UINT64) {
  simpler_tensor t = simpler_tensor_make(dtype, 1, &elements);
  simpler_orch_alloc(orch, &t);
  return t;
}

// ---- orchestrations -------------------------------------------------------------------------------------------------------

void meeting(simpler_orch *orch, const simpler_args *args, uint64_t blocks, uint64_t rounds, uint64_t shape, bool sync) {
  const auto parts = static_cast<uint64_t>(__builtin_popcountll(shape));
  Task(k_meet, shape)
      .tensor(args->tensors[0], SIMPLER_TAG_NO_DEP)
      .tensor(allocate(orch, blocks), SIMPLER_TAG_INOUT)
      .scalars({rounds, sync ? parts * blocks : parts, !sync})
      .blocks(blocks, sync)
      .submit(orch);
}

void starvation(simpler_orch *orch, const simpler_args *args, uint64_t singles, uint64_t blocks, uint64_t shape) {
  const auto submit_singles = [&] {
    for (uint64_t i = 0; i < singles / 2; i++)
      Task(k_single, has_part(shape, 0) && i % 2 == 0 ? 1 : kAiv).tensor(args->tensors[0], SIMPLER_TAG_NO_DEP).submit(orch);
  };
  submit_singles();
  Task(k_cohort_member, shape).tensor(args->tensors[0], SIMPLER_TAG_NO_DEP).blocks(blocks, true).submit(orch);
  submit_singles();
}

void cohorts(simpler_orch *orch, const simpler_args *args, uint64_t rounds) {
  for (uint64_t i = 0; i < rounds; i++) {
    meeting(orch, args, 1 + i * 7 % 24, 2, i % 3 == 0 ? kMix : i % 3 == 1 ? 1 : kAiv, true);
    meeting(orch, args, 1 + i * 5 % 40, 2, 3 + i % 4 / 2 * 2, false);  // AIC and AIV0, or AIC and AIV1
    Task(k_count_calls).tensor(args->tensors[0], SIMPLER_TAG_NO_DEP).blocks(3).submit(orch);
  }
}

void misuses(simpler_orch *orch, const simpler_args *args, uint64_t which) {
  Task task(k_misuse, which == MODEL_MISUSE_BARRIER_SPMD ? kAiv : 3);
  task.tensor(args->tensors[0], SIMPLER_TAG_NO_DEP).scalars({which});
  if (which == MODEL_MISUSE_BARRIER_SPMD) task.blocks(2);
  if (which == MODEL_MISUSE_BARRIER_LEFT) task.blocks(2, true);
  task.submit(orch);
}

void failing_waits(simpler_orch *orch, const simpler_args *args, uint64_t how) {
  const bool is_pair = how == MODEL_WAITING_POP || how == MODEL_WAITING_PUSH;
  Task(k_fail_waiting, is_pair ? 3 : kAiv)
      .tensor(args->tensors[0], SIMPLER_TAG_NO_DEP)
      .scalars({how, is_pair ? 1u : 7u})
      .blocks(is_pair ? 1 : 8, !is_pair)
      .submit(orch);
}

void predicated(simpler_orch *orch, const simpler_args *args) {
  const auto dtype = static_cast<simpler_dtype>(args->scalars[1]);
  const bool manual = args->scalars[5] != 0;
  simpler_tensor element = simpler_tensor_make(dtype, 1, args->scalars + 6);  // 6: elements
  simpler_orch_alloc_filled(orch, &element, args->scalars[4]);
  simpler_predicate predicate = {};
  predicate.tensor = &element;
  predicate.index[0] = args->scalars[6] - 1;
  predicate.compare = static_cast<simpler_compare>(args->scalars[2]);
  predicate.constant = args->scalars[3];
  if (manual) simpler_orch_scope_begin(orch, SIMPLER_SCOPE_MANUAL);
  const uint64_t n = 1000;
  Task task(k_count);
  const simpler_task_id id = task.tensor(args->tensors[0], SIMPLER_TAG_INOUT)
                                 .tensor(simpler_tensor_make(SIMPLER_DTYPE_UINT64, 1, &n), SIMPLER_TAG_OUTPUT)
                                 .scalars({1})
                                 .predicate(predicate)
                                 .submit(orch);
  Task(k_count).tensor(args->tensors[0], SIMPLER_TAG_INOUT).scalars({2}).after(id).submit(orch);
  Task(k_sum)
      .tensor(args->tensors[0], SIMPLER_TAG_INOUT)
      .tensor(task.view(1), SIMPLER_TAG_INPUT)
      .scalars({3})
      .after(id)
      .submit(orch);
  if (manual) simpler_orch_scope_end(orch);
}

void predicate_waits(simpler_orch *orch, const simpler_args *args, bool manual) {
  const simpler_tensor element = allocate(orch, 1);
  if (manual) simpler_orch_scope_begin(orch, SIMPLER_SCOPE_MANUAL);
  Task(k_set_late).tensor(element, SIMPLER_TAG_INOUT).submit(orch);
  simpler_predicate predicate = {};
  predicate.tensor = &element;
  predicate.compare = SIMPLER_COMPARE_EQ;
  predicate.constant = 1;
  Task(k_count).tensor(args->tensors[0], SIMPLER_TAG_NO_DEP).scalars({1}).predicate(predicate).submit(orch);
  if (manual) simpler_orch_scope_end(orch);
}

void bad_predicate(simpler_orch *orch, const simpler_args *args, uint64_t which) {
  const uint64_t n = 4;
  const simpler_tensor none = simpler_tensor_make(SIMPLER_DTYPE_UINT64, 1, &n);
  simpler_predicate predicate = {};
  predicate.tensor = which == 0 ? nullptr : which == 1 ? &none : &args->tensors[0];
  predicate.compare = which == 2 ? 7 : which == 3 ? 0 : SIMPLER_COMPARE_EQ;
  predicate.index[0] = which == 4 ? args->tensors[0].shape[0] : 0;
  predicate.reserved = which == 5 ? 1 : 0;
  Task(k_count).tensor(args->tensors[0], SIMPLER_TAG_NO_DEP).scalars({1}).predicate(predicate).submit(orch);
}

void scalar(simpler_orch *orch, const simpler_args *args) {
  const auto dtype = static_cast<simpler_dtype>(args->scalars[1]);
  const simpler_tensor t = allocate(orch, 6, dtype);
  for (uint64_t i = 0; i < 2; i++) {
    const uint64_t index = 2 + i;
    simpler_orch_write_scalar(orch, &t, &index, args->scalars[2]);
    simpler_orch_read_scalar(orch, &t, &index, words(args) + 1 + i);
    if (i == 0) {
      const uint64_t next = 3;
      simpler_orch_read_scalar(orch, &t, &next, words(args) + 3);
    }
  }
}

void scalar_waits(simpler_orch *orch, const simpler_args *args, uint64_t n) {
  const simpler_tensor t = allocate(orch, 1);
  const uint64_t index = 0;
  for (uint64_t i = 0; i < n; i++) Task(k_increment).tensor(t, SIMPLER_TAG_INOUT).submit(orch);
  simpler_orch_read_scalar(orch, &t, &index, words(args) + 1);
  for (uint64_t i = 0; i < n; i++)
    Task(k_read_one).tensor(args->tensors[0], SIMPLER_TAG_NO_DEP).tensor(t, SIMPLER_TAG_INPUT).scalars({2}).submit(orch);
  simpler_orch_write_scalar(orch, &t, &index, 1'000'000);  // none of them may see it
}

int bad_scalar(simpler_orch *orch, const simpler_args *args, uint64_t which) {
  const simpler_tensor &t = args->tensors[0];
  const uint64_t n = 4, outside = t.shape[0], inside = 0;
  const simpler_tensor none = simpler_tensor_make(SIMPLER_DTYPE_UINT64, 1, &n);
  simpler_tensor rank_9 = t;
  rank_9.rank = 9;
  uint64_t word = 5;
  switch (which) {
    case 0:
      return simpler_orch_read_scalar(orch, nullptr, &inside, &word);
    case 1:
      return simpler_orch_read_scalar(orch, &t, nullptr, &word);
    case 2:
      return simpler_orch_read_scalar(orch, &t, &inside, nullptr);
    case 3:
      return simpler_orch_read_scalar(orch, &t, &outside, &word);
    case 4:
      return simpler_orch_read_scalar(orch, &none, &inside, &word);
    case 5:
      return simpler_orch_write_scalar(orch, nullptr, &inside, 1);
    case 6:
      return simpler_orch_write_scalar(orch, &t, nullptr, 1);
    case 7:
      return simpler_orch_write_scalar(orch, &t, &outside, 1);
    case 8:
      return simpler_orch_write_scalar(orch, &rank_9, &inside, 1);
    case 9:
      return simpler_orch_alloc_filled(orch, nullptr, 1);
    default:
      return simpler_orch_alloc_filled(orch, const_cast<simpler_tensor *>(&t), 1);
  }
}

void signals(simpler_orch *orch, const simpler_args *args, uint64_t pairs) {
  std::vector<simpler_tensor> tensors;
  for (uint64_t i = 0; i < pairs; i++) tensors.push_back(allocate(orch, 2));
  for (const Kernel kernel : {k_signal_waiter, k_signal_setter})
    for (const simpler_tensor &t : tensors)
      Task(kernel).tensor(args->tensors[0], SIMPLER_TAG_NO_DEP).tensor(t, SIMPLER_TAG_NO_DEP).submit(orch);
}

// `rounds` of three tasks that count; the task of the conditions; a dependent of it.
void deferred(simpler_orch *orch, const simpler_args *args, uint64_t counters, uint64_t how, uint64_t blocks) {
  const simpler_tensor t = allocate(orch, counters);
  const simpler_task_id id = Task(blocks != 0 ? k_complete_when_block : k_complete_when)
                                 .tensor(args->tensors[0], SIMPLER_TAG_NO_DEP)
                                 .tensor(t, SIMPLER_TAG_NO_DEP)
                                 .scalars({counters})
                                 .blocks(blocks != 0 ? blocks : 1)
                                 .submit(orch);
  Task(k_check_counters)
      .tensor(args->tensors[0], SIMPLER_TAG_NO_DEP)
      .tensor(t, SIMPLER_TAG_NO_DEP)
      .scalars({counters})
      .after(id)
      .submit(orch);
  for (int i = 0; i < 3; i++)
    Task(k_add_to_counters)
        .tensor(args->tensors[0], SIMPLER_TAG_NO_DEP)
        .tensor(t, SIMPLER_TAG_NO_DEP)
        .scalars({counters, how})
        .submit(orch);
}

void views(simpler_orch *, const simpler_args *args) {
  const simpler_tensor &t = args->tensors[0];  // 64 words
  uint64_t *right = words(args) + 1;
  const auto check = [&](bool holds) { *right += holds ? 1 : 0; };
  const uint64_t shape[3] = {4, 2, 8}, wrong[1] = {63}, nine[9] = {64, 1, 1, 1, 1, 1, 1, 1, 1};
  const uint32_t order[3] = {2, 0, 1}, twice[3] = {0, 0, 1}, outside[3] = {0, 1, 3};
  simpler_tensor r = simpler_tensor_reshape(&t, 3, shape);
  check(r.rank == 3 && r.data == t.data && r.strides[0] == 16 && r.strides[1] == 8 && r.strides[2] == 1);
  check(simpler_tensor_reshape(&t, 1, wrong).rank == 0);
  check(simpler_tensor_reshape(&t, 9, nine).rank == 0);
  check(simpler_tensor_reshape(&t, 0, nine).rank == 0);
  simpler_tensor p = simpler_tensor_permute(&r, order);
  check(p.rank == 3 && p.shape[0] == 8 && p.shape[1] == 4 && p.shape[2] == 2 && p.strides[0] == 1 && p.strides[1] == 16 &&
        p.strides[2] == 8);
  check(simpler_tensor_reshape(&p, 1, &t.shape[0]).rank == 0);  // not contiguous
  check(simpler_tensor_permute(&r, twice).rank == 0);
  check(simpler_tensor_permute(&r, outside).rank == 0);
  p = simpler_tensor_transpose(&r, 0, 2);
  check(p.shape[0] == 8 && p.shape[2] == 4 && p.strides[0] == 1 && p.strides[2] == 16);
  check(simpler_tensor_transpose(&r, 0, 3).rank == 0);
  const simpler_tensor row = simpler_tensor_slice(&r, 0, 2, 1);
  check(row.data == words(args) + 32 && simpler_tensor_elements(&row) == 16);
  check(simpler_tensor_reshape(&row, 1, &shape[0]).rank == 0);  // 16 elements, not 4
  const uint64_t sixteen = 16;
  check(simpler_tensor_reshape(&row, 1, &sixteen).rank == 1);
}

int orchestration(simpler_orch *orch, const simpler_args *args) {
  const uint64_t *s = args->scalars;
  const simpler_tensor &t = args->tensors[0];
  store(&submitted_all, 0);
  const simpler_tensor empty = simpler_tensor_slice(&t, 0, 0, 0);
  switch (s[0]) {
    case MODEL_FIFO:
      Task(k_fifo, kMix).tensor(t, SIMPLER_TAG_NO_DEP).scalars({s[2]}).blocks(s[1]).submit(orch);
      break;
    case MODEL_PARTS:
      Task(k_parts, s[2]).tensor(t, SIMPLER_TAG_NO_DEP).scalars({s[2]}).blocks(s[1]).submit(orch);
      break;
    case MODEL_MIX_BARRIER:
      meeting(orch, args, s[1], s[2], kMix, false);
      break;
    case MODEL_SYNC_BARRIER:
      meeting(orch, args, s[1], s[2], s[3], true);
      break;
    case MODEL_STARVATION:
      starvation(orch, args, s[1], s[2], s[3]);
      break;
    case MODEL_COHORTS:
      cohorts(orch, args, s[1]);
      break;
    case MODEL_MISUSE:
      misuses(orch, args, s[1]);
      break;
    case MODEL_FAIL_WAITING:
      failing_waits(orch, args, s[1]);
      break;
    case MODEL_PREDICATE:
      predicated(orch, args);
      break;
    case MODEL_PREDICATE_WAITS:
      predicate_waits(orch, args, s[1] != 0);
      break;
    case MODEL_PREDICATE_BAD:
      bad_predicate(orch, args, s[1]);
      break;
    case MODEL_SCALAR:
      scalar(orch, args);
      break;
    case MODEL_SCALAR_WAITS:
      scalar_waits(orch, args, s[1]);
      break;
    case MODEL_SCALAR_FAILED: {
      const simpler_tensor element = allocate(orch, 1);
      const uint64_t index = 0;
      Task(k_fail_42).tensor(element, SIMPLER_TAG_INOUT).submit(orch);
      store(&submitted_all, 1);
      words(args)[1] = 5;
      if (simpler_orch_read_scalar(orch, &element, &index, words(args) + 1) != SIMPLER_OK) words(args)[2] = 1;
      break;
    }
    case MODEL_SCALAR_BAD:
      return bad_scalar(orch, args, s[1]) == SIMPLER_OK ? 99 : 0;
    case MODEL_FILLED: {
      simpler_tensor halves = simpler_tensor_make(SIMPLER_DTYPE_FLOAT32, 1, &s[1]);
      simpler_orch_alloc_filled(orch, &halves, simpler_scalar_from_f32(2.5f));
      Task(k_count_halves).tensor(t, SIMPLER_TAG_NO_DEP).tensor(s[1] != 0 ? halves : empty, SIMPLER_TAG_INPUT).submit(orch);
      break;
    }
    case MODEL_SIGNAL:
      signals(orch, args, s[1]);
      break;
    case MODEL_SIGNAL_COMPARE: {
      const simpler_tensor signal = allocate(orch, 1);
      Task(k_signal_compare)
          .tensor(t, SIMPLER_TAG_NO_DEP)
          .tensor(signal, SIMPLER_TAG_NO_DEP)
          .scalars({s[1], s[2]})
          .submit(orch);
      Task(k_signal_seven).tensor(t, SIMPLER_TAG_NO_DEP).tensor(signal, SIMPLER_TAG_NO_DEP).submit(orch);
      break;
    }
    case MODEL_SIGNAL_WAIT:
      Task(k_wait_here).tensor(t, SIMPLER_TAG_NO_DEP).scalars({s[1]}).submit(orch);
      break;
    case MODEL_SIGNAL_ADD:
      Task(k_add_here).tensor(t, SIMPLER_TAG_NO_DEP).scalars({s[1]}).submit(orch);
      break;
    case MODEL_COMPLETE_WHEN:
      deferred(orch, args, s[1], s[2], 0);
      break;
    case MODEL_COMPLETE_NEVER:
      Task(k_complete_when)
          .tensor(t, SIMPLER_TAG_NO_DEP)
          .tensor(allocate(orch, 1), SIMPLER_TAG_NO_DEP)
          .scalars({1})
          .submit(orch);
      Task(k_fail_42).submit(orch);
      break;
    case MODEL_COMPLETE_BLOCKS:
      deferred(orch, args, s[1], 0, s[1]);
      break;
    case MODEL_ORDER:
      store(&position_now, 0);
      for (uint64_t i = 0; i < s[1]; i++) Task(k_write_down).tensor(t, SIMPLER_TAG_NO_DEP).scalars({i, s[1]}).submit(orch);
      break;
    case MODEL_VIEWS:
      views(orch, args);
      break;
    default:
      return simpler_orch_fail(orch, 1, "no such scenario");
  }
  store(&submitted_all, 1);
  return 0;
}

}  // namespace

SIMPLER_CALLABLE("model", orchestration, kernels);
