#include "chip/graph_builder.h"

#include <bit>
#include <cstring>

#include "chip/task_payload.h"
#include "chip/tensor_check.h"

namespace simpler::chip {

namespace {

constexpr size_t kLabelBytesMax = 255;
constexpr const char *kSubmit = "simpler_orch_submit";
constexpr const char *kAlloc = "simpler_orch_alloc";
constexpr const char *kAllocFilled = "simpler_orch_alloc_filled";
constexpr const char *kReadScalar = "simpler_orch_read_scalar";
constexpr const char *kWriteScalar = "simpler_orch_write_scalar";
constexpr const char *kScopeBegin = "simpler_orch_scope_begin";
constexpr const char *kScopeEnd = "simpler_orch_scope_end";
constexpr const char *kPositions[] = {"aic", "aiv0", "aiv1"};

// Copies a view without the entries beyond its rank, which nobody may look at: they would be most of the bytes.
void copy_view(simpler_tensor &to, const simpler_tensor &from) {
  to.data = from.data;
  to.allocation = from.allocation;
  to.allocation_bytes = from.allocation_bytes;
  to.owner = from.owner;
  to.dtype = from.dtype;
  to.rank = from.rank;
  for (uint32_t i = 0; i < from.rank; i++) {
    to.shape[i] = from.shape[i];
    to.strides[i] = from.strides[i];
  }
}

// The byte, or bytes, of one element as a view.
simpler_tensor element_view(const simpler_tensor &tensor, const ElementPlace &place) {
  simpler_tensor view = tensor;
  if (simpler_dtype_bits(view.dtype) < 8) view.dtype = SIMPLER_DTYPE_UINT8;
  view.data = place.byte;
  view.rank = 1;
  view.shape[0] = 1;
  view.strides[0] = 1;
  return view;
}

// Trailing fields that only a newer caller knows must be zero.
bool has_unknown_fields(const simpler_kernel_task &task) {
  const auto *bytes = reinterpret_cast<const unsigned char *>(&task);
  for (size_t i = sizeof(task); i < task.struct_size; i++)
    if (bytes[i] != 0) return true;
  return false;
}

}  // namespace

const simpler_orch_services GraphBuilder::kServices = {
    sizeof(simpler_orch_services),
    [](simpler_orch *orch, const simpler_kernel_task *task, simpler_task_id *id) {
      return builder_of(orch).submit(task, id);
    },
    [](simpler_orch *orch, simpler_scope_mode mode) { return builder_of(orch).scope_begin(mode); },
    [](simpler_orch *orch) { return builder_of(orch).scope_end(); },
    [](simpler_orch *orch, simpler_tensor *tensor) { return builder_of(orch).allocate(kAlloc, tensor); },
    [](simpler_orch *orch, int32_t code, const char *text) -> simpler_status {
      GraphBuilder &builder = builder_of(orch);
      if (builder.status_ != SIMPLER_OK) return builder.status_;
      try {
        ErrorInfo error;
        error.code = SIMPLER_ORCHESTRATION_FAILED;
        error.user_code = code;
        error.message = fmt::format("the orchestration failed with code {}: {}", code,
                                    std::string_view(text != nullptr ? text : "").substr(0, control::kErrorTextBytesMax));
        return builder.fail(std::move(error));
      } catch (...) {
        return builder.status_ = SIMPLER_ORCHESTRATION_FAILED;
      }
    },
    [](simpler_orch *orch) -> int {
      const GraphBuilder &builder = builder_of(orch);
      return builder.status_ != SIMPLER_OK || builder.scheduler_.failure().has_failed() || builder.engine_.stopped();
    },
    [](simpler_orch *orch, simpler_log_level level, const char *text) {
      if (text != nullptr) builder_of(orch).outbox_.log(level, text);
    },
    [](simpler_orch *orch) { return builder_of(orch).geometry_.clusters(); },
    [](simpler_orch *orch, simpler_core_type type) -> uint32_t {
      const bool exists = type == SIMPLER_CORE_AIC || type == SIMPLER_CORE_AIV;
      return exists ? builder_of(orch).geometry_.cores(type) : 0;
    },
    [](simpler_orch *orch, const simpler_tensor *tensor, const uint64_t *index, uint64_t *word) {
      return builder_of(orch).read_scalar(tensor, index, word);
    },
    [](simpler_orch *orch, const simpler_tensor *tensor, const uint64_t *index, uint64_t word) {
      return builder_of(orch).write_scalar(tensor, index, word);
    },
    [](simpler_orch *orch, simpler_tensor *tensor, uint64_t word) { return builder_of(orch).alloc_filled(tensor, word); },
};

GraphBuilder::GraphBuilder(const Geometry &geometry, graph::Engine &engine, Scheduler &scheduler, Outbox &outbox)
    : geometry_(geometry), engine_(engine), scheduler_(scheduler), outbox_(outbox) {
  handle_.base.services = &kServices;
  handle_.builder = this;
}

void GraphBuilder::begin_run(const Callable &callable) {
  callable_ = &callable;
  last_kernel_ = nullptr;
  status_ = SIMPLER_OK;
  ordinal_ = 0;
}

void GraphBuilder::end_run() {
  callable_ = nullptr;
  last_kernel_ = nullptr;
  status_ = SIMPLER_CLOSED;
}

bool GraphBuilder::is_open() {
  if (status_ != SIMPLER_OK) return false;
  if (scheduler_.failure().has_failed()) [[unlikely]]
    status_ = scheduler_.failure().error().code;
  return status_ == SIMPLER_OK;
}

// ---- errors ---------------------------------------------------------------------------------------------------------

simpler_status GraphBuilder::fail(ErrorInfo error) {
  status_ = error.code;
  scheduler_.failure().record(std::move(error));
  return status_;
}

template <class... Args>
simpler_status GraphBuilder::refuse(simpler_status code, const char *function, fmt::format_string<Args...> format,
                                    Args &&...args) {
  ErrorInfo error;
  error.code = code;
  error.message = fmt::format("{}: {}", function, fmt::format(format, std::forward<Args>(args)...));
  return fail(std::move(error));
}

simpler_status GraphBuilder::fail_by_exception(const char *function, const char *what, uint32_t index) {
  ErrorInfo error = capture_current_exception();
  try {
    error.message = what == nullptr ? fmt::format("{}: {}", function, error.message)
                                    : fmt::format("{}: {}[{}]: {}", function, what, index, error.message);
    return fail(std::move(error));
  } catch (...) {
    return status_ = SIMPLER_OUT_OF_MEMORY;
  }
}

// ---- submit ---------------------------------------------------------------------------------------------------------

simpler_status GraphBuilder::check(const simpler_kernel_task &task) {
  if (task.struct_size < sizeof(task))
    return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->struct_size is {}, expected {} (use SIMPLER_KERNEL_TASK_INIT)",
                  task.struct_size, sizeof(task));
  if (task.struct_size > sizeof(task) && has_unknown_fields(task))
    return refuse(SIMPLER_NOT_SUPPORTED, kSubmit, "task has fields beyond byte {} that this chip does not know",
                  sizeof(task));
  if ((task.flags & ~uint32_t{SIMPLER_TASK_SYNC_START}) != 0)
    return refuse(SIMPLER_NOT_SUPPORTED, kSubmit, "task->flags is {:#x}; only SIMPLER_TASK_SYNC_START (1) exists",
                  task.flags);
  if (task.block_count == 0)
    return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->block_count is 0, at least 1 is needed");
  if (task.tensor_count > SIMPLER_TENSORS_MAX)
    return refuse(SIMPLER_CAPACITY_ARGUMENTS, kSubmit, "task->tensor_count is {}, at most {} are allowed", task.tensor_count,
                  SIMPLER_TENSORS_MAX);
  if (task.scalar_count > SIMPLER_SCALARS_MAX)
    return refuse(SIMPLER_CAPACITY_ARGUMENTS, kSubmit, "task->scalar_count is {}, at most {} are allowed", task.scalar_count,
                  SIMPLER_SCALARS_MAX);
  if (task.tensor_count != 0 && task.tensors == nullptr)
    return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->tensors is NULL, task->tensor_count is {}", task.tensor_count);
  if (task.scalar_count != 0 && task.scalars == nullptr)
    return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->scalars is NULL, task->scalar_count is {}", task.scalar_count);
  if (task.after_count != 0 && task.after == nullptr)
    return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->after is NULL, task->after_count is {}", task.after_count);
  return SIMPLER_OK;
}

