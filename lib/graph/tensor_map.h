// Region of memory -> its last writer and the readers since: where dependencies come from.
//
// Owned by the submitter; no other thread touches it. Tasks are named by id only; whether one is still in its slot is asked
// through `is_current`, so a stale id can do no harm.
//
// One entry per distinct region. Entries are found by size class: a region of up to 2^k bytes stands in the hash bucket
// (k, begin >> k), so a query looks, for each class in use, at the few buckets that its hull touches, or walks the class when
// that is shorter. Readers are a list per entry; finished ones are swept out whenever the list has doubled, so a reader costs
// O(1). Entries whose tasks have all left their slots are swept by a hand that moves with the insertions, which keeps the map
// proportional to the tasks in flight in endless streams.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "graph/region.h"
#include "graph/task_slot.h"

namespace simpler::graph {

class TensorMap {
 public:
  // Answers whether a task is still in its slot. A plain function pointer: called on the hot path.
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
  struct Access {
    Access *next;
    TaskId task;
    bool writes;  // noted writer of a manual scope
  };
  struct Entry {
    Entry *next_in_bucket;
    Entry *next_in_class;
    Entry *previous_in_class;
    Region *shape;  // full region when it is not dense; otherwise null
    uint64_t begin;
    uint64_t end;
    TaskId writer;
    Access *accesses;
    uint32_t access_count;
    uint32_t prune_at;
    uint32_t noted_writers;
    uint8_t size_class;
  };
  static constexpr unsigned kClassMin = 6;  // regions up to 64 bytes share a class
  static constexpr unsigned kClasses = 64;
  static constexpr uint32_t kPruneMin = 16;

  static unsigned class_of(uint64_t bytes);
  size_t bucket_of(unsigned size_class, uint64_t block) const {
    return static_cast<size_t>(((block * 0x9E3779B97F4A7C15u) ^ (uint64_t{size_class} * 0xC2B2AE3D27D4EB4Fu)) >> shift_);
  }
  static bool conflicts(const Entry &entry, const Region &region) {
    if (entry.begin >= region.end || region.begin >= entry.end) return false;
    return (entry.shape == nullptr && region.dense) || exact_conflict(entry, region);
  }
  static bool exact_conflict(const Entry &entry, const Region &region);
  static bool is_equal(const Entry &entry, const Region &region);
  static bool is_covered(const Entry &entry, const Region &region);

  // Calls visit(entry) for each entry that conflicts with the region; visit may remove that entry.
  template <class Visit>
  void for_each_conflict(const Region &region, Visit visit);

  Entry *insert(const Region &region);
  void remove(Entry *entry);
  void add_access(Entry *entry, TaskId task, bool writes);
  void drop_accesses(Entry *entry);
  bool is_dead(const Entry &entry) const;
  void sweep();
  void grow();

  Liveness liveness_;
  std::vector<Entry *> buckets_;
  unsigned shift_ = 0;
  size_t hand_ = 0;
  uint64_t count_ = 0;
  uint64_t peak_ = 0;
  uint64_t classes_used_ = 0;                // bit k: class k has entries
  Entry *class_first_[kClasses] = {};
  uint64_t class_count_[kClasses] = {};
  uint64_t class_straddlers_[kClasses] = {};  // entries that reach into the block after the one they begin in

  // Pools: nodes are never given back to the allocator while the map lives.
  std::deque<Entry> entry_pool_;
  Entry *free_entries_ = nullptr;
  std::deque<Access> access_pool_;
  Access *free_accesses_ = nullptr;
  std::deque<Region> shape_pool_;
  std::vector<Region *> free_shapes_;
};

template <class Visit>
void TensorMap::for_each_conflict(const Region &region, Visit visit) {
  for (uint64_t classes = classes_used_; classes != 0; classes &= classes - 1) {
    const unsigned k = static_cast<unsigned>(__builtin_ctzll(classes));
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
        // Blocks that share a bucket: an entry is visited only in the round of its own block.
        if (entry->size_class == k && entry->begin >> k == block && conflicts(*entry, region)) visit(entry);
      }
    }
  }
}

template <class Depend>
void TensorMap::read(const Region &region, TaskId task, Depend depend) {
  Entry *same = nullptr;
  for_each_conflict(region, [&](Entry *entry) {
    if (entry->writer != 0) depend(entry->writer);
    if (entry->noted_writers != 0) {
      for (const Access *access = entry->accesses; access != nullptr; access = access->next) {
        if (access->writes) depend(access->task);
      }
    }
    if (is_equal(*entry, region)) same = entry;
  });
  if (same == nullptr) same = insert(region);
  add_access(same, task, false);
}

template <class Depend>
void TensorMap::write(const Region &region, TaskId task, Depend depend) {
  Entry *same = nullptr;
  for_each_conflict(region, [&](Entry *entry) {
    if (entry->writer != 0) depend(entry->writer);
    for (const Access *access = entry->accesses; access != nullptr; access = access->next) depend(access->task);
    if (is_equal(*entry, region))
      same = entry;
    else if (is_covered(*entry, region))
      remove(entry);  // whoever conflicts with it conflicts with this write, which comes after it
  });
  if (same == nullptr)
    same = insert(region);
  else
    drop_accesses(same);
  same->writer = task;
}

}  // namespace simpler::graph
