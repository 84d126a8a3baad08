/* simpler/device.h - what kernels and on-chip orchestrations are written against.
 *
 * A *callable* is one or more shared objects that hold kernels (C functions that one core runs) and an orchestration (a
 * C function that submits tasks). They include this header and link against nothing: everything reaches the runtime
 * through a table of function pointers that the runtime hands in. Build one with
 *
 *   cc  -O2 -fPIC -shared -fvisibility=hidden $(pkg-config --cflags simpler) vector.c -o vector.so
 *   c++ -O2 -fPIC -shared -fvisibility=hidden -fno-gnu-unique $(pkg-config --cflags simpler) vector.cpp -o vector.so
 *
 * or with the CMake function simpler_add_callable. Plain C11; C++ may include it too.
 *
 * Threads: an orchestration runs on one thread. Kernels run on other threads, many at once, one per core; two kernels
 * share nothing but the tensors that they are given. Both run in the chip's process, not in the host's (unless the
 * worker was made with in-process chips).
 *
 * Errors inside an orchestration: a call that fails has failed the run. It returns the status (never 0) and every
 * later call of that orchestration returns at once without effect, so checking each call is optional. The run's error
 * names the function, the argument and the reason.
 */
#ifndef SIMPLER_DEVICE_H
#define SIMPLER_DEVICE_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. A callable carries it; a chip refuses one that is newer than its own (LOAD_VERSION). */
#define SIMPLER_DEVICE_ABI 1u

/* Marks a function of a callable as visible to the loader (callables are built with hidden visibility). */
#ifdef __cplusplus
#define SIMPLER_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define SIMPLER_EXPORT __attribute__((visibility("default")))
#endif

/* ---- tensors --------------------------------------------------------------------------------------------------
 *
 * A view of memory. Plain data: copy it freely, make sub-views with the functions below, never write its first group of
 * fields by hand. Frozen layout. Valid until the memory goes: arguments of the orchestration until it returns, OUTPUT
 * and allocated tensors until the scope in which they were made ends. */
typedef struct simpler_tensor {
  void *data;                /* first element of the view; NULL: not allocated yet (an OUTPUT before its submit) */
  void *allocation;          /* start of the allocation that the view lies in */
  uint64_t allocation_bytes; /* size of that allocation */
  uint64_t owner;            /* task that owns the memory; 0: the memory belongs to the run's arguments */
  simpler_dtype dtype;
  uint32_t rank;                      /* 1 to SIMPLER_RANK_MAX */
  uint64_t shape[SIMPLER_RANK_MAX];   /* elements per dimension; only the first `rank` entries count */
  uint64_t strides[SIMPLER_RANK_MAX]; /* in elements; 0 only as INPUT (broadcast) */
} simpler_tensor;

/* Describes a contiguous row-major tensor that has no memory yet: for OUTPUT arguments and simpler_orch_alloc. Nonsense
 * (rank, dtype) is refused where the tensor is used. */
static inline simpler_tensor simpler_tensor_make(simpler_dtype dtype, uint32_t rank, const uint64_t *shape) {
  simpler_tensor t;
  uint64_t stride = 1;
  uint32_t i;
  t.data = NULL;
  t.allocation = NULL;
  t.allocation_bytes = 0;
  t.owner = 0;
  t.dtype = dtype;
  t.rank = rank;
  for (i = 0; i < SIMPLER_RANK_MAX; i++) {
    t.shape[i] = 0;
    t.strides[i] = 0;
  }
  for (i = rank <= SIMPLER_RANK_MAX ? rank : 0; i > 0; i--) {
    t.shape[i - 1] = shape[i - 1];
    t.strides[i - 1] = stride;
    stride *= shape[i - 1];
  }
  return t;
}

/* Number of elements: the product of the shape. */
static inline uint64_t simpler_tensor_elements(const simpler_tensor *t) {
  uint64_t n = 1;
  uint32_t i;
  for (i = 0; i < t->rank && i < SIMPLER_RANK_MAX; i++) n *= t->shape[i];
  return n;
}

/* A view of `count` elements of dimension `axis`, from index `start`. A view outside of its parent, or of an axis that
 * does not exist, gets rank 0, which every use refuses. A float4 view must start on a byte boundary. */
