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
// for each class in use, at the few buckets that its hull touches, or walks the class when that is shorter. Readers are kept
// in small arrays; those that have left their slots are thrown out whenever their number has doubled, so a reader costs O(1).
// Entries whose tasks have all left their slots are swept by a hand that moves with the insertions, which keeps the map
// proportional to the slots of the rings in endless streams.
#pragma once

#include <bit>
#include <cstdint>
#include <deque>
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
  struct alignas(64) Entry {
    // What queries look at.
    Entry *next_in_bucket;
    uint64_t begin;
    uint64_t end;
    Region *shape;  // the full region when it is not dense; otherwise null
    TaskId writer;  // 0: none known
    TaskId first_readers[2];
    TaskChunk *more_readers;
    // What insertions and removals look at.
    Entry *next_in_class;
    Entry *previous_in_class;
    TaskChunk *noted_writers;  // of manual scopes, beside `writer`
    uint32_t more_count;       // readers in more_readers
    uint32_t prune_at;
    uint32_t noted_prune_at;
    uint32_t noted_count;
  };
  static_assert(sizeof(Entry) == 128);

  static constexpr unsigned kClassMin = 6;  // regions up to 64 bytes share a class
  static constexpr unsigned kClasses = 64;
  static constexpr uint32_t kPruneMin = 18;

  static unsigned class_of(uint64_t bytes) {
    return bytes <= (uint64_t{1} << kClassMin) ? kClassMin : static_cast<unsigned>(std::bit_width(bytes - 1));
  }
  static unsigned class_of(const Entry &entry) { return class_of(entry.end - entry.begin); }
  size_t bucket_of(unsigned size_class, uint64_t block) const {
    return static_cast<size_t>(((block * 0x9E3779B97F4A7C15u) ^ (uint64_t{size_class} * 0xC2B2AE3D27D4EB4Fu)) >> shift_);
  }
  static bool conflicts(const Entry &entry, const Region &region) {
    if (entry.begin >= region.end || region.begin >= entry.end) return false;
    return (entry.shape == nullptr && region.dense) || exact_conflict(entry, region);
  }
  static bool is_equal(const Entry &entry, const Region &region) {
    if (entry.begin != region.begin || entry.end != region.end) return false;
    return entry.shape == nullptr ? region.dense : !region.dense && equal(*entry.shape, region);
  }
  static bool exact_conflict(const Entry &entry, const Region &region);
  static bool is_covered(const Entry &entry, const Region &region);

  // Calls visit(entry) for each entry that conflicts with the region; visit may remove that entry, and add none.
  template <class Visit>
  void for_each_conflict(const Region &region, Visit visit);
  template <class Depend>
  static void wait_for_writers(const Entry &entry, Depend depend);
  template <class Depend>
  static void wait_for_readers(const Entry &entry, Depend depend);

  Entry *insert(const Region &region);
  Entry *insert_unswept(const Region &region);
  void remove(Entry *entry);
  // `region` has been written anew: takes its bytes out of an entry that it covers in part, where that can be told exactly.
  void take_out(Entry *entry, const Region &region);

  void add_reader(Entry *entry, TaskId task);
  void add_noted_writer(Entry *entry, TaskId task);
  void drop_accesses(Entry *entry);
  void push(TaskChunk *&list, TaskId task);
  TaskChunk *copy_of(const TaskChunk *list);
  void drop(TaskChunk *&list);
  uint32_t prune(TaskChunk *&list);  // returns how many stay

  bool is_current(TaskId id) const { return liveness_.is_current(liveness_.context, id); }
  bool is_any_current(const TaskChunk *list) const;
  bool is_dead(const Entry &entry) const;
  void sweep();
  void grow();

  Liveness liveness_;
  std::vector<Entry *> buckets_;
  unsigned shift_ = 0;
  size_t hand_ = 0;
  uint64_t count_ = 0;
  uint64_t peak_ = 0;
  uint64_t classes_used_ = 0;  // bit k: class k has entries
  Entry *class_first_[kClasses] = {};
  uint64_t class_count_[kClasses] = {};
  uint64_t class_straddlers_[kClasses] = {};  // entries that reach into the block after the one they begin in
  std::vector<Entry *> partial_;              // scratch of write: entries that it covers in part

  // Pools: nodes are never given back to the allocator while the map lives.
  std::deque<Entry> entry_pool_;
  Entry *free_entries_ = nullptr;
  std::deque<TaskChunk> chunk_pool_;
  TaskChunk *free_chunks_ = nullptr;
  std::deque<Region> shape_pool_;
  std::vector<Region *> free_shapes_;
};

template <class Visit>
void TensorMap::for_each_conflict(const Region &region, Visit visit) {
  for (uint64_t classes = classes_used_; classes != 0; classes &= classes - 1) {
    const unsigned k = static_cast<unsigned>(std::countr_zero(classes));
    uint64_t first = region.begin >> k;
    const uint64_t last = (region.end - 1) >> k;
    if (class_straddlers_[k] != 0 && first != 0) first--;
    if (last - first >= class_count_[k]) {
      for (Entry *entry = class_first_[k], *next; entry != nullptr; entry = next) {
        next = entry->next_in_class;
        if (conflicts(*entry, region)) visit(entry);
      }
      continue;
    }
    for (uint64_t block = first; block <= last; block++) {
      for (Entry *entry = buckets_[bucket_of(k, block)], *next; entry != nullptr; entry = next) {
        next = entry->next_in_bucket;
        // Other blocks and classes may share the bucket: an entry is visited only in the round of its own block.
        if (entry->begin >> k == block && class_of(*entry) == k && conflicts(*entry, region)) visit(entry);
      }
    }
  }
}

template <class Depend>
void TensorMap::wait_for_writers(const Entry &entry, Depend depend) {
  if (entry.writer != 0) depend(entry.writer);
  for (const TaskChunk *chunk = entry.noted_writers; chunk != nullptr; chunk = chunk->next) {
    for (uint32_t i = 0; i < chunk->count; i++) depend(chunk->ids[i]);
  }
}

template <class Depend>
void TensorMap::wait_for_readers(const Entry &entry, Depend depend) {
  for (const TaskId reader : entry.first_readers) {
    if (reader != 0) depend(reader);
  }
  for (const TaskChunk *chunk = entry.more_readers; chunk != nullptr; chunk = chunk->next) {
    for (uint32_t i = 0; i < chunk->count; i++) depend(chunk->ids[i]);
  }
}

template <class Depend>
void TensorMap::read(const Region &region, TaskId task, Depend depend) {
  Entry *same = nullptr;
  for_each_conflict(region, [&](Entry *entry) {
    wait_for_writers(*entry, depend);
    if (is_equal(*entry, region)) same = entry;
  });
  if (same == nullptr) same = insert(region);
  add_reader(same, task);
}

template <class Depend>
void TensorMap::write(const Region &region, TaskId task, Depend depend) {
  Entry *same = nullptr;
  for_each_conflict(region, [&](Entry *entry) {
    wait_for_writers(*entry, depend);
    wait_for_readers(*entry, depend);
    if (same == nullptr && is_equal(*entry, region))
      same = entry;
    else if (is_covered(*entry, region))
      remove(entry);  // whoever conflicts with it conflicts with this write, which comes after it
    else
      partial_.push_back(entry);
  });
  if (!partial_.empty()) {
    for (Entry *entry : partial_) take_out(entry, region);
    partial_.clear();
  }
  if (same == nullptr)
    same = insert(region);
  else
    drop_accesses(same);
  same->writer = task;
}

}  // namespace simpler::graph
