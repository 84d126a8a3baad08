/* simpler.h - the C interface of libsimpler: run task graphs on multi-chip accelerators.
 *
 *   simpler_worker_options options = SIMPLER_WORKER_OPTIONS_INIT;
 *   simpler_worker *worker;
 *   options.chips = 2;
 *   if (simpler_worker_create(&options, &worker, &error) != SIMPLER_OK) ...
 *   simpler_worker_register(worker, &desc, &callable, &error);      // any time
 *   simpler_worker_run(worker, &task, NULL, &error);                // run and wait
 *   simpler_worker_unregister(worker, callable, &error);            // any time
 *   simpler_worker_destroy(worker, &error);
 *
 * Rules that hold for every function unless its comment says otherwise
 *
 * - Errors. A call that can fail returns a status, and on failure stores an error object through its last parameter
 *   `err` (may be NULL), which the caller frees with simpler_error_free. Out-parameters are set to NULL (or 0) first, so
 *   they never hold garbage after a failure. Nothing is kept per thread or globally. No C++ exception, signal, abort,
 *   exit or output on stdout comes from the library.
 * - Handles (simpler_worker, simpler_callable, simpler_buffer, simpler_run, simpler_error) are opaque. What a
 *   _create, _register, _submit call returned is ended by exactly one _destroy, _unregister, _release; everything else is
 *   borrowed. A handle that was ended, made by another worker, invented, or inherited by fork() is refused with
 *   INVALID_HANDLE, CLOSED or WRONG_PROCESS; it never crashes. NULL where a handle is ended is a no-op.
 * - Threads. Any function may be called from any thread at any time, also a destroy while other threads are inside calls
 *   on that worker: these then return CLOSED or CANCELLED.
 * - Memory. What a caller passes in is copied before the call returns, except tensor data, as simpler_worker_submit says.
 * - Structs begin with struct_size; set them up with their _INIT macro. A newer program may pass a larger struct than this
 *   library knows as long as the part that it does not know is zero. Structs without struct_size are frozen.
 * - Statuses that any call can return and that are not repeated below: INVALID_ARGUMENT, INVALID_HANDLE, CLOSED,
 *   WRONG_PROCESS, OUT_OF_MEMORY, INTERNAL.
 * - Times are nanoseconds, sizes bytes, strides elements.
 */
#ifndef SIMPLER_H
#define SIMPLER_H

#include "simpler/types.h"

#define SIMPLER_VERSION_MAJOR 0
#define SIMPLER_VERSION_MINOR 1
#define SIMPLER_VERSION_PATCH 0

#ifndef SIMPLER_API
#if defined(__GNUC__)
#define SIMPLER_API __attribute__((visibility("default")))
#else
#define SIMPLER_API
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct simpler_worker simpler_worker;
typedef struct simpler_callable simpler_callable;
typedef struct simpler_buffer simpler_buffer;
typedef struct simpler_run simpler_run;
typedef struct simpler_error simpler_error;

/* "No deadline", where a timeout is asked for. */
#define SIMPLER_FOREVER UINT64_MAX
/* Any chip, where a chip is asked for; "no chip" where one is reported. */
#define SIMPLER_CHIP_ANY (-1)

/* ---- version and status --------------------------------------------------------------------------------------- */

/* Version of the library that is loaded: major << 16 | minor << 8 | patch. */
SIMPLER_API uint32_t simpler_version(void);
/* The same as text ("0.1.0"). Static. */
SIMPLER_API const char *simpler_version_string(void);
/* Name of a status without its prefix ("INVALID_ARGUMENT"). Static, never NULL; "UNKNOWN" for a number without meaning. */
SIMPLER_API const char *simpler_status_name(simpler_status status);

/* ---- errors ---------------------------------------------------------------------------------------------------
 *
 * The accessors may be called with any pointer: for one that is no live error they return the neutral value named. */