static inline simpler_tensor simpler_tensor_slice(const simpler_tensor *t, uint32_t axis, uint64_t start, uint64_t count) {
  simpler_tensor v = *t;
  if (axis >= t->rank || start > t->shape[axis] || count > t->shape[axis] - start ||
      (start * t->strides[axis] * simpler_dtype_bits(t->dtype)) % 8u != 0u) {
    v.rank = 0;
    return v;
  }
  v.shape[axis] = count;
  if (v.data != NULL) v.data = (char *)t->data + start * t->strides[axis] * simpler_dtype_bits(t->dtype) / 8u;
  return v;
}

/* A view with dimensions `a` and `b` exchanged; no such dimension: rank 0, which every use refuses. */
static inline simpler_tensor simpler_tensor_transpose(const simpler_tensor *t, uint32_t a, uint32_t b) {
  simpler_tensor v = *t;
  if (a >= t->rank || b >= t->rank) {
    v.rank = 0;
    return v;
  }
  v.shape[a] = t->shape[b];
  v.shape[b] = t->shape[a];
  v.strides[a] = t->strides[b];
  v.strides[b] = t->strides[a];
  return v;
}

/* A contiguous view with another shape of as many elements; a view that is not contiguous, or another number of elements: rank
 * 0, which every use refuses. */
static inline simpler_tensor simpler_tensor_reshape(const simpler_tensor *t, uint32_t rank, const uint64_t *shape) {
  simpler_tensor v = simpler_tensor_make(t->dtype, rank, shape);
  uint64_t stride = 1;
  uint32_t i;
  v.data = t->data;
  v.allocation = t->allocation;
  v.allocation_bytes = t->allocation_bytes;
  v.owner = t->owner;
  for (i = t->rank <= SIMPLER_RANK_MAX ? t->rank : 0; i > 0; i--) {
    if (t->shape[i - 1] > 1 && t->strides[i - 1] != stride) break;
    stride *= t->shape[i - 1];
  }
  if ((i > 0 && simpler_tensor_elements(t) != 0) || rank == 0 || rank > SIMPLER_RANK_MAX || t->rank == 0 ||
      simpler_tensor_elements(&v) != simpler_tensor_elements(t))
    v.rank = 0;
  return v;
}

/* A view with its dimensions in another order: dimension i of the view is dimension order[i] of `t`. An order that is no
 * permutation of 0 to rank - 1: rank 0, which every use refuses. */
static inline simpler_tensor simpler_tensor_permute(const simpler_tensor *t, const uint32_t *order) {
  simpler_tensor v = *t;
  uint32_t seen = 0;
  uint32_t i;
  for (i = 0; i < t->rank && i < SIMPLER_RANK_MAX; i++) {
    if (order[i] >= t->rank || (seen >> order[i] & 1u) != 0) {
      v.rank = 0;
      return v;
    }
    seen |= 1u << order[i];
    v.shape[i] = t->shape[order[i]];
    v.strides[i] = t->strides[order[i]];
  }
  return v;
}

/* ---- arguments ------------------------------------------------------------------------------------------------
 *
 * What a kernel or an orchestration is called with; tensors and scalars each in the order in which they were given.
 * Borrowed: valid during the call. */
typedef struct simpler_args {
  const simpler_tensor *tensors;
  const uint64_t *scalars;
  uint32_t tensor_count;
  uint32_t scalar_count;
} simpler_args;

/* Scalars are 64-bit words. Integers are stored as such (sign-extended), floating-point numbers by their bits, a float
 * in the low 32 bits. */
static inline uint64_t simpler_scalar_from_f64(double value) {
  union {
    double d;
    uint64_t u;
  } x;
  x.d = value;
  return x.u;
}
static inline double simpler_scalar_to_f64(uint64_t word) {
  union {
    double d;
    uint64_t u;
  } x;
  x.u = word;
  return x.d;
}
static inline uint64_t simpler_scalar_from_f32(float value) {
  union {
    float f;
    uint32_t u;
  } x;
  x.f = value;
  return x.u;
}
static inline float simpler_scalar_to_f32(uint64_t word) {
  union {
    float f;
    uint32_t u;
  } x;
  x.u = (uint32_t)word;
  return x.f;
}
static inline uint64_t simpler_scalar_from_i64(int64_t value) { return (uint64_t)value; }
static inline int64_t simpler_scalar_to_i64(uint64_t word) { return (int64_t)word; }

/* ---- kernels -------------------------------------------------------------------------------------------------- */
typedef struct simpler_kernel_context simpler_kernel_context;

