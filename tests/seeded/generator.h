// Random programs, with what a sequential execution of them gives. A seed and a kind make the same program each time.
//
// The oracle knows of every byte its last writer and the readers since, and so of every task whom it must wait for.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "../callables/program.h"

namespace program {

// Of the last two every relation between regions is known exactly, hence the number of dependencies. Manual scopes are in the
// first only: what is written in one does not replace what was known before it.
enum class Kind : uint32_t {
  kAll,
  kIntervals,
  kTiles
};
inline constexpr uint32_t kKinds = 3;

struct Memory {
  uint64_t number;
  std::shared_ptr<std::vector<uint8_t>> bytes;  // as the sequential execution has them
  uint64_t first_record;                        // in the record of accesses

  simpler_tensor tensor() const {
    const uint64_t size = bytes->size();
    simpler_tensor t = simpler_tensor_make(SIMPLER_DTYPE_UINT8, 1, &size);
    t.data = t.allocation = bytes->data();
    t.allocation_bytes = size;
    return t;
  }
};

struct Task {
  uint64_t number = 0;
  uint64_t shape = 0;
  uint64_t parts = 0;
  bool fails = false;
  simpler_predicate predicate = {};
  simpler_tensor predicate_element = {};
  std::vector<Use> uses;
  std::set<const Task *> producers;       // that it must wait for
  std::set<const Task *> near_producers;  // that it may wait for: their hulls meet
};

// What one operation of the program does to the memory of the oracle.
struct Step {
  Operation operation = kTask;
  Task *task = nullptr;
  simpler_tensor element = {};  // kRead, kWrite
};

class Program {
 public:
  Program(uint64_t seed, Kind kind) : kind_(kind), random_(seed * kKinds + static_cast<uint32_t>(kind)) {
    for (int arena = 0; arena < 2; arena++) {
      memories_.push_back(make_memory(kArenaBytes));
      for (uint64_t i = 0; i < kArenaBytes; i++) (*memories_.back().bytes)[i] = static_cast<uint8_t>(i * 3 + seed + 1);
    }
    window = kind == Kind::kAll ? uint32_t{4} << below(5) : 256;
    heap_bytes = uint64_t{4096} << below(3);
    has_failures = below(3) == 0;
    scopes_.push_back({false, {}});
    words_.push_back(0);
    for (uint64_t count = 5 + below(60); count > 0; count--) generate_step();
    while (scopes_.size() > 1) end_scope();
    words_[0] = steps_.size();
  }

  const std::vector<uint64_t> &words() const { return words_; }
  const std::vector<uint8_t> &arena(size_t number) const { return *memories_[number].bytes; }
  const std::vector<Step> &steps() const { return steps_; }

  uint32_t window;
  uint64_t heap_bytes;
  bool has_failures;
  // No memory is made beside the arenas: no scope can hold what its own tasks need.
  bool uses_no_memory() const { return memories_.size() == 2; }

 private:
  struct OpenScope {
    bool is_manual;
    std::vector<Memory> memories;
  };
  struct Byte {
    const Task *writer = nullptr;
    std::vector<const Task *> readers;
  };

  uint64_t below(uint64_t n) { return random_() % n; }
  template <class... Words>
  void emit(Words... words) {
    (words_.push_back(static_cast<uint64_t>(words)), ...);
  }

  Memory make_memory(uint64_t bytes) {
    Memory memory{memories_.size(), std::make_shared<std::vector<uint8_t>>(bytes), record_.size()};
    record_.resize(record_.size() + bytes);
    return memory;
  }
  void add_memory(uint64_t bytes, uint64_t fill) {
    memories_.push_back(make_memory(bytes));
    if (fill != kNoFill) std::ranges::fill(*memories_.back().bytes, static_cast<uint8_t>(fill));
    scopes_.back().memories.push_back(memories_.back());
  }
  // Mostly keeps the scope from blocking its own rings; other tasks may still do so, which then is a deadlock with a cause.
  bool has_room_for_memory() const {
    const uint64_t count = scopes_.back().memories.size() + 1;
    return count + 1 < window / 2 && count * 128 <= heap_bytes;
  }

