#include "host/handle_table.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <pthread.h>
#include <vector>

namespace simpler::host {

namespace {

// A handle: 1 bit always set (so that no valid address of an aligned object looks like one), 3 bits kind, 24 bits slot, 36 bits
// generation. A slot's generation grows with each use.
constexpr unsigned kKindShift = 1;
constexpr unsigned kSlotShift = 4;
constexpr unsigned kGenerationShift = 28;
constexpr uint64_t kSlotMask = (uint64_t{1} << 24) - 1;

struct Slot {
  std::shared_ptr<void> object;
  uint64_t generation = 0;
  HandleKind kind = HandleKind::kError;
};

struct Table {
  // Guards the slots. Nothing else is locked under it, and objects are destroyed outside of it.
  std::mutex mutex;
  std::deque<Slot> slots;
  std::vector<uint64_t> free_slots;
};

// Set by the child after fork(): its copy of the table may be locked by a thread that does not exist there, so it is not
// touched again. Read before every use.
std::atomic<bool> forked{false};

Table &table() {
  // Leaked on purpose: threads of the host may still use handles while the process runs its exit handlers.
  static Table *instance = [] {
    pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
    return new Table();
  }();
  return *instance;
}

struct Parts {
  uint64_t value;
  bool is_handle() const { return (value & 1) != 0; }
  uint64_t kind() const { return (value >> kKindShift) & 7; }
  uint64_t slot() const { return (value >> kSlotShift) & kSlotMask; }
  uint64_t generation() const { return value >> kGenerationShift; }
};

Parts parts_of(const void *handle) { return {reinterpret_cast<uint64_t>(handle)}; }

Slot *live_slot(Table &t, HandleKind kind, Parts parts) {
  if (!parts.is_handle() || parts.slot() >= t.slots.size()) return nullptr;
  Slot &slot = t.slots[parts.slot()];
  const bool live = slot.object != nullptr && slot.kind == kind && parts.kind() == static_cast<uint64_t>(kind) &&
                    slot.generation == parts.generation();
  return live ? &slot : nullptr;
}

[[noreturn]] void throw_dead(Table &t, HandleKind kind, Parts parts, const char *argument) {
  const bool once_was = parts.is_handle() && parts.kind() == static_cast<uint64_t>(kind) && parts.slot() < t.slots.size() &&
                        parts.generation() != 0 && parts.generation() <= t.slots[parts.slot()].generation;
  if (once_was && kind == HandleKind::kWorker) throw_error(SIMPLER_CLOSED, "{}: the worker is closed", argument);
  if (once_was)
    throw_error(SIMPLER_INVALID_HANDLE, "{}: this {} has been released already", argument, handle_kind_name(kind));
  throw_error(SIMPLER_INVALID_HANDLE, "{}: {:#x} is not a {} of this library", argument, parts.value,
              handle_kind_name(kind));
}

}  // namespace

const char *handle_kind_name(HandleKind kind) {
  switch (kind) {
    case HandleKind::kWorker:
      return "worker";
    case HandleKind::kCallable:
      return "callable";
    case HandleKind::kBuffer:
      return "buffer";
    case HandleKind::kRun:
      return "run";
    case HandleKind::kError:
      return "error";
  }
  return "handle";
}

bool in_forked_child() noexcept { return forked.load(std::memory_order_relaxed); }

void check_process() {
  if (in_forked_child())
    throw_error(
        SIMPLER_WRONG_PROCESS,
        "libsimpler was used by the parent before fork(); it cannot be used in the child: create workers after fork(), or "
        "start the child with exec");
}

void *add_handle(HandleKind kind, std::shared_ptr<void> object) {
  check_process();
  Table &t = table();
  const std::lock_guard lock(t.mutex);
  uint64_t index = 0;
  if (!t.free_slots.empty()) {
    index = t.free_slots.back();
    t.free_slots.pop_back();
  } else {
    index = t.slots.size();
    if (index > kSlotMask) throw_error(SIMPLER_OUT_OF_MEMORY, "{} handles are live; release some", index);
    t.slots.emplace_back();
    t.free_slots.reserve(t.slots.size());  // so that ending a handle never allocates
  }
  Slot &slot = t.slots[index];
  slot.object = std::move(object);
  slot.kind = kind;
  slot.generation++;
  const uint64_t value =
      1 | (static_cast<uint64_t>(kind) << kKindShift) | (index << kSlotShift) | (slot.generation << kGenerationShift);
  return reinterpret_cast<void *>(value);
}

std::shared_ptr<void> find_handle(HandleKind kind, const void *handle, const char *argument) {
  check_process();
  if (handle == nullptr) throw_error(SIMPLER_INVALID_ARGUMENT, "{} is NULL", argument);
  Table &t = table();
  const std::lock_guard lock(t.mutex);
  Slot *slot = live_slot(t, kind, parts_of(handle));
  if (slot == nullptr) throw_dead(t, kind, parts_of(handle), argument);
  return slot->object;
}

std::shared_ptr<void> peek_handle(HandleKind kind, const void *handle) noexcept {
  if (in_forked_child() || handle == nullptr) return nullptr;
  Table &t = table();
  const std::lock_guard lock(t.mutex);
  const Slot *slot = live_slot(t, kind, parts_of(handle));
  return slot != nullptr ? slot->object : nullptr;
}

std::shared_ptr<void> remove_handle(HandleKind kind, const void *handle, const char *argument) {
  check_process();
  if (handle == nullptr) throw_error(SIMPLER_INVALID_ARGUMENT, "{} is NULL", argument);
  Table &t = table();
  const std::lock_guard lock(t.mutex);
  Slot *slot = live_slot(t, kind, parts_of(handle));
  if (slot == nullptr) throw_dead(t, kind, parts_of(handle), argument);
  std::shared_ptr<void> object = std::move(slot->object);
  slot->object = nullptr;
  t.free_slots.push_back(parts_of(handle).slot());
  return object;
}

}  // namespace simpler::host