/* The status that came with the error; OK if `error` is NULL or not live. */
SIMPLER_API simpler_status simpler_error_code(const simpler_error *error);
/* One line of text for people: what failed, with which numbers, and what to do. Never NULL; lives as long as the error. */
SIMPLER_API const char *simpler_error_message(const simpler_error *error);
/* Chip that the error is about, or SIMPLER_CHIP_ANY. */
SIMPLER_API int32_t simpler_error_chip(const simpler_error *error);
/* Process id of that chip when its process was lost, or 0. */
SIMPLER_API int64_t simpler_error_pid(const simpler_error *error);
/* Signal that ended that process, or 0. */
SIMPLER_API int32_t simpler_error_signal(const simpler_error *error);
/* Name of the callable, label of the task; "" if none. Live as long as the error. */
SIMPLER_API const char *simpler_error_callable(const simpler_error *error);
SIMPLER_API const char *simpler_error_task_label(const simpler_error *error);
/* Id of the task that failed, or 0. */
SIMPLER_API uint64_t simpler_error_task(const simpler_error *error);
/* Id of the kernel that failed, or SIMPLER_NO_KERNEL. */
SIMPLER_API uint32_t simpler_error_kernel(const simpler_error *error);
/* Code that the kernel or the orchestration gave, or 0. */
SIMPLER_API int32_t simpler_error_user_code(const simpler_error *error);
/* Ends the error. NULL and a pointer that is no live error do nothing. */
SIMPLER_API void simpler_error_free(simpler_error *error);

/* ---- callbacks ------------------------------------------------------------------------------------------------
 *
 * A callback comes with `user_data` and a function that frees it (may be NULL). The latter is called exactly once, after
 * the last use, also when the call that took the callback fails. The library holds no lock while it calls. */
typedef void (*simpler_free_fn)(void *user_data);

/* One log record: text without a newline. Called on a thread of the library, one call at a time per worker. Calls on
 * the same worker other than the accessors of this header are refused with BUSY inside it. */
typedef void (*simpler_log_fn)(simpler_log_level level, const char *text, void *user_data);

/* ---- workers -------------------------------------------------------------------------------------------------- */
typedef uint32_t simpler_isolation;
enum {
  SIMPLER_ISOLATION_PROCESS = 0,   /* one child process per chip: a broken kernel costs one run */
  SIMPLER_ISOLATION_IN_PROCESS = 1 /* chips are threads of this process: for debuggers and sanitizers. Loads the code of
                                      callables into this process; a broken kernel takes it down. */
};

typedef struct simpler_worker_options {
  size_t struct_size;
  const char *platform;        /* "a2a3sim" (24 clusters; also what NULL means) or "a5sim" (36 clusters) */
  uint32_t chips;              /* 1 to 64; default 1 */
  simpler_isolation isolation; /* default SIMPLER_ISOLATION_PROCESS */
  uint32_t clusters_per_chip;  /* 0: all of the platform; else 1 to that number */
  uint32_t carriers_per_chip;  /* threads that run simulated cores; 0: the CPUs that this process may really use
                                  (affinity and cgroup quota); else 1 to 256 */
  uint32_t callable_capacity;  /* callables loaded at once; default (0) 1,024; at most 65,536 */
  uint32_t window;             /* tasks in flight per scope depth: a power of two, 4 to 65,536; default (0) 4,096 */
  uint64_t heap_bytes;         /* memory for intermediates per scope depth and chip; default (0) 256 MiB; 4 KiB to 1 TiB.
                                  Address space only: pages are taken when they are first used. */
  uint64_t gm_bytes;           /* memory for buffers and staged tensors, shared by host and chips; default (0) 4 GiB;
                                  1 MiB to 1 TiB. Address space only, as above. */
  uint64_t start_limit_ns;     /* for all chips together to come up; default (0) 60 s */
  uint64_t close_limit_ns;     /* for all chips together to go; then they are killed; default (0) 5 s */
  const char *chip_path;       /* executable simpler-chip; NULL: $SIMPLER_CHIP_PATH, else beside libsimpler.so, else in the
                                  folder simpler/ beside it */
  simpler_log_level log_level; /* default WARNING; $SIMPLER_LOG (off, error, warning, info, debug) wins */
  uint32_t reserved;           /* 0 */
  simpler_log_fn log;          /* NULL: lines on stderr */
  void *log_user_data;
  simpler_free_fn log_free;
  uint64_t
      seed; /* 0: off. Otherwise, for chips in-process only: one thread per chip does everything, in an order drawn from a
                    generator that this and the number of the run seed: which ready task runs next, on which core, when its end
                    is made known, when submitting stalls. To try many orders in tests, and to repeat one that failed. */
} simpler_worker_options;
#define SIMPLER_WORKER_OPTIONS_INIT                                                                                        \
  {                                                                                                                        \
    sizeof(simpler_worker_options), NULL, 1, SIMPLER_ISOLATION_PROCESS, 0, 0, 0, 0, 0, 0, 0, 0, NULL, SIMPLER_LOG_WARNING, \
        0, NULL, NULL, NULL, 0                                                                                             \
  }

