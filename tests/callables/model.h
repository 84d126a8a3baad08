/* model.h - what the orchestration of model.so does, chosen by scalar 0. Tensor 0 is a row of uint64, INOUT; kernels count in its
 * elements atomically. Element 0 counts what was found wrong. */
#ifndef TESTS_MODEL_H
#define TESTS_MODEL_H

enum model_scenario {
  MODEL_FIFO,         /* blocks, words: AIC sends words to both AIV, which send their sums back; [1] += sums */
  MODEL_PARTS,        /* blocks, shape: parts of a block are on one cluster, at their positions; [1] += calls */
  MODEL_MIX_BARRIER,  /* blocks, rounds: parts of a block meet; [1] += calls */
  MODEL_SYNC_BARRIER, /* blocks, rounds, shape: all blocks meet; [1] += calls */
  MODEL_STARVATION,   /* singles, blocks, shape: [1] += singles done, [2] := those done when the cohort began */
  MODEL_COHORTS,      /* rounds: cohorts of different shapes at once; [1] += calls */
  MODEL_MISUSE,       /* which: a kernel that calls wrongly; see model_misuse */
  MODEL_FAIL_WAITING, /* which: one kernel fails with code 42 while others wait; see model_waiting */
  MODEL_PREDICATE, /* dtype, compare, constant, element, manual: [1] += 1 if the task ran, [2] += 1 by its dependent; [3]: read from its
                         output by another */
  MODEL_PREDICATE_WAITS, /* manual: the writer of the element runs late; [1] += 1 */
  MODEL_PREDICATE_BAD,   /* which */
  MODEL_SCALAR,          /* dtype, word: [1] := what comes back, at an even index, [2] at an odd one, [3]: its neighbour */
  MODEL_SCALAR_WAITS,    /* n: [1] := read after n writers; [2] := what n readers saw in total */
  MODEL_SCALAR_FAILED,   /* the element's writer fails with code 42 */
  MODEL_SCALAR_BAD,      /* which */
  MODEL_FILLED,          /* elements: [1] += those that are 2.5f */
  MODEL_SIGNAL,          /* pairs: waiters are submitted before those that they wait for; [1] += waiters */
  MODEL_SIGNAL_COMPARE,  /* compare, value; signal is set to 7: [1] := 1 when the wait has ended */
  MODEL_SIGNAL_WAIT,     /* value: waits until [1] >= value, then [2] += 1 */
  MODEL_SIGNAL_ADD,      /* value: adds to [1] */
  MODEL_COMPLETE_WHEN,   /* conditions, how: [1] += 1 by the dependent, when all conditions hold */
  MODEL_COMPLETE_NEVER,  /* a condition that never holds, and a task that fails with code 42 */
  MODEL_COMPLETE_BLOCKS, /* blocks: each block gives a condition of its own */
  MODEL_ORDER,           /* tasks: each writes down when it ran: element 1 + i := position; [1 + tasks + i] := core */
  MODEL_VIEWS            /* reshape, permute: [1] += those that are right */
};

enum model_misuse {
  MODEL_MISUSE_POP_OWN,
  MODEL_MISUSE_POP_ABSENT,
  MODEL_MISUSE_POP_NOWHERE,
  MODEL_MISUSE_POP_NULL,
  MODEL_MISUSE_POP_LEFT,
  MODEL_MISUSE_PUSH_LEFT,
  MODEL_MISUSE_BARRIER_LEFT,
  MODEL_MISUSE_BARRIER_SPMD,
  MODEL_MISUSE_SIGNAL_NULL,
  MODEL_MISUSE_SIGNAL_MISALIGNED,
  MODEL_MISUSE_SIGNAL_COMPARE,
  MODEL_MISUSE_COUNT
};

enum model_waiting {
  MODEL_WAITING_BARRIER,
  MODEL_WAITING_POP,
  MODEL_WAITING_PUSH,
  MODEL_WAITING_SIGNAL,
  MODEL_WAITING_COUNT
};

#endif /* TESTS_MODEL_H */
