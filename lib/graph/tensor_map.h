// Region of memory -> its last writer and the readers since: where dependencies come from.
//
// Owned by the submitter; no other thread touches it. Tasks are named by id only; whether one is still in its slot is asked
// through `Liveness`, so a stale id can do no harm, and the answer does not depend on how fast tasks run.
//
// One entry per distinct region. What a write has overwritten it takes out of the entries there (whole entries, or by splitting
// them), so that a byte is known by its last writer and the readers since, and no task waits for what another one that it waits
// for has waited for already.
//
// Entries are found by size class: a region of up to 2^k bytes stands in the hash bucket (k, begin >> k), so a query looks,
// for each class in use, at the few buckets that its hull touches. A query that is large for a class skips the stretches in
// which counters say that the class has nothing, or walks the class when that is short. Readers are kept in small arrays; those
// that have left their slots are thrown out whenever their number has doubled, so a reader costs O(1). Entries whose tasks have
// all left their slots are swept by a hand that moves with the insertions, which keeps the map proportional to the slots of the
// rings in endless streams.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "graph/region.h"
#include "graph/task_slot.h"

namespace simpler::graph {

class TensorMap {
 public:
  // Answers whether a task is still in its slot. A plain function pointer: called often.
  struct Liveness {
    bool (*is_current)(const void *context, TaskId id);
    const void *context;
  };
  explicit TensorMap(Liveness liveness);

  // `task` reads the region: depend(id) is called for each task it must wait for; it becomes a reader.
  template <class Depend>
  void read(const Region &region, TaskId task, Depend depend);
  // `task` writes the region: waits for writers and readers; becomes the writer.
  template <class Depend>
  void write(const Region &region, TaskId task, Depend depend);
  // Calls depend(id) for each task that writes the region, and for those that read it if `readers`; changes nothing.
  template <class Depend>
  void visit(const Region &region, bool readers, Depend depend);
  // `task` owns fresh memory: nothing to wait for; what stood here belonged to memory that has been reclaimed.
  void write_fresh(const Region &region, TaskId task);
  // In a manual scope: `task` is remembered as reader or writer beside what is there, and waits for nothing.
  void note(const Region &region, TaskId task, bool writes);

  void clear();
  uint64_t entries() const { return count_; }
  uint64_t entries_peak() const { return peak_; }

 private:
  struct alignas(64) TaskChunk {  // a piece of a list of tasks, newest chunk first
    TaskChunk *next;
    uint32_t count;
    TaskId ids[6];
  };
  struct TaskList {
    TaskChunk *newest = nullptr;
    uint32_t count = 0;
    uint32_t prune_at = kPruneMin;
  };
  // What only some entries have.
  struct Extra {
    TaskList readers;        // beyond first_readers
    TaskList noted_writers;  // of manual scopes, beside `writer`
    Region shape;            // the full region when it is not dense
  };
  // Entries refer to each other by their index, 0 is none: a cache line each, in one array that a sweep runs through.
  using Index = uint32_t;
  struct alignas(64) Entry {
    uint64_t begin;
    uint64_t end;   // 0: not in use
    TaskId writer;  // 0: none known
    TaskId first_readers[2];
    Extra *extra;  // mostly null; set if not dense
    bool is_dense;
    Index next_in_bucket;  // or in the list of entries that are not in use
    Index next_in_class;
    Index previous_in_class;
  };
  static_assert(sizeof(Entry) == 64);

  static constexpr unsigned kClassMin = 6;  // regions up to 64 bytes share a class
  static constexpr unsigned kClasses = 64;
  static constexpr uint32_t kPruneMin = 18;
  // Stretches of 2^kStretchBits blocks that a counter stands for, and counters per class: stretches further apart share one.
  static constexpr unsigned kStretchBits = 8;
  static constexpr uint64_t kStretches = 1024;
  // From so many blocks on a query asks the counters.
  static constexpr uint64_t kManyBlocks = 16;