/* Starts a worker: spawns its chips in parallel and returns when all are ready. `options` NULL means the defaults. If
 * one chip does not come up, none stays, and the error names it.
 * START_LIMIT, NOT_FOUND (no chip executable; the message has the paths tried), LOAD_VERSION (library and chip
 * executable are not of one build), CHIP_LOST, SYSTEM_ERROR, CAPACITY_CHIPS. */
SIMPLER_API simpler_status simpler_worker_create(const simpler_worker_options *options, simpler_worker **worker,
                                                 simpler_error **err);

/* Closes the worker: refuses new work, cancels what is queued, waits for the runs that are running within close_limit_ns,
 * ends the chips, and frees everything. Waiters of its runs get CANCELLED. Handles of its runs stay readable until they
 * are released; callables and buffers end with the worker. Bounded by close_limit_ns plus a second. Concurrent calls all
 * return when the worker is closed, OK for each; any call with the worker after that says CLOSED. NULL does nothing. */
SIMPLER_API simpler_status simpler_worker_destroy(simpler_worker *worker, simpler_error **err);

typedef struct simpler_worker_info {
  size_t struct_size;
  uint32_t chips;
  uint32_t clusters_per_chip;
  uint32_t carriers_per_chip;
  uint32_t callables; /* loaded now */
  uint64_t gm_bytes;
  uint64_t gm_bytes_used;
} simpler_worker_info;
#define SIMPLER_WORKER_INFO_INIT \
  { sizeof(simpler_worker_info), 0, 0, 0, 0, 0, 0 }

/* Fills `info` up to its struct_size. */
SIMPLER_API simpler_status simpler_worker_get_info(simpler_worker *worker, simpler_worker_info *info, simpler_error **err);

/* Process id of a chip; the caller's own for chips in-process. INVALID_ARGUMENT for a chip that does not exist. */
SIMPLER_API simpler_status simpler_worker_chip_pid(simpler_worker *worker, uint32_t chip, int64_t *pid, simpler_error **err);

/* ---- callables ------------------------------------------------------------------------------------------------ */
typedef struct simpler_image { /* frozen. An ELF shared object, by path or by bytes (exactly one of the two) */
  const char *path;
  const void *data;
  size_t size;
} simpler_image;

typedef struct simpler_kernel_desc { /* frozen */
  uint32_t kernel_id;                /* any number but SIMPLER_NO_KERNEL, once per callable */
  simpler_core_type core_type;
  uint32_t image; /* index into images */
  uint32_t reserved;
  const char *symbol;
} simpler_kernel_desc;

typedef uint32_t simpler_parameter;
enum {
  SIMPLER_PARAMETER_SCALAR = 1,
  SIMPLER_PARAMETER_IN = 2,
  SIMPLER_PARAMETER_OUT = 3,
  SIMPLER_PARAMETER_INOUT = 4
};

/* What to register. The simplest form is one image that describes itself (SIMPLER_CALLABLE in device.h): set `images`
 * and `image_count` only. Otherwise `orchestration_symbol` and `kernels` say what the images hold. */
typedef struct simpler_callable_desc {
  size_t struct_size;
  const char *name; /* for errors and traces; NULL: the name in the image's table, else "callable" */
  const simpler_image *images;
  size_t image_count;
  const char *orchestration_symbol; /* NULL: none, then there is exactly one kernel */
  const simpler_kernel_desc *kernels;
  size_t kernel_count;
  const simpler_parameter *signature; /* NULL: arguments are not checked against one */
  size_t signature_count;
  uint32_t orchestration_image; /* index into images */
  uint32_t reserved;
} simpler_callable_desc;
#define SIMPLER_CALLABLE_DESC_INIT \
  { sizeof(simpler_callable_desc), NULL, NULL, 0, NULL, NULL, 0, NULL, 0, 0, 0 }

/* Loads a callable on every chip at once and returns when all have it. At any time, from any thread, also while runs are
 * in flight. If one chip refuses, none keeps it; chips that were lost before are left out. Equal content (SHA-256 over
 * description and image bytes) shares one loaded copy; each call returns a handle of its own. This process does not execute
 * the code, unless chips are in-process.
 * LOAD_IMAGE, LOAD_SYMBOL, LOAD_VERSION, CAPACITY_CALLABLES, NOT_FOUND (path), CHIP_LOST, SYSTEM_ERROR. */
SIMPLER_API simpler_status simpler_worker_register(simpler_worker *worker, const simpler_callable_desc *desc,
                                                   simpler_callable **callable, simpler_error **err);

/* Ends the handle for new runs at once; never waits for runs. The code is dropped after its last use, and its cid is
 * then free for the next registration: before this returns if no run uses it. NULL callable does nothing. */