typedef uint32_t simpler_compare;
enum { /* what is left of `compare` is a tensor's element or a signal, right is the constant */
  SIMPLER_COMPARE_EQ = 1,
  SIMPLER_COMPARE_NE = 2,
  SIMPLER_COMPARE_LT = 3,
  SIMPLER_COMPARE_LE = 4,
  SIMPLER_COMPARE_GT = 5,
  SIMPLER_COMPARE_GE = 6
};

/* Services of the runtime to a kernel. struct_size tells how far the table reaches (it only grows). */
typedef struct simpler_kernel_services {
  size_t struct_size;
  void (*yield)(const simpler_kernel_context *context);
  uint64_t (*time_ns)(const simpler_kernel_context *context);
  void (*fail)(const simpler_kernel_context *context, int32_t code, const char *text);
  void (*log)(const simpler_kernel_context *context, simpler_log_level level, const char *text);
  simpler_status (*barrier)(const simpler_kernel_context *context);
  simpler_status (*push)(const simpler_kernel_context *context, uint32_t position, uint64_t word);
  simpler_status (*pop)(const simpler_kernel_context *context, uint32_t position, uint64_t *word);
  void (*signal_set)(const simpler_kernel_context *context, uint64_t *signal, uint64_t value);
  uint64_t (*signal_add)(const simpler_kernel_context *context, uint64_t *signal, uint64_t value);
  simpler_status (*signal_wait)(const simpler_kernel_context *context, const uint64_t *signal, simpler_compare compare,
                                uint64_t value);
  simpler_status (*complete_when)(const simpler_kernel_context *context, const uint64_t *signal, uint64_t value);
} simpler_kernel_services;

enum { /* position of a core in its cluster */
  SIMPLER_POSITION_AIC = 0,
  SIMPLER_POSITION_AIV0 = 1,
  SIMPLER_POSITION_AIV1 = 2
};

struct simpler_kernel_context {
  size_t struct_size;
  const simpler_kernel_services *services;
  uint64_t task; /* id of the task that this call belongs to */
  uint32_t chip;
  uint32_t core_id; /* physical id of the core on its chip */
  simpler_core_type core_type;
  uint32_t cluster;
  uint32_t position; /* SIMPLER_POSITION_... */
  uint32_t block_index;
  uint32_t block_count;
  uint32_t reserved;
};

/* A kernel: one core calls it for one task, or for one block of an SPMD task. At entry: default floating-point
 * environment, signals of the chip's process (a kernel must not change either). It may use all of libc and libstdc++,
 * threads and files excepted. It must return; what it may not do is caught: a crash or exit() fails the run. */
typedef void (*simpler_kernel_fn)(const simpler_kernel_context *context, const simpler_args *args);

/* Lets other simulated cores go on; call it in a loop that waits for another core's store. */
static inline void simpler_kernel_yield(const simpler_kernel_context *c) { c->services->yield(c); }
/* Monotonic clock in nanoseconds, the same one on all chips and in the host. */
static inline uint64_t simpler_kernel_time_ns(const simpler_kernel_context *c) { return c->services->time_ns(c); }
/* Fails the task: the run ends with KERNEL_FAILED, `code` and `text` (copied, at most 1,023 bytes). The first call
 * of a task counts. The kernel should return afterwards; dependent tasks are not run. */
static inline void simpler_kernel_fail(const simpler_kernel_context *c, int32_t code, const char *text) {
  (c->services->fail)(c, code, text);
}
/* One log record (copied, at most 1,023 bytes). Never blocks; records beyond what the link carries are dropped and counted. */
static inline void simpler_kernel_log(const simpler_kernel_context *c, simpler_log_level level, const char *text) {
  c->services->log(c, level, text);
}

/* ---- kernels that work together -----------------------------------------------------------------------------------
 *
 * The waits below poll for a short time and then park: they cost no CPU, and other cores go on. Each ends when what it waits
 * for has come (OK), when the run has failed or is cancelled (CANCELLED), or when it can never come because the peer's kernel
 * has returned; then the task fails with a text that says so, and the call returns KERNEL_FAILED. A kernel that gets
 * anything but OK should return.
 * A wait for a peer needs that peer to run at the same time: the parts of a block of a MIX task do, and all blocks of a task with
 * SIMPLER_TASK_SYNC_START; other tasks may have to wait for a core. */