  struct SizeClass {
    Index first = 0;
    uint64_t count = 0;
    uint64_t straddlers = 0;  // entries that reach into the block after the one they begin in
    std::unique_ptr<std::array<uint32_t, kStretches>> stretches;
  };

  static unsigned class_of(uint64_t bytes) {
    return bytes <= (uint64_t{1} << kClassMin) ? kClassMin : static_cast<unsigned>(std::bit_width(bytes - 1));
  }
  static unsigned class_of(const Entry &entry) { return class_of(entry.end - entry.begin); }
  size_t bucket_of(unsigned size_class, uint64_t block) const {
    return static_cast<size_t>(((block * 0x9E3779B97F4A7C15u) ^ (uint64_t{size_class} * 0xC2B2AE3D27D4EB4Fu)) >> shift_);
  }
  static bool conflicts(const Entry &entry, const Region &region) {
    if (entry.begin >= region.end || region.begin >= entry.end) return false;
    return (entry.is_dense && region.dense) || exact_conflict(entry, region);
  }
  static bool is_equal(const Entry &entry, const Region &region) {
    if (entry.begin != region.begin || entry.end != region.end) return false;
    return entry.is_dense ? region.dense : !region.dense && equal(entry.extra->shape, region);
  }
  static bool exact_conflict(const Entry &entry, const Region &region);
  static bool is_covered(const Entry &entry, const Region &region);

  // Calls visit(index) for each entry that conflicts with the region; visit may remove that entry, and add none.
  template <class Visit>
  void for_each_conflict(const Region &region, Visit visit);
  template <class Visit>
  void visit_block(unsigned size_class, uint64_t block, const Region &region, Visit &visit);
  template <class Depend>
  static void for_each_task(const TaskList &list, Depend &depend);
  template <class Depend>
  static void wait_for_writers(const Entry &entry, Depend &depend);
  template <class Depend>
  static void wait_for_readers(const Entry &entry, Depend &depend);

  Index insert(const Region &region);
  Index insert_unswept(const Region &region);
  void remove(Index index);
  // `region` has been written anew: takes its bytes out of an entry that it covers in part, where that can be told exactly.
  void take_out(Index index, const Region &region);
  Index new_entry();
  Extra *new_extra();
  void count_stretch(unsigned size_class, uint64_t block, uint32_t change);

  void add_reader(Entry &entry, TaskId task);
  void add_noted_writer(Entry &entry, TaskId task);
  void drop_accesses(Entry &entry) {
    entry.first_readers[0] = entry.first_readers[1] = 0;
    if (entry.extra == nullptr) return;
    drop(entry.extra->readers);
    drop(entry.extra->noted_writers);
  }
  void add(TaskList &list, TaskId task);
  void push(TaskList &list, TaskId task);
  void copy(TaskList &to, const TaskList &from);
  void drop(TaskList &list);
  void prune(TaskList &list);

  bool is_current(TaskId id) const { return liveness_.is_current(liveness_.context, id); }
  bool is_any_current(const TaskList &list) const;
  bool is_dead(const Entry &entry) const;
  void sweep();
  void grow_buckets();

  Liveness liveness_;
  std::vector<Entry> entries_;  // [0] stands for none
  Index free_entries_ = 0;
  Index hand_ = 1;  // of the sweep
  std::vector<Index> buckets_;
  unsigned shift_ = 0;
  uint64_t count_ = 0;
  uint64_t peak_ = 0;
  uint64_t classes_used_ = 0;  // bit k: class k has entries
  std::array<SizeClass, kClasses> classes_;
  std::vector<Index> partial_;  // scratch of write: entries that it covers in part