simpler_status GraphBuilder::find_kernels(const simpler_kernel_task &task, TaskPayload &header) {
  const uint32_t ids[3] = {task.aic, task.aiv0, task.aiv1};
  header.shape = 0;
  for (uint32_t position = 0; position < 3; position++) {
    header.kernels[position] = nullptr;
    if (ids[position] == SIMPLER_NO_KERNEL) continue;
    const Kernel *kernel = last_kernel_;
    if (kernel == nullptr || kernel->id != ids[position]) kernel = callable_->find_kernel(ids[position]);
    if (kernel == nullptr)
      return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->{}: there is no kernel {} in callable \"{}\"",
                    kPositions[position], ids[position], callable_->name());
    const simpler_core_type type = position == SIMPLER_POSITION_AIC ? SIMPLER_CORE_AIC : SIMPLER_CORE_AIV;
    if (kernel->core_type != type)
      return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->{}: kernel {} (\"{}\") is for {} cores", kPositions[position],
                    kernel->id, kernel->name, core_type_name(kernel->core_type));
    last_kernel_ = header.kernels[position] = kernel;
    header.shape = static_cast<uint8_t>(header.shape | (1u << position));
  }
  return SIMPLER_OK;
}

simpler_status GraphBuilder::check_shape(const simpler_kernel_task &task, TaskPayload &header) {
  header.block_count = task.block_count;
  header.flags = 0;
  if (header.shape == 0) {
    if (task.block_count != 1 || task.flags != 0)
      return refuse(
          SIMPLER_INVALID_ARGUMENT, kSubmit,
          "task has no kernel, but block_count {} and flags {:#x}: a task that only carries dependencies has 1 and 0",
          task.block_count, task.flags);
    return SIMPLER_OK;
  }
  const bool is_mix = (header.shape & (header.shape - 1)) != 0;
  if (is_mix || task.block_count > 1) header.flags |= TaskPayload::kSeveralCalls;
  // A kernel alone starts together with itself.
  if ((task.flags & SIMPLER_TASK_SYNC_START) == 0 || task.block_count == 1) return SIMPLER_OK;
  header.flags |= TaskPayload::kSyncStart;
  const uint32_t units = scheduler_.units(header.shape);
  if (task.block_count > units)
    return refuse(
        SIMPLER_UNSATISFIABLE, kSubmit,
        "task->block_count is {} with SIMPLER_TASK_SYNC_START: all blocks must be on {} at once, and this chip has {}",
        task.block_count,
        is_mix                     ? "clusters"
        : (header.shape & 1u) != 0 ? "AIC cores"
                                   : "AIV cores",
        units);
  return SIMPLER_OK;
}