SIMPLER_API simpler_status simpler_worker_unregister(simpler_worker *worker, simpler_callable *callable,
                                                     simpler_error **err);

typedef struct simpler_callable_info {
  size_t struct_size;
  uint32_t cid;        /* slot in the chips' tables, reused after unregister */
  uint32_t generation; /* of the slot: differs for each tenant */
  uint32_t kernel_count;
  uint32_t reserved;
  uint8_t digest[32]; /* SHA-256 */
} simpler_callable_info;
#define SIMPLER_CALLABLE_INFO_INIT                   \
  {                                                  \
    sizeof(simpler_callable_info), 0, 0, 0, 0, { 0 } \
  }

/* Fills `info` up to its struct_size. */
SIMPLER_API simpler_status simpler_callable_get_info(simpler_callable *callable, simpler_callable_info *info,
                                                     simpler_error **err);

/* ---- buffers --------------------------------------------------------------------------------------------------
 *
 * Memory that the host and all chips share without copies; contents stay between runs. */

/* `bytes` from 1; zeroed, 64-byte aligned. CAPACITY_MEMORY with the numbers and the option. */
SIMPLER_API simpler_status simpler_buffer_create(simpler_worker *worker, uint64_t bytes, simpler_buffer **buffer,
                                                 simpler_error **err);
/* BUSY while a run that was submitted with it has not ended: it then stays as it is. NULL does nothing. */
SIMPLER_API simpler_status simpler_buffer_release(simpler_buffer *buffer, simpler_error **err);
/* Address in this process, valid until the buffer or its worker ends; NULL for a pointer that is no live buffer. */
SIMPLER_API void *simpler_buffer_data(simpler_buffer *buffer);
/* Size as given to create; 0 for a pointer that is no live buffer. */
SIMPLER_API uint64_t simpler_buffer_bytes(simpler_buffer *buffer);

/* ---- tasks and runs ------------------------------------------------------------------------------------------- */

/* A tensor argument (frozen). Memory is either `data`, any memory of this process, or `buffer` plus `offset`.
 * By `data`: copied to the chip before the task (INPUT, INOUT) and back after it (INOUT, OUTPUT_EXISTING) if the run
 * succeeds; a failed or cancelled run leaves it as it was. Elements of an OUTPUT_EXISTING tensor that no kernel writes come
 * back as zero. Arguments of one task that overlap in memory overlap on the chip too.
 * By `buffer`: not copied; after a failed run it has what the tasks that ran have written.
 * Tags: INPUT, INOUT, OUTPUT_EXISTING. */
typedef struct simpler_tensor_arg {
  void *data;
  simpler_buffer *buffer;
  uint64_t offset; /* bytes into the buffer */
  simpler_tag tag;
  simpler_dtype dtype;
  uint32_t rank;     /* 1 to SIMPLER_RANK_MAX */
  uint32_t reserved; /* 0 */
  uint64_t shape[SIMPLER_RANK_MAX];
  uint64_t strides[SIMPLER_RANK_MAX]; /* in elements; 0 only for INPUT. A dimension of one or no elements ignores its own. */
} simpler_tensor_arg;

/* Fills a contiguous row-major argument over host memory. */
static inline simpler_tensor_arg simpler_tensor_arg_make(void *data, simpler_tag tag, simpler_dtype dtype, uint32_t rank,
                                                         const uint64_t *shape) {
  simpler_tensor_arg a;
  uint64_t stride = 1;
  uint32_t i;
  a.data = data;
  a.buffer = NULL;
  a.offset = 0;
  a.tag = tag;
  a.dtype = dtype;
  a.rank = rank;
  a.reserved = 0;
  for (i = 0; i < SIMPLER_RANK_MAX; i++) {
    a.shape[i] = 0;
    a.strides[i] = 0;
  }
  for (i = rank <= SIMPLER_RANK_MAX ? rank : 0; i > 0; i--) {
    a.shape[i - 1] = shape[i - 1];
    a.strides[i - 1] = stride;
    stride *= shape[i - 1];
  }
  return a;
}

/* The same over a buffer, from byte `offset` on. */
static inline simpler_tensor_arg simpler_tensor_arg_make_in_buffer(simpler_buffer *buffer, uint64_t offset, simpler_tag tag,
                                                                   simpler_dtype dtype, uint32_t rank,
                                                                   const uint64_t *shape) {
  simpler_tensor_arg a = simpler_tensor_arg_make(NULL, tag, dtype, rank, shape);
  a.buffer = buffer;
  a.offset = offset;
  return a;
}