  // Pools: nodes are never given back to the allocator while the map lives.
  std::deque<TaskChunk> chunk_pool_;
  TaskChunk *free_chunks_ = nullptr;
  std::deque<Extra> extra_pool_;
  std::vector<Extra *> free_extras_;
};

template <class Visit>
void TensorMap::visit_block(unsigned size_class, uint64_t block, const Region &region, Visit &visit) {
  for (Index index = buckets_[bucket_of(size_class, block)], next; index != 0; index = next) {
    const Entry &entry = entries_[index];
    next = entry.next_in_bucket;
    // Other blocks and classes may share the bucket: an entry is visited only in the round of its own block.
    if (entry.begin >> size_class == block && class_of(entry) == size_class && conflicts(entry, region)) visit(index);
  }
}

template <class Visit>
void TensorMap::for_each_conflict(const Region &region, Visit visit) {
  for (uint64_t classes = classes_used_; classes != 0; classes &= classes - 1) {
    const unsigned k = static_cast<unsigned>(std::countr_zero(classes));
    const SizeClass &size_class = classes_[k];
    uint64_t block = region.begin >> k;
    const uint64_t last = (region.end - 1) >> k;
    if (size_class.straddlers != 0 && block != 0) block--;
    if (last - block >= kManyBlocks && last - block >= size_class.count) {
      for (Index index = size_class.first, next; index != 0; index = next) {
        next = entries_[index].next_in_class;
        if (conflicts(entries_[index], region)) visit(index);
      }
    } else if (last - block >= kManyBlocks) {
      while (block <= last) {
        const uint64_t stretch = block >> kStretchBits;
        const uint64_t stretch_last = std::min(last, ((stretch + 1) << kStretchBits) - 1);
        if ((*size_class.stretches)[stretch % kStretches] != 0) {
          for (; block <= stretch_last; block++) visit_block(k, block, region, visit);
        }
        block = stretch_last + 1;
      }
    } else {
      for (; block <= last; block++) visit_block(k, block, region, visit);
    }
  }
}

template <class Depend>
void TensorMap::for_each_task(const TaskList &list, Depend &depend) {
  for (const TaskChunk *chunk = list.newest; chunk != nullptr; chunk = chunk->next) {
    for (uint32_t i = 0; i < chunk->count; i++) depend(chunk->ids[i]);
  }
}

template <class Depend>
void TensorMap::wait_for_writers(const Entry &entry, Depend &depend) {
  if (entry.writer != 0) depend(entry.writer);
  if (entry.extra != nullptr) for_each_task(entry.extra->noted_writers, depend);
}

template <class Depend>
void TensorMap::wait_for_readers(const Entry &entry, Depend &depend) {
  for (const TaskId reader : entry.first_readers) {
    if (reader != 0) depend(reader);
  }
  if (entry.extra != nullptr) for_each_task(entry.extra->readers, depend);
}

template <class Depend>
void TensorMap::visit(const Region &region, bool readers, Depend depend) {
  for_each_conflict(region, [&](Index index) {
    wait_for_writers(entries_[index], depend);
    if (readers) wait_for_readers(entries_[index], depend);
  });
}

template <class Depend>
void TensorMap::read(const Region &region, TaskId task, Depend depend) {
  Index same = 0;
  for_each_conflict(region, [&](Index index) {
    const Entry &entry = entries_[index];
    wait_for_writers(entry, depend);
    if (is_equal(entry, region)) same = index;
  });
  if (same == 0) same = insert(region);
  add_reader(entries_[same], task);
}

template <class Depend>
void TensorMap::write(const Region &region, TaskId task, Depend depend) {
  Index same = 0;
  for_each_conflict(region, [&](Index index) {
    const Entry &entry = entries_[index];
    wait_for_writers(entry, depend);
    wait_for_readers(entry, depend);
    if (same == 0 && is_equal(entry, region))
      same = index;
    else if (is_covered(entry, region))
      remove(index);  // whoever conflicts with it conflicts with this write, which comes after it
    else
      partial_.push_back(index);
  });
  if (!partial_.empty()) {
    for (const Index index : partial_) take_out(index, region);
    partial_.clear();
  }
  if (same == 0)
    same = insert(region);
  else
    drop_accesses(entries_[same]);
  entries_[same].writer = task;
}

}  // namespace simpler::graph