simpler_status GraphBuilder::check_predicate(const simpler_kernel_task &task, TaskPayload &header) {
  const simpler_predicate &predicate = *task.predicate;
  if (predicate.tensor == nullptr) return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->predicate->tensor is NULL");
  if (!is_sound_view(*predicate.tensor, SIMPLER_TAG_INPUT))
    return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->predicate->tensor: {}",
                  explain_view(*predicate.tensor, SIMPLER_TAG_INPUT));
  if (!is_comparison(predicate.compare))
    return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->predicate->compare is {}; 1 to 6 exist", predicate.compare);
  if (predicate.reserved != 0)
    return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->predicate->reserved is {}, must be 0", predicate.reserved);
  if (!locate_element(*predicate.tensor, predicate.index, predicate_.element))
    return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->predicate: {}",
                  explain_index(*predicate.tensor, predicate.index));
  predicate_.dtype = predicate.tensor->dtype;
  predicate_.compare = predicate.compare;
  predicate_.constant = predicate.constant;
  predicate_element_ = element_view(*predicate.tensor, predicate_.element);
  header.flags |= TaskPayload::kPredicated;
  return SIMPLER_OK;
}

// Also collects the sizes of the outputs.
simpler_status GraphBuilder::check_tensors(const simpler_kernel_task &task) {
  output_bytes_.clear();
  for (uint32_t i = 0; i < task.tensor_count; i++) {
    const simpler_task_tensor &argument = task.tensors[i];
    if (argument.tensor == nullptr) return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->tensors[{}].tensor is NULL", i);
    if (argument.tag == SIMPLER_TAG_OUTPUT) {
      uint64_t bytes = 0;
      if (!is_sound_output(*argument.tensor, &bytes))
        return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->tensors[{}] (OUTPUT): {}", i,
                      explain_output(*argument.tensor));
      output_bytes_.push_back(bytes);
    } else if (!is_sound_view(*argument.tensor, argument.tag)) {
      return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task->tensors[{}]: {}", i,
                    explain_view(*argument.tensor, argument.tag));
    }
  }
  return SIMPLER_OK;
}