/* Words that a FIFO holds. */
#define SIMPLER_FIFO_WORDS 64u

/* Waits until all kernels that started together have called it as often as this one: all blocks of a task with
 * SIMPLER_TASK_SYNC_START, the parts of one block of another MIX task. A kernel alone passes. A task of several blocks
 * without SIMPLER_TASK_SYNC_START is refused with NOT_SUPPORTED: its blocks need not run at the same time. */
static inline simpler_status simpler_kernel_barrier(const simpler_kernel_context *c) { return c->services->barrier(c); }

/* FIFOs between the parts of one block of a MIX task: one in each direction between any two, made with the block and empty at its
 * start, first in first out. `position` is that of the other part (SIMPLER_POSITION_...). A push waits while SIMPLER_FIFO_WORDS
 * words wait to be popped, and publishes what the kernel wrote before; a pop waits for a word, and sees that. Words that nobody
 * pops are dropped with the block. INVALID_ARGUMENT for the own position, one that has no kernel in this task, and NULL. */
static inline simpler_status simpler_kernel_push(const simpler_kernel_context *c, uint32_t position, uint64_t word) {
  return c->services->push(c, position, word);
}
static inline simpler_status simpler_kernel_pop(const simpler_kernel_context *c, uint32_t position, uint64_t *word) {
  return c->services->pop(c, position, word);
}

/* Signals: 64-bit words, aligned to 8 bytes, in tensors or buffers, which kernels on any chip that sees the memory set, add to
 * and wait for. Pass tensors that are used so as NO_DEP, or as INOUT where the tasks follow each other anyway. All operations
 * are sequentially consistent: who sees a value sees what was written before it. A null or misaligned `signal` fails the task. */
static inline void simpler_kernel_signal_set(const simpler_kernel_context *c, uint64_t *signal, uint64_t value) {
  c->services->signal_set(c, signal, value);
}
/* Returns the value before. */
static inline uint64_t simpler_kernel_signal_add(const simpler_kernel_context *c, uint64_t *signal, uint64_t value) {
  return c->services->signal_add(c, signal, value);
}
/* Waits until `*signal compare value` holds, compared as unsigned numbers. */
static inline simpler_status simpler_kernel_signal_wait(const simpler_kernel_context *c, const uint64_t *signal,
                                                        simpler_compare compare, uint64_t value) {
  return c->services->signal_wait(c, signal, compare, value);
}

/* Deferred completion: the task completes, and its dependents start, when its kernels have returned and `*signal >= value` for every
 * condition so given, by any of its blocks; any number of conditions. Waiting holds no core. It ends as cancelled when the run fails.
 * Signal words that change by plain stores are noticed, too, within some milliseconds. The word must outlive the task: pass its
 * tensor to the task. */
static inline simpler_status simpler_kernel_complete_when(const simpler_kernel_context *c, const uint64_t *signal,
                                                          uint64_t value) {
  return c->services->complete_when(c, signal, value);
}

/* ---- orchestrations ------------------------------------------------------------------------------------------- */
typedef struct simpler_orch simpler_orch;

/* Id of a task: unique for as long as the chip lives; 0 is no task. */
typedef uint64_t simpler_task_id;

typedef struct simpler_task_tensor { /* frozen: passed in arrays */
  simpler_tensor *tensor;            /* read; for OUTPUT its memory fields are filled in by submit */
  simpler_tag tag;
  uint32_t reserved; /* 0 */
} simpler_task_tensor;

enum { /* flags of a kernel task */
  /* All blocks are on cores of their own before any of them begins, and may wait for each other. Needs block_count cores of the
   * type, or clusters for a MIX task, that exist (UNSATISFIABLE otherwise); while it waits for them no later task that
   * needs several cores starts, and the cores that it waits for take no other tasks. */
  SIMPLER_TASK_SYNC_START = 1
};

/* One element of a tensor, compared with a constant by the tensor's dtype. */
typedef struct simpler_predicate { /* frozen */
  const simpler_tensor
      *tensor; /* its memory exists; the task waits for the writers of the element, also in a manual scope */
  uint64_t index[SIMPLER_RANK_MAX];
  simpler_compare compare;
  uint32_t reserved; /* 0 */
  uint64_t constant; /* a scalar word as simpler_orch_read_scalar makes it */
} simpler_predicate;

