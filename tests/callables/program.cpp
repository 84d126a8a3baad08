// The interpreter of random programs: see program.h. Returns when an operation fails.
#include "program.h"

#include "simpler/device.h"

namespace {

using namespace program;

// Scalars: task, shape, parts, whether it fails, state, then a tag per tensor. Tensor 0 is the log.
void part(const simpler_kernel_context *c, const simpler_args *args) {
  const uint64_t number = args->scalars[0];
  const uint64_t shape = args->scalars[1];
  const uint64_t parts = args->scalars[2];
  auto *log = static_cast<uint64_t *>(args->tensors[0].data);
  uint64_t never = 0;
  const uint64_t begin = __atomic_add_fetch(log + kClock, 1, __ATOMIC_SEQ_CST);
  __atomic_compare_exchange_n(log + kBegin + number, &never, begin, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);

  const auto kernels = static_cast<uint64_t>(__builtin_popcountll(shape));
  // A single kernel for AIV may be on either of a cluster's vector cores; parts of a MIX task are where the shape says.
  const auto before =
      kernels == 1 ? 0 : static_cast<uint64_t>(__builtin_popcountll(shape & ((uint64_t{1} << c->position) - 1)));
  if (args->scalars[3] != 0) {
    simpler_kernel_fail(c, static_cast<int32_t>(number), "as the program says");
  } else {
    std::vector<Use> uses;
    for (uint32_t i = 1; i < args->tensor_count; i++)
      uses.push_back({args->tensors[i], static_cast<simpler_tag>(args->scalars[4 + i])});
    work(number, args->scalars[4], uses, c->block_index * kernels + before, parts);
  }

  const uint64_t end = __atomic_add_fetch(log + kClock, 1, __ATOMIC_SEQ_CST);
  uint64_t last = __atomic_load_n(log + kEnd + number, __ATOMIC_SEQ_CST);
  while (last < end &&
         !__atomic_compare_exchange_n(log + kEnd + number, &last, end, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
}

class Interpreter {
 public:
  Interpreter(simpler_orch *orch, const simpler_args *args)
      : orch_(orch),
        next_(static_cast<const uint64_t *>(args->tensors[3].data)),
        log_tensor_(args->tensors[2]),
        log_(static_cast<uint64_t *>(args->tensors[2].data)),
        memories_{args->tensors[0], args->tensors[1]} {}

  void run() {
    for (uint64_t operations = *next_++; operations > 0 && step() == SIMPLER_OK; operations--) log_[kOperationsDone]++;
  }

 private:
  uint64_t take() { return *next_++; }

  simpler_status step() {
    switch (take()) {
      case kScopeBegin:
        return simpler_orch_scope_begin(orch_, static_cast<simpler_scope_mode>(take()));
      case kScopeEnd:
        return simpler_orch_scope_end(orch_);
      case kAlloc:
        return allocate();
      case kRead:
      case kWrite:
        return access_scalar(next_[-1]);
      case kTask:
        return submit();
      default:
        return simpler_orch_fail(orch_, 1, "the program is broken");
    }
  }

  simpler_status allocate() {
    const uint64_t bytes = take();
    const uint64_t fill = take();
    simpler_tensor memory = simpler_tensor_make(SIMPLER_DTYPE_UINT8, 1, &bytes);
    const simpler_status status =
        fill == kNoFill ? simpler_orch_alloc(orch_, &memory) : simpler_orch_alloc_filled(orch_, &memory, fill);
    memories_.push_back(memory);
    return status;
  }

  simpler_status access_scalar(uint64_t operation) {
    const simpler_tensor view = element_of(memories_[next_[0]], next_[1], next_[2]);
    const uint64_t index[] = {0};
    next_ += 3;
    if (operation == kWrite) return simpler_orch_write_scalar(orch_, &view, index, state_);
    uint64_t word = 0;
    const simpler_status status = simpler_orch_read_scalar(orch_, &view, index, &word);
    state_ = next_state(state_, word);
    return status;
  }

  simpler_status submit() {
    simpler_kernel_task task = SIMPLER_KERNEL_TASK_INIT;
    const uint64_t number = take();
    const uint64_t shape = take();
    task.block_count = static_cast<uint32_t>(take());
    task.flags = static_cast<uint32_t>(take());
    const uint64_t fails = take();
    if ((shape & 1) != 0) task.aic = 1;
    if ((shape & 2) != 0) task.aiv0 = 2;
    if ((shape & 4) != 0) task.aiv1 = 2;

    std::vector<simpler_task_id> after(take());
    for (simpler_task_id &id : after) id = ids_[take() - 1];
    task.after = after.data();
    task.after_count = static_cast<uint32_t>(after.size());

    simpler_predicate predicate = {};
    simpler_tensor element;
    predicate.compare = static_cast<simpler_compare>(take());
    if (predicate.compare != 0) {
      element = element_of(memories_[next_[0]], next_[1], next_[2]);
      predicate.tensor = &element;
      predicate.constant = next_[3];
      next_ += 4;
      task.predicate = &predicate;
    }

    std::vector<Use> uses(take() + 1);
    const uint64_t parts = task.block_count * static_cast<uint64_t>(__builtin_popcountll(shape));
    std::vector<uint64_t> scalars = {number, shape, parts, fails, state_};
    std::vector<simpler_task_tensor> tensors;
    uses[0] = {log_tensor_, SIMPLER_TAG_NO_DEP};
    for (size_t i = 0; i < uses.size(); i++) {
      if (i > 0) {
        uses[i].tag = static_cast<simpler_tag>(next_[1]);
        uses[i].view = next_[0] == kNewMemory ? simpler_tensor_make(SIMPLER_DTYPE_UINT8, 1, next_ + 5)
                                              : view_of(memories_[next_[0]], next_);
        next_ += kViewWords;
        scalars.push_back(uses[i].tag);
      }
      tensors.push_back({&uses[i].view, uses[i].tag, 0});
    }
    task.tensors = tensors.data();
    task.tensor_count = static_cast<uint32_t>(tensors.size());
    task.scalars = scalars.data();
    task.scalar_count = static_cast<uint32_t>(scalars.size());
    simpler_task_id id = 0;
    const simpler_status status = simpler_orch_submit(orch_, &task, &id);
    ids_.push_back(id);
    for (const Use &use : uses)
      if (use.tag == SIMPLER_TAG_OUTPUT) memories_.push_back(use.view);
    return status;
  }

  simpler_orch *orch_;
  const uint64_t *next_;
  simpler_tensor log_tensor_;
  uint64_t *log_;
  std::vector<simpler_tensor> memories_;
  std::vector<simpler_task_id> ids_;
  uint64_t state_ = 0;
};

int orchestrate(simpler_orch *orch, const simpler_args *args) {
  Interpreter(orch, args).run();
  return 0;
}

const simpler_callable_kernel kernels[] = {
    SIMPLER_KERNEL(1, SIMPLER_CORE_AIC, part),
    SIMPLER_KERNEL(2, SIMPLER_CORE_AIV, part),
};

}  // namespace

SIMPLER_CALLABLE("program", orchestrate, kernels);