// Copies the arguments; sets the memory of outputs in the copies and in the caller's tensors.
void GraphBuilder::fill(graph::TaskSlot &slot, const simpler_kernel_task &task, const TaskPayload &header,
                        size_t label_bytes) {
  auto *payload = new (slot.payload) TaskPayload(header);
  auto *at = reinterpret_cast<std::byte *>(payload + 1);
  if (header.has_several_calls()) {
    auto *spmd = new (at) SpmdState;
    const auto parts = static_cast<uint32_t>(std::popcount(header.shape));
    spmd->calls_left.store(task.block_count * parts, std::memory_order_relaxed);  // published with the task
    at += sizeof(SpmdState);
  }
  if ((header.flags & TaskPayload::kPredicated) != 0) {
    new (at) Predicate(predicate_);
    at += sizeof(Predicate);
  }
  auto *tensors = reinterpret_cast<simpler_tensor *>(at);
  at += sizeof(simpler_tensor) * task.tensor_count;
  auto *scalars = reinterpret_cast<uint64_t *>(at);
  at += sizeof(uint64_t) * task.scalar_count;
  payload->args = {tensors, scalars, task.tensor_count, task.scalar_count};
  payload->ordinal = ordinal_++;
  payload->zero_count = 0;
  payload->label_offset = 0;
  if (task.scalar_count != 0) memcpy(scalars, task.scalars, sizeof(uint64_t) * task.scalar_count);
  size_t output = 0;
  ZeroRange *zero_ranges = payload->zero_ranges();
  for (uint32_t i = 0; i < task.tensor_count; i++) {
    simpler_tensor &view = *task.tensors[i].tensor;
    if (task.tensors[i].tag == SIMPLER_TAG_OUTPUT) {
      const graph::HeapBlock &block = output_blocks_[output];
      const uint64_t bytes = output_bytes_[output++];
      // An empty one owns nothing.
      view.data = view.allocation = bytes != 0 ? block.data : nullptr;
      view.allocation_bytes = bytes;
      view.owner = bytes != 0 ? slot.id : 0;
      // A task that may not be called writes nothing: all of its outputs read as zero, also where this run has used the memory.
      const bool may_not_be_called = header.shape == 0 || (header.flags & TaskPayload::kPredicated) != 0;
      const uint64_t zero_bytes = may_not_be_called ? bytes : block.zero_bytes;
      if (bytes != 0 && zero_bytes != 0) zero_ranges[payload->zero_count++] = {block.data, zero_bytes};
    }
    copy_view(tensors[i], view);
  }
  at += sizeof(ZeroRange) * output_bytes_.size();
  if (label_bytes != 0) {
    memcpy(at, task.label, label_bytes);
    at[label_bytes] = std::byte{0};
    payload->label_offset = static_cast<uint32_t>(at - static_cast<std::byte *>(slot.payload));
  }
}

simpler_status GraphBuilder::submit(const simpler_kernel_task *task, simpler_task_id *id) {
  // `id` may be one of task->after: it is written when that has been read.
  const simpler_status status = try_submit(task, id);
  if (status != SIMPLER_OK && id != nullptr) *id = 0;
  return status;
}

