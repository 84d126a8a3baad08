/* simpler/types.h - what host programs, kernels and orchestrations share: status codes, dtypes, tags, core types.
 *
 * Included by simpler.h and simpler/device.h; no program needs to include it by itself. Plain C11, no dependencies.
 */
#ifndef SIMPLER_TYPES_H
#define SIMPLER_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- status codes ---------------------------------------------------------------------------------------------
 *
 * Numbers are stable: a number is never given a second meaning. A program treats a number that it does not know as a
 * failure. simpler_status_name() gives the name. Codes up to 16 keep the numbers that absl and gRPC use for them. */
typedef int32_t simpler_status;
enum {
  SIMPLER_OK = 0,
  SIMPLER_CANCELLED = 1,        /* the run was cancelled, or its worker closed */
  SIMPLER_INVALID_ARGUMENT = 3, /* the message names the argument, what came and what is allowed */
  SIMPLER_TIMEOUT = 4,          /* a wait reached its deadline; what was waited for goes on */
  SIMPLER_NOT_FOUND = 5,
  SIMPLER_ALREADY_EXISTS = 6,
  SIMPLER_NOT_SUPPORTED = 12,
  SIMPLER_INTERNAL = 13, /* a broken invariant of the library: please report it */

  /* handles and life cycle */
  SIMPLER_INVALID_HANDLE = 32, /* never was a handle, or released, or of another kind or worker */
  SIMPLER_CLOSED = 33,         /* the worker is closed or closing */
  SIMPLER_BUSY = 34,           /* still in use by a run; try again when the run has ended */
  SIMPLER_WRONG_PROCESS = 35,  /* the handle was made before fork() by the parent process */

  /* capacity: the message has used, capacity, request and the option to raise */
  SIMPLER_CAPACITY_WINDOW = 48,    /* task ring */
  SIMPLER_CAPACITY_HEAP = 49,      /* heap ring for intermediates */
  SIMPLER_CAPACITY_CALLABLES = 50, /* callable slots (cids) of a chip */
  SIMPLER_CAPACITY_ARGUMENTS = 51, /* arguments of one task */
  SIMPLER_CAPACITY_CHIPS = 52,
  SIMPLER_CAPACITY_MEMORY = 53, /* global memory (GM) */

  /* graphs that can never go on */
  SIMPLER_DEADLOCK_WINDOW = 64, /* an open scope holds every slot of its task ring */
  SIMPLER_DEADLOCK_HEAP = 65,   /* an open scope holds the heap bytes that the next task needs */
  SIMPLER_UNSATISFIABLE = 66,   /* no set of cores or chips could ever run the task */

  /* loading callables */
  SIMPLER_LOAD_IMAGE = 80,   /* not an ELF shared object of this machine, or the loader refused it */
  SIMPLER_LOAD_SYMBOL = 81,  /* a symbol is missing; the message names it */
  SIMPLER_LOAD_VERSION = 82, /* built against another device interface, or library and simpler-chip differ */

  /* running */
  SIMPLER_KERNEL_FAILED = 96, /* a kernel called simpler_kernel_fail */
  SIMPLER_KERNEL_CRASHED = 97,
  SIMPLER_ORCHESTRATION_FAILED = 98, /* the orchestration reported an error or broke a rule */
  SIMPLER_CHIP_LOST = 99,            /* the chip's process died or broke the protocol */

  /* limits in wall time */
  SIMPLER_STALL_LIMIT = 112,
  SIMPLER_RUN_LIMIT = 113,
  SIMPLER_START_LIMIT = 114,

  /* the world */
  SIMPLER_PROTOCOL_ERROR = 128,
  SIMPLER_OUT_OF_MEMORY = 129,
  SIMPLER_SYSTEM_ERROR = 130 /* the message has the system call and errno */
};

/* ---- dtypes --------------------------------------------------------------------------------------------------- */
typedef uint32_t simpler_dtype;
enum {
  SIMPLER_DTYPE_BOOL = 1, /* one byte, 0 or 1 */
  SIMPLER_DTYPE_INT8 = 2,
  SIMPLER_DTYPE_UINT8 = 3,
  SIMPLER_DTYPE_INT16 = 4,
  SIMPLER_DTYPE_UINT16 = 5,
  SIMPLER_DTYPE_INT32 = 6,
  SIMPLER_DTYPE_UINT32 = 7,
  SIMPLER_DTYPE_INT64 = 8,
  SIMPLER_DTYPE_UINT64 = 9,
  SIMPLER_DTYPE_FLOAT16 = 10,
  SIMPLER_DTYPE_BFLOAT16 = 11,
  SIMPLER_DTYPE_FLOAT32 = 12,
  SIMPLER_DTYPE_FLOAT64 = 13,
  SIMPLER_DTYPE_FLOAT8_E4M3FN = 14,
  SIMPLER_DTYPE_FLOAT8_E8M0 = 15,
  SIMPLER_DTYPE_FLOAT4_E2M1 = 16 /* two elements per byte; views start and end on byte boundaries */
};

/* Size of one element in bits, or 0 for a number that is no dtype. */
static inline uint32_t simpler_dtype_bits(simpler_dtype dtype) {
  static const uint8_t bits[17] = {0, 8, 8, 8, 16, 16, 32, 32, 64, 64, 16, 16, 32, 64, 8, 8, 4};
  return dtype < 17 ? bits[dtype] : 0;
}

/* ---- how a task uses a tensor --------------------------------------------------------------------------------- */
typedef uint32_t simpler_tag;
enum {
  SIMPLER_TAG_INPUT = 1,           /* read: waits for the last writers of the region */
  SIMPLER_TAG_OUTPUT = 2,          /* written; the runtime allocates the memory; waits for nothing */
  SIMPLER_TAG_INOUT = 3,           /* read and written: waits for the last writers and the readers since */
  SIMPLER_TAG_OUTPUT_EXISTING = 4, /* written, in memory that exists: waits as INOUT does */
  SIMPLER_TAG_NO_DEP = 5           /* no waiting, no tracking; the memory still stays alive */
};

/* ---- cores ---------------------------------------------------------------------------------------------------- */
typedef uint32_t simpler_core_type;
enum {
  SIMPLER_CORE_AIC = 1, /* cube core */
  SIMPLER_CORE_AIV = 2  /* vector core */
};

/* ---- log levels ----------------------------------------------------------------------------------------------- */
typedef int32_t simpler_log_level;
enum {
  SIMPLER_LOG_OFF = 0,
  SIMPLER_LOG_ERROR = 1,
  SIMPLER_LOG_WARNING = 2,
  SIMPLER_LOG_INFO = 3,
  SIMPLER_LOG_DEBUG = 4
};

/* ---- limits that hold everywhere ------------------------------------------------------------------------------ */
#define SIMPLER_RANK_MAX 8u          /* dimensions of a tensor */
#define SIMPLER_TENSORS_MAX 4096u    /* tensor arguments of one task */
#define SIMPLER_SCALARS_MAX 4096u    /* scalar arguments of one task */
#define SIMPLER_NO_KERNEL UINT32_MAX /* "no kernel here"; not usable as a kernel id */

#ifdef __cplusplus
}
#endif
#endif /* SIMPLER_TYPES_H */