  void generate_step() {
    const uint64_t action = below(16);
    if (action == 0 && scopes_.size() < 5) {
      const bool is_manual = scopes_.back().is_manual || (kind_ == Kind::kAll && below(3) == 0);
      emit(kScopeBegin, is_manual ? SIMPLER_SCOPE_MANUAL : SIMPLER_SCOPE_AUTO);
      scopes_.push_back({is_manual, {}});
      steps_.push_back({kScopeBegin});
    } else if (action == 1 && scopes_.size() > 1) {
      end_scope();
    } else if (action == 2 && has_room_for_memory()) {
      const uint64_t bytes = 1 + below(64);
      const uint64_t fill = below(2) == 0 ? kNoFill : below(256);
      emit(kAlloc, bytes, fill);
      add_memory(bytes, fill);
      steps_.push_back({kAlloc});
    } else if (action == 3) {
      generate_scalar();
    } else if (tasks_.size() < kTasksMax) {
      generate_task();
    }
  }
  void end_scope() {
    emit(kScopeEnd);
    scopes_.pop_back();
    steps_.push_back({kScopeEnd});
  }

  const Memory &random_memory() {
    const OpenScope &scope = scopes_[below(scopes_.size())];
    if (below(2) == 0 && !scope.memories.empty()) return scope.memories[below(scope.memories.size())];
    return memories_[below(2)];
  }
  // An element of some integer dtype that lies inside: memory, offset, dtype.
  struct Element {
    Memory memory;
    uint64_t offset;
    uint64_t dtype;
    simpler_tensor view() const { return element_of(memory.tensor(), offset, dtype); }
  };
  Element random_element() {
    static const simpler_dtype dtypes[] = {SIMPLER_DTYPE_UINT8, SIMPLER_DTYPE_INT16, SIMPLER_DTYPE_UINT32,
                                           SIMPLER_DTYPE_INT64};
    const Memory memory = random_memory();
    simpler_dtype dtype = dtypes[below(4)];
    uint64_t bytes = simpler_dtype_bits(dtype) / 8;
    if (bytes > memory.bytes->size()) dtype = SIMPLER_DTYPE_UINT8, bytes = 1;
    return {memory, below(memory.bytes->size() / bytes) * bytes, dtype};
  }
  void generate_scalar() {
    const Element element = random_element();
    const Operation operation = below(2) == 0 ? kRead : kWrite;
    emit(operation, element.memory.number, element.offset, element.dtype);
    steps_.push_back({operation, nullptr, element.view()});
  }

  // Nine words of a view, and the view of the oracle.
  Use random_use(uint64_t (&words)[kViewWords], Memory &memory) {
    static const simpler_tag tags[] = {SIMPLER_TAG_INPUT, SIMPLER_TAG_INPUT,           SIMPLER_TAG_INPUT, SIMPLER_TAG_INOUT,
                                       SIMPLER_TAG_INOUT, SIMPLER_TAG_OUTPUT_EXISTING, SIMPLER_TAG_NO_DEP};
    static const simpler_dtype dtypes[] = {SIMPLER_DTYPE_UINT8, SIMPLER_DTYPE_INT16, SIMPLER_DTYPE_FLOAT32};
    const simpler_tag tag = tags[below(7)];
    memory = random_memory();
    const uint64_t size = memory.bytes->size();
    uint64_t dtype = dtypes[below(3)];
    uint64_t bytes = simpler_dtype_bits(static_cast<simpler_dtype>(dtype)) / 8;
    uint64_t offset = 0;
    uint64_t rank = 1;
    uint64_t shape[2] = {};
    uint64_t strides[2] = {1, 1};
    if (size != kArenaBytes || kind_ == Kind::kIntervals || (kind_ == Kind::kAll && below(3) == 0)) {
      if (size < bytes) dtype = SIMPLER_DTYPE_UINT8, bytes = 1;
      offset = below(size / bytes) * bytes;
      shape[0] = below(std::min<uint64_t>(48, size - offset) / bytes + 1);
    } else {  // a tile of a matrix, maybe with steps between rows, maybe transposed
      const bool is_tile = kind_ == Kind::kTiles;
      const uint64_t row = is_tile || below(2) == 0 ? 32 : 64;
      const uint64_t step = is_tile ? 1 : 1 + below(2);
      const uint64_t columns = below(5) == 0 ? row / bytes : 1 + below(row / bytes);
      // A piece of one row is an interval; cut out of whole rows it leaves intervals that are no blocks of rows.
      const uint64_t rows = (is_tile && columns != row / bytes ? 2 : 1) + below(3);
      rank = 2;
      shape[0] = rows;
      shape[1] = columns;
      strides[0] = row / bytes * step;
      offset = below(kArenaBytes / row - rows * step + 1) * row + below(row / bytes - columns + 1) * bytes;
      if (below(4) == 0) {
        std::swap(shape[0], shape[1]);
        std::swap(strides[0], strides[1]);
      }
    }
    const uint64_t view[kViewWords] = {memory.number, tag, dtype, offset, rank, shape[0], shape[1], strides[0], strides[1]};
    std::ranges::copy(view, words);
    return {view_of(memory.tensor(), view), tag};
  }