simpler_status GraphBuilder::try_submit(const simpler_kernel_task *task, simpler_task_id *id) {
  if (!is_open()) return status_;
  graph::TaskSlot *slot = nullptr;
  const char *what = nullptr;  // argument at work, for errors of the engine
  uint32_t index = 0;
  try {
    if (task == nullptr) return refuse(SIMPLER_INVALID_ARGUMENT, kSubmit, "task is NULL");
    TaskPayload header;
    if (check(*task) != SIMPLER_OK || find_kernels(*task, header) != SIMPLER_OK ||
        check_shape(*task, header) != SIMPLER_OK || check_tensors(*task) != SIMPLER_OK)
      return status_;
    if (task->predicate != nullptr && check_predicate(*task, header) != SIMPLER_OK) return status_;

    const size_t label_bytes = task->label != nullptr ? strnlen(task->label, kLabelBytesMax) : 0;
    const size_t bytes = sizeof(TaskPayload) + (header.has_several_calls() ? sizeof(SpmdState) : 0) +
                         (task->predicate != nullptr ? sizeof(Predicate) : 0) + sizeof(simpler_tensor) * task->tensor_count +
                         sizeof(uint64_t) * task->scalar_count + sizeof(ZeroRange) * output_bytes_.size() +
                         (label_bytes != 0 ? label_bytes + 1 : 0);
    if (output_blocks_.size() < output_bytes_.size()) output_blocks_.resize(output_bytes_.size());
    slot = engine_.open(bytes, output_bytes_, output_blocks_.data());
    if (slot == nullptr) return refuse(SIMPLER_CANCELLED, kSubmit, "the run was cancelled");
    fill(*slot, *task, header, label_bytes);
    const TaskPayload &payload = payload_of(*slot);
    what = "task->tensors";
    for (index = 0; index < task->tensor_count; index++)
      engine_.access(*slot, payload.args.tensors[index], task->tensors[index].tag);
    if (task->predicate != nullptr) {
      what = "task->predicate";
      engine_.access_in_any_scope(*slot, predicate_element_);
    }
    what = "task->after";
    for (index = 0; index < task->after_count; index++) engine_.after(*slot, task->after[index]);
    if (id != nullptr) *id = slot->id;
    // From the commit on the slot belongs to whoever runs the task.
    graph::TaskSlot &committed = *slot;
    slot = nullptr;
    if (engine_.commit(committed)) scheduler_.submit(committed);
    return SIMPLER_OK;
  } catch (...) {
    const simpler_status status = fail_by_exception(kSubmit, what, index);
    if (slot != nullptr) engine_.abandon(*slot);
    return status;
  }
}

// ---- the other calls ------------------------------------------------------------------------------------------------

simpler_status GraphBuilder::scope_begin(simpler_scope_mode mode) {
  if (!is_open()) return status_;
  try {
    if (mode != SIMPLER_SCOPE_AUTO && mode != SIMPLER_SCOPE_MANUAL)
      return refuse(SIMPLER_INVALID_ARGUMENT, kScopeBegin, "mode is {}; 0 (AUTO) and 1 (MANUAL) exist", mode);
    if (mode == SIMPLER_SCOPE_AUTO && engine_.in_manual_scope())
      return refuse(SIMPLER_INVALID_ARGUMENT, kScopeBegin, "mode AUTO inside a scope of mode MANUAL is not allowed");
    engine_.scope_begin(mode == SIMPLER_SCOPE_MANUAL ? graph::ScopeMode::kManual : graph::ScopeMode::kAuto);
    return SIMPLER_OK;
  } catch (...) {
    return fail_by_exception(kScopeBegin, nullptr, 0);
  }
}

simpler_status GraphBuilder::scope_end() {
  if (!is_open()) return status_;
  try {
    // The outermost scope is the run's own.
    if (engine_.scope_depth() <= 1)
      return refuse(SIMPLER_INVALID_ARGUMENT, kScopeEnd, "no scope is open: each end needs a begin");
    engine_.scope_end();
    return SIMPLER_OK;
  } catch (...) {
    return fail_by_exception(kScopeEnd, nullptr, 0);
  }
}

