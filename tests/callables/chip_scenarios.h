// The numbers by which tests choose what chip_scenarios.cpp does.
#pragma once

#include <cstdint>

enum Scenario : uint64_t {
  kScenarioNothing,
  kScenarioIndependent,       // scalar: tasks; each adds one to an element of its own
  kScenarioChain,             // scalar: tasks; all add to element 0
  kScenarioIndependentEmpty,  // the same with kernels that do nothing
  kScenarioChainEmpty,
  kScenarioShapes,
  kScenarioSpmd,      // scalars: blocks, rounds
  kScenarioSpmdBoth,  // scalars: blocks, tasks
  kScenarioVectorExample,
  kScenarioFail,
  kScenarioThrow,
  kScenarioFailBlock,  // scalar: block
  kScenarioAlloc,      // scalar: rounds
  kScenarioMistake,    // scalar: Mistake
  kScenarioWait,
  kScenarioLog,
  kScenarioManual,  // scalar: tasks
  kScenarioCounts,
  kScenarioFan,  // scalars: rounds, readers; a writer and its readers, again and again
};

enum Mistake : uint64_t {
  kMistakeNullTask,
  kMistakeStructSize,
  kMistakeUnknownKernel,
  kMistakeWrongCore,
  kMistakeWrongCoreAic,
  kMistakeZeroBlocks,
  kMistakeTensorCount,
  kMistakeScalarCount,
  kMistakeNullTensors,
  kMistakeNullTensor,
  kMistakeNullScalars,
  kMistakeNullAfter,
  kMistakeTag,
  kMistakeRank,
  kMistakeSlice,
  kMistakeDtype,
  kMistakeOverflow,
  kMistakeOutside,
  kMistakeBefore,
  kMistakeZeroStride,
  kMistakeNoMemory,
  kMistakeOutputWithData,
  kMistakeOutputStrides,
  kMistakeOutputOverflow,
  kMistakeFutureTask,
  kMistakeNoTask,
  kMistakeScopeMode,
  kMistakeAutoInManual,
  kMistakeScopeEnd,
  kMistakeUnclosedScope,
  kMistakeAllocNull,
  kMistakeAllocTwice,
  kMistakeFlags,
  kMistakeReturn,
  kMistakeFail,
  kMistakeThrow,
  kMistakeThrowNonsense,
  kMistakeHeap,
  kMistakeWindow,
};