  void generate_task() {
    Task &task = tasks_.emplace_back();
    task.number = tasks_.size();
    task.fails = has_failures && below(20) == 0;
    std::vector<uint64_t> views;
    std::vector<Memory> used;
    for (uint64_t i = below(4); i > 0; i--) {
      uint64_t words[kViewWords];
      Memory memory;
      task.uses.push_back(random_use(words, memory));
      views.insert(views.end(), words, words + kViewWords);
      used.push_back(memory);
    }
    choose_shape(task);
    const bool has_output = below(3) == 0 && has_room_for_memory();
    const uint64_t blocks = task.shape == 0 ? 1 : task.parts / static_cast<uint64_t>(__builtin_popcountll(task.shape));
    emit(kTask, task.number, task.shape, blocks,
         task.shape != 0 && blocks <= 24 && below(25) == 0 ? SIMPLER_TASK_SYNC_START : 0, task.fails);

    for (size_t i = 0; i < task.uses.size(); i++) {
      if (task.uses[i].tag != SIMPLER_TAG_NO_DEP) record(task, task.uses[i].view, writes(task.uses[i].tag), used[i]);
    }
    uint64_t predicate[5] = {};
    if (!has_failures && below(6) == 0) generate_predicate(task, predicate);
    for (const Task &other : tasks_)
      if (&other != &task && hulls_meet(other, task)) task.near_producers.insert(&other);
    std::set<uint64_t> after;
    if (scopes_.back().is_manual)
      for (const Task *producer : task.producers) after.insert(producer->number);
    if (tasks_.size() > 1 && below(5) == 0) {
      const Task &producer = tasks_[below(tasks_.size() - 1)];
      task.producers.insert(&producer);
      task.near_producers.insert(&producer);
      after.insert(producer.number);
    }
    emit(after.size());
    words_.insert(words_.end(), after.begin(), after.end());
    words_.insert(words_.end(), predicate, predicate + (predicate[0] != 0 ? 5 : 1));
    emit(task.uses.size() + (has_output ? 1 : 0));
    words_.insert(words_.end(), views.begin(), views.end());
    if (has_output) {
      const uint64_t bytes = 16 + below(48);
      emit(kNewMemory, SIMPLER_TAG_OUTPUT, SIMPLER_DTYPE_UINT8, 0, 1, bytes, 0, 1, 1);
      add_memory(bytes, kNoFill);
      task.uses.push_back({memories_.back().tensor(), SIMPLER_TAG_OUTPUT});
      record(task, task.uses.back().view, true, memories_.back());
    }
    steps_.push_back({kTask, &task});
  }