simpler_status GraphBuilder::allocate(const char *function, simpler_tensor *tensor) {
  if (!is_open()) return status_;
  try {
    if (tensor == nullptr) return refuse(SIMPLER_INVALID_ARGUMENT, function, "tensor is NULL");
    uint64_t bytes = 0;
    if (!is_sound_output(*tensor, &bytes))
      return refuse(SIMPLER_INVALID_ARGUMENT, function, "tensor: {}", explain_output(*tensor));
    if (bytes == 0) return SIMPLER_OK;  // an empty view needs no memory
    graph::TaskId owner = 0;
    const graph::HeapBlock block = engine_.allocate(bytes, &owner);
    if (block.data == nullptr) return refuse(SIMPLER_CANCELLED, function, "the run was cancelled");
    tensor->data = tensor->allocation = block.data;
    tensor->allocation_bytes = bytes;
    tensor->owner = owner;
    return SIMPLER_OK;
  } catch (...) {
    return fail_by_exception(function, nullptr, 0);
  }
}

simpler_status GraphBuilder::alloc_filled(simpler_tensor *tensor, uint64_t word) {
  if (allocate(kAllocFilled, tensor) != SIMPLER_OK) return status_;
  if (tensor->allocation_bytes == 0 || word == 0) return SIMPLER_OK;
  const uint64_t elements = simpler_tensor_elements(tensor);
  const uint32_t bits = simpler_dtype_bits(tensor->dtype);
  auto *bytes = static_cast<std::byte *>(tensor->data);
  for (uint64_t i = 0; i < elements; i++) store_element({bytes + i * bits / 8, i * bits % 8 != 0}, tensor->dtype, word);
  return SIMPLER_OK;
}

// ---- scalars of tensors ---------------------------------------------------------------------------------------------

simpler_status GraphBuilder::await_element(const char *function, const simpler_tensor *tensor, const uint64_t *index,
                                           bool writes, ElementPlace &place) {
  if (tensor == nullptr) return refuse(SIMPLER_INVALID_ARGUMENT, function, "tensor is NULL");
  if (index == nullptr) return refuse(SIMPLER_INVALID_ARGUMENT, function, "index is NULL");
  const simpler_tag tag = writes ? SIMPLER_TAG_INOUT : SIMPLER_TAG_INPUT;
  if (!is_sound_view(*tensor, tag))
    return refuse(SIMPLER_INVALID_ARGUMENT, function, "tensor: {}", explain_view(*tensor, tag));
  if (!locate_element(*tensor, index, place))
    return refuse(SIMPLER_INVALID_ARGUMENT, function, "{}", explain_index(*tensor, index));
  if (engine_.await(element_view(*tensor, place), writes)) return SIMPLER_OK;
  if (!is_open()) return status_;
  return refuse(SIMPLER_CANCELLED, function, "the run was cancelled");
}

simpler_status GraphBuilder::read_scalar(const simpler_tensor *tensor, const uint64_t *index, uint64_t *word) {
  if (word != nullptr) *word = 0;
  if (!is_open()) return status_;
  try {
    if (word == nullptr) return refuse(SIMPLER_INVALID_ARGUMENT, kReadScalar, "word is NULL");
    ElementPlace place;
    if (await_element(kReadScalar, tensor, index, false, place) != SIMPLER_OK) return status_;
    *word = load_element(place, tensor->dtype);
    return SIMPLER_OK;
  } catch (...) {
    return fail_by_exception(kReadScalar, nullptr, 0);
  }
}

simpler_status GraphBuilder::write_scalar(const simpler_tensor *tensor, const uint64_t *index, uint64_t word) {
  if (!is_open()) return status_;
  try {
    ElementPlace place;
    if (await_element(kWriteScalar, tensor, index, true, place) != SIMPLER_OK) return status_;
    store_element(place, tensor->dtype, word);
    return SIMPLER_OK;
  } catch (...) {
    return fail_by_exception(kWriteScalar, nullptr, 0);
  }
}

}  // namespace simpler::chip