/* One execution of a callable on a chip. */
typedef struct simpler_task {
  size_t struct_size;
  simpler_callable *callable;
  int32_t chip;          /* 0 to chips - 1, or SIMPLER_CHIP_ANY: the one with the fewest runs */
  uint32_t tensor_count; /* at most SIMPLER_TENSORS_MAX */
  const simpler_tensor_arg *tensors;
  const uint64_t *scalars;
  uint32_t scalar_count; /* at most SIMPLER_SCALARS_MAX */
  uint32_t reserved;     /* 0 */
} simpler_task;
#define SIMPLER_TASK_INIT \
  { sizeof(simpler_task), NULL, SIMPLER_CHIP_ANY, 0, NULL, NULL, 0, 0 }

typedef struct simpler_run_options {
  size_t struct_size;
  const char *label;   /* for errors and traces; may be NULL */
  uint32_t window;     /* 0: the worker's; otherwise as there, at most the worker's */
  uint32_t reserved;   /* 0 */
  uint64_t heap_bytes; /* 0: the worker's; otherwise as there, at most the worker's */
  uint64_t seed;       /* 0: from the worker's; otherwise the worker must have one, and this is taken as it is */
} simpler_run_options;
#define SIMPLER_RUN_OPTIONS_INIT \
  { sizeof(simpler_run_options), NULL, 0, 0, 0, 0 }

/* Submits a task and returns at once with a handle of the run. Runs on one chip start in the order of submission.
 * Tensor memory passed by `data` must stay valid, inputs unchanged and outputs unread, until the run has ended
 * (simpler_run_wait said so), even if the handle is released early. `options` may be NULL.
 * Errors here are those of the arguments; errors of the run are on its handle. CAPACITY_MEMORY (staging), CAPACITY_ARGUMENTS,
 * CHIP_LOST. */
SIMPLER_API simpler_status simpler_worker_submit(simpler_worker *worker, const simpler_task *task,
                                                 const simpler_run_options *options, simpler_run **run, simpler_error **err);

/* simpler_worker_submit, simpler_run_wait without a deadline and simpler_run_release in one. Returns the run's status. */
SIMPLER_API simpler_status simpler_worker_run(simpler_worker *worker, const simpler_task *task,
                                              const simpler_run_options *options, simpler_error **err);

/* Waits until the run has ended and returns its status, the same at each call, its outputs then being in place; or
 * TIMEOUT, and the run goes on. 0 polls; SIMPLER_FOREVER has no deadline.
 * A run's own failures: ORCHESTRATION_FAILED, KERNEL_FAILED, KERNEL_CRASHED, CHIP_LOST, CANCELLED, DEADLOCK_WINDOW,
 * DEADLOCK_HEAP, CAPACITY_HEAP, CAPACITY_ARGUMENTS, UNSATISFIABLE, INVALID_ARGUMENT (by the orchestration), ... */
SIMPLER_API simpler_status simpler_run_wait(simpler_run *run, uint64_t timeout_ns, simpler_error **err);

typedef uint32_t simpler_run_state;
enum {
  SIMPLER_RUN_QUEUED = 1,
  SIMPLER_RUN_RUNNING = 2,
  SIMPLER_RUN_DONE = 3,
  SIMPLER_RUN_FAILED = 4,
  SIMPLER_RUN_CANCELLED = 5
};

typedef struct simpler_run_stats {
  size_t struct_size;
  simpler_run_state state;
  int32_t chip;
  uint64_t tasks_submitted; /* the counts below are filled when the run has ended */
  uint64_t tasks_done;
  uint64_t tasks_failed;
  uint64_t tasks_skipped;   /* not run because a task that they depend on failed */
  uint64_t dependencies;    /* edges of the graph, also those whose producer had ended before */
  uint64_t window_peak;     /* most tasks in flight in one task ring */
  uint64_t heap_bytes_peak; /* most bytes in use in one heap ring */
  uint64_t queued_ns;       /* from submit until the chip took it */
  uint64_t running_ns;      /* on the chip */
} simpler_run_stats;
#define SIMPLER_RUN_STATS_INIT \
  { sizeof(simpler_run_stats), 0, SIMPLER_CHIP_ANY, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

/* Fills `stats` up to its struct_size. */
SIMPLER_API simpler_status simpler_run_get_stats(simpler_run *run, simpler_run_stats *stats, simpler_error **err);

/* Ends the handle, in any state; the run goes on without it. NULL does nothing. */
SIMPLER_API simpler_status simpler_run_release(simpler_run *run, simpler_error **err);

#ifdef __cplusplus
}
#endif
#endif /* SIMPLER_H */