  // Several parts run at once: only where none reads or writes what another one writes.
  void choose_shape(Task &task) {
    static const uint64_t shapes[] = {1, 2, 2, 2, 4, 3, 5, 6, 7};
    task.shape = shapes[below(9)];
    uint64_t blocks = below(6) == 0 ? 1 + below(60) : 1;
    if (task.shape == 4) task.shape = 2;  // a single vector kernel is aiv0
    const bool is_alone = !are_disjoint(task.uses);
    if (is_alone || task.fails) task.shape = 1 + below(2), blocks = 1;
    // Without a trace in the log it could not be told from a task that was skipped.
    const bool writes_something = std::ranges::any_of(task.uses, [](const Use &use) { return writes(use.tag); });
    if (!has_failures && !writes_something && below(4) == 0) task.shape = 0, blocks = 1;
    task.parts = blocks * static_cast<uint64_t>(__builtin_popcountll(task.shape));
  }
  static bool are_disjoint(const std::vector<Use> &uses) {
    for (size_t i = 0; i < uses.size(); i++) {
      std::set<const uint8_t *> bytes;
      for_each_byte(uses[i].view, [&](const uint8_t *byte, uint64_t) { bytes.insert(byte); });
      for (size_t k = 0; k < uses.size(); k++) {
        if (k == i || uses[i].tag == SIMPLER_TAG_NO_DEP || uses[k].tag == SIMPLER_TAG_NO_DEP) continue;
        if (!writes(uses[i].tag) && !writes(uses[k].tag)) continue;
        bool meets = false;
        for_each_byte(uses[k].view, [&](const uint8_t *byte, uint64_t) { meets = meets || bytes.contains(byte); });
        if (meets) return false;
      }
    }
    return true;
  }

  void generate_predicate(Task &task, uint64_t (&words)[5]) {
    const Element element = random_element();
    task.predicate_element = element.view();
    task.predicate.compare = static_cast<simpler_compare>(1 + below(6));
    // Half the time about as large as what is there.
    task.predicate.constant = below(2) == 0 ? below(4) : static_cast<const uint8_t *>(task.predicate_element.data)[0];
    const uint64_t chosen[5] = {task.predicate.compare, element.memory.number, element.offset, element.dtype,
                                task.predicate.constant};
    std::ranges::copy(chosen, words);
    record(task, task.predicate_element, false, element.memory);
  }

  void record(Task &task, const simpler_tensor &view, bool is_write, const Memory &memory) {
    for_each_byte(view, [&](const uint8_t *at, uint64_t) {
      Byte &byte = record_[memory.first_record + static_cast<uint64_t>(at - memory.bytes->data())];
      if (byte.writer != nullptr) task.producers.insert(byte.writer);
      if (is_write) {
        task.producers.insert(byte.readers.begin(), byte.readers.end());
        byte.readers.clear();
        byte.writer = &task;
      } else if (byte.readers.empty() || byte.readers.back() != &task) {
        byte.readers.push_back(&task);
      }
    });
    task.producers.erase(&task);
  }

  static bool hulls_meet(const Task &a, const Task &b) {
    const auto hull = [](const simpler_tensor &t) {
      const uint8_t *begin = nullptr, *end = nullptr;
      for_each_byte(t, [&](const uint8_t *byte, uint64_t) {
        if (begin == nullptr || byte < begin) begin = byte;
        if (byte >= end) end = byte + 1;
      });
      return std::pair(begin, end);
    };
    for (const Use &x : a.uses) {
      for (const Use &y : b.uses) {
        if ((!writes(x.tag) && !writes(y.tag)) || x.tag == SIMPLER_TAG_NO_DEP || y.tag == SIMPLER_TAG_NO_DEP) continue;
        const auto [x_begin, x_end] = hull(x.view);
        const auto [y_begin, y_end] = hull(y.view);
        if (x_begin < y_end && y_begin < x_end) return true;
      }
    }
    return false;
  }

  Kind kind_;
  std::mt19937_64 random_;
  std::vector<uint64_t> words_;
  std::vector<Memory> memories_;  // by number; they live as long as the program
  std::vector<OpenScope> scopes_;
  std::vector<Byte> record_;
  std::deque<Task> tasks_;
  std::vector<Step> steps_;
};

}  // namespace program