/* One task for cores of this chip. Which kernels are set gives the shape: only `aic` or only `aiv0`: one kernel on one
 * core; several: a MIX task on the cores of one cluster; none: a task that only carries dependencies. Everything is
 * copied by submit. Set it up with SIMPLER_KERNEL_TASK_INIT. */
typedef struct simpler_kernel_task {
  size_t struct_size;
  uint32_t aic;  /* kernel id, or SIMPLER_NO_KERNEL */
  uint32_t aiv0; /* kernel id, or SIMPLER_NO_KERNEL */
  uint32_t aiv1; /* kernel id, or SIMPLER_NO_KERNEL */
  uint32_t block_count;
  uint32_t flags;
  uint32_t tensor_count; /* at most SIMPLER_TENSORS_MAX */
  uint32_t scalar_count; /* at most SIMPLER_SCALARS_MAX */
  uint32_t after_count;
  const simpler_task_tensor *tensors;
  const uint64_t *scalars;
  const simpler_task_id *after; /* tasks that must have ended before this one starts, beside the inferred ones */
  const char *label;            /* for errors and traces; may be NULL */
  const simpler_predicate
      *predicate; /* NULL: always runs. Looked at when the task is ready: if it does not hold, the kernels
                                         are not called, OUTPUT tensors read as zero, and the task counts as done */
} simpler_kernel_task;
#define SIMPLER_KERNEL_TASK_INIT                                                                                           \
  {                                                                                                                        \
    sizeof(simpler_kernel_task), SIMPLER_NO_KERNEL, SIMPLER_NO_KERNEL, SIMPLER_NO_KERNEL, 1, 0, 0, 0, 0, NULL, NULL, NULL, \
        NULL, NULL                                                                                                         \
  }

typedef uint32_t simpler_scope_mode;
enum {
  SIMPLER_SCOPE_AUTO = 0,  /* dependencies are inferred from tensors; `after` adds to them */
  SIMPLER_SCOPE_MANUAL = 1 /* only `after` counts; no automatic scope inside */
};

/* Services of the runtime to an orchestration. struct_size tells how far the table reaches (it only grows). */
typedef struct simpler_orch_services {
  size_t struct_size;
  simpler_status (*submit)(simpler_orch *orch, const simpler_kernel_task *task, simpler_task_id *id);
  simpler_status (*scope_begin)(simpler_orch *orch, simpler_scope_mode mode);
  simpler_status (*scope_end)(simpler_orch *orch);
  simpler_status (*alloc)(simpler_orch *orch, simpler_tensor *tensor);
  simpler_status (*fail)(simpler_orch *orch, int32_t code, const char *text);
  int (*failed)(simpler_orch *orch);
  void (*log)(simpler_orch *orch, simpler_log_level level, const char *text);
  uint32_t (*cluster_count)(simpler_orch *orch);
  uint32_t (*core_count)(simpler_orch *orch, simpler_core_type type);
  simpler_status (*read_scalar)(simpler_orch *orch, const simpler_tensor *tensor, const uint64_t *index, uint64_t *word);
  simpler_status (*write_scalar)(simpler_orch *orch, const simpler_tensor *tensor, const uint64_t *index, uint64_t word);
  simpler_status (*alloc_filled)(simpler_orch *orch, simpler_tensor *tensor, uint64_t word);
} simpler_orch_services;

struct simpler_orch {
  const simpler_orch_services *services;
};

/* An orchestration: submits tasks and returns 0, or something else to fail the run with that number as code. The run
 * ends when everything submitted has ended. The function body is inside an outer automatic scope. */
typedef int (*simpler_orchestration_fn)(simpler_orch *orch, const simpler_args *args);

/* Submits one task. Waits (parked) while the task ring or the heap ring is full; a graph that could never go on fails
 * with DEADLOCK_WINDOW or DEADLOCK_HEAP instead. `id` may be NULL. */
static inline simpler_status simpler_orch_submit(simpler_orch *o, const simpler_kernel_task *task, simpler_task_id *id) {
  return o->services->submit(o, task, id);
}
/* Opens a scope. Tensors made inside may be reclaimed once it has ended and their consumers are done. Scopes nest. */
static inline simpler_status simpler_orch_scope_begin(simpler_orch *o, simpler_scope_mode mode) {
  return o->services->scope_begin(o, mode);
}
static inline simpler_status simpler_orch_scope_end(simpler_orch *o) { return o->services->scope_end(o); }
/* Allocates memory for `tensor` (made with simpler_tensor_make) from the heap ring; it reads as zero until written and
 * lives until the enclosing scope ends. */
