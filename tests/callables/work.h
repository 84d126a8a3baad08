/* work.h - kernels and orchestrations in work.so and work_cxx.so, for tests through simpler.h.
 *
 * Each is exported under its own name, so that a test describes the callable that it wants (tests/support/api.h). Unless said
 * otherwise, tensors are contiguous uint64. */
#ifndef TESTS_WORK_H
#define TESTS_WORK_H

/* Kernel ids are sparse on purpose. */
#define WORK_KERNELS(X)                                                                                         \
  X(1, nothing)               /* any arguments */                                                               \
  X(2, fill)                  /* tensor 0 := scalar 0 */                                                        \
  X(3, copy)                  /* tensor 1 := tensor 0; any dtype of 8 bytes, any strides, up to 8 dimensions */ \
  X(4, add)                   /* tensor 2 := tensor 0 + tensor 1; any strides */                                \
  X(5, increment)             /* tensor 0 += 1, atomically, each element */                                     \
  X(6, accumulate)            /* tensor 1 += sum of tensor 0 (any strides), first element, not atomically */    \
  X(7, touch_first)           /* first element of tensor 0 := scalar 0, and no other */                         \
  X(8, next_cell)             /* last tensor := 1 + sum of the other tensors, first elements */                 \
  X(9, say)                   /* logs "hello from a kernel" as a warning */                                     \
  X(0x20, gate)               /* tensor 0: [1] += 1, then waits until [0] != 0, yielding */                     \
  X(0x21, slow)               /* takes scalar 0 ns without yielding */                                          \
  X(0x22, spin)               /* never returns; tensor 0 (may be missing): [1] += 1 before */                   \
  X(0x80000001, fail)         /* all tensors := 77, then fails with code scalar 0 */                            \
  X(0x80000002, crash)        /* SIGSEGV */                                                                     \
  X(0x80000003, exit_3)       /* exit(3) */                                                                     \
  X(0x80000004, kill_itself)  /* SIGKILL */                                                                     \
  X(0xfffffffe, abort_itself) /* SIGABRT */

/* Orchestrations. Unless said otherwise tensor 0 is a row of uint64, INOUT.
 *
 * orch_empty             submits nothing
 * orch_empty_scopes      ten scopes within each other, nothing in them
 * orch_chain             scalar n: n tasks, each adds 1 to element 0
 * orch_independent       scalar n: n tasks; task i adds 1 to element i % size
 * orch_grid              scalars rows, columns: tensor 0 is rows x columns; cell := 1 + upper + left
 * orch_fan               scalars width, rounds: element 0 += 1, width tasks read it and add 1 to an element of their own each,
 *                        one task reads all of these; tensor 0 has 1 + width elements
 * orch_chain_nothing, orch_independent_nothing, orch_grid_nothing, orch_fan_nothing   the same with empty kernels
 * orch_outputs           scalars n, elements, scoped: n tasks with an OUTPUT of that size each, its first value added to element
 *                        0; in a scope of their own each if `scoped`, else all in one
 * orch_alloc             scalars n, elements: allocates n times in a scope, checks that it reads as zero, counts in element 0
 * orch_scopes            scalar depth: scopes within each other, a task in each adds 1 to element 0
 * orch_gate_first        tensor 1 is the gate: one gate task on it, then element 0 += 1
 * orch_fail              scalar code: fails with it, then calls everything; element 0 counts calls that did not say so
 * orch_fail_later        scalar code: submits 10 tasks adding to element 0, then fails
 * orch_return            scalar code: returns it
 * orch_return_failed     ignores a failed call and returns 0
 * orch_unclosed          leaves a scope open and returns 0
 * orch_mistake           scalar which (work_mistake): one bad call
 * orch_failing_task      scalar code: a task that fails, two that depend on it, three that do not (elements 1 to 3 += 1)
 * orch_crash             SIGSEGV in the orchestration
 * orch_throws            (work_cxx.so) throws std::runtime_error("thrown on purpose")
 * orch_throws_number     (work_cxx.so) throws 5
 * orch_cxx               (work_cxx.so) uses strings, vectors, function-local statics and thread_local: element 0 += 6 */

/* What orch_mistake does wrong. */
enum work_mistake {
  WORK_MISTAKE_NULL_TASK,
  WORK_MISTAKE_UNKNOWN_KERNEL,
  WORK_MISTAKE_ZERO_BLOCKS,
  WORK_MISTAKE_NULL_TENSOR,
  WORK_MISTAKE_TAG,
  WORK_MISTAKE_RANK,
  WORK_MISTAKE_SLICE,
  WORK_MISTAKE_DTYPE,
  WORK_MISTAKE_OUTSIDE,
  WORK_MISTAKE_FUTURE_TASK,
  WORK_MISTAKE_SCOPE_END,
  WORK_MISTAKE_ALLOC_NULL,
  WORK_MISTAKE_COUNT
};

#endif /* TESTS_WORK_H */