static inline simpler_status simpler_orch_alloc(simpler_orch *o, simpler_tensor *tensor) {
  return o->services->alloc(o, tensor);
}
/* The same, every element set to `word` (as simpler_orch_write_scalar takes it). */
static inline simpler_status simpler_orch_alloc_filled(simpler_orch *o, simpler_tensor *tensor, uint64_t word) {
  return o->services->alloc_filled(o, tensor, word);
}
/* Reads the element at `index` (one number per dimension) as a scalar word: integers and bool sign- or zero-extended to 64
 * bits, float64 by its bits, every other floating-point dtype as a float in the low 32 bits. Waits until every task
 * submitted so far that writes the element has ended; a failed one fails the call. */
static inline simpler_status simpler_orch_read_scalar(simpler_orch *o, const simpler_tensor *tensor, const uint64_t *index,
                                                      uint64_t *word) {
  return o->services->read_scalar(o, tensor, index, word);
}
/* Writes such a word: integers are cut to the dtype, floating-point numbers rounded to it (to nearest, ties to even; beyond the
 * range: infinity, or NaN where there is none). Waits until every task submitted so far that writes or reads the element
 * has ended. */
static inline simpler_status simpler_orch_write_scalar(simpler_orch *o, const simpler_tensor *tensor, const uint64_t *index,
                                                       uint64_t word) {
  return o->services->write_scalar(o, tensor, index, word);
}
/* Fails the run with ORCHESTRATION_FAILED, `code` and `text` (copied). Returns that status, to be returned. */
static inline simpler_status simpler_orch_fail(simpler_orch *o, int32_t code, const char *text) {
  return (o->services->fail)(o, code, text);
}
/* Whether the run has failed or been cancelled: nothing submitted from now on has any effect. */
static inline int simpler_orch_failed(simpler_orch *o) { return o->services->failed(o); }
static inline void simpler_orch_log(simpler_orch *o, simpler_log_level level, const char *text) {
  o->services->log(o, level, text);
}
/* Clusters, and cores of one type, that this run may use. */
static inline uint32_t simpler_orch_cluster_count(simpler_orch *o) { return o->services->cluster_count(o); }
static inline uint32_t simpler_orch_core_count(simpler_orch *o, simpler_core_type type) {
  return o->services->core_count(o, type);
}

/* ---- one shared object that describes itself --------------------------------------------------------------------
 *
 * Instead of listing kernels at registration, a shared object can export a table:
 *
 *   static const simpler_callable_kernel kernels[] = {
 *       SIMPLER_KERNEL(1, SIMPLER_CORE_AIV, vector_add),
 *   };
 *   SIMPLER_CALLABLE("vector_add", vector_add_orchestration, kernels);
 *
 * The orchestration may be NULL when there is exactly one kernel, which then is the single task of a run. */
typedef struct simpler_callable_kernel { /* frozen */
  uint32_t kernel_id;
  simpler_core_type core_type;
  const char *name;
  simpler_kernel_fn function;
} simpler_callable_kernel;

typedef struct simpler_callable_table {
  size_t struct_size;
  uint32_t device_abi; /* SIMPLER_DEVICE_ABI */
  uint32_t kernel_count;
  const char *name;
  const char *orchestration_name;
  simpler_orchestration_fn orchestration; /* may be NULL */
  const simpler_callable_kernel *kernels;
} simpler_callable_table;

#define SIMPLER_CALLABLE_TABLE_SYMBOL "simpler_exported_callable"
#define SIMPLER_KERNEL(id, type, function) \
  { (id), (type), #function, (function) }
#define SIMPLER_CALLABLE(callable_name, orchestration_function, kernel_array)                                             \
  SIMPLER_EXPORT const simpler_callable_table simpler_exported_callable;                                                  \
  const simpler_callable_table simpler_exported_callable = {sizeof(simpler_callable_table),                               \
                                                            SIMPLER_DEVICE_ABI,                                           \
                                                            (uint32_t)(sizeof(kernel_array) / sizeof((kernel_array)[0])), \
                                                            (callable_name),                                              \
                                                            #orchestration_function,                                      \
                                                            (orchestration_function),                                     \
                                                            (kernel_array)}

#ifdef __cplusplus
}
#endif
#endif /* SIMPLER_DEVICE_H */
