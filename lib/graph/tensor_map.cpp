#include "graph/tensor_map.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace simpler::graph {

namespace {
constexpr size_t kBucketsMin = 1024;  // a power of two
}

TensorMap::TensorMap(Liveness liveness) : liveness_(liveness), buckets_(kBucketsMin) {
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(kBucketsMin));
}

bool TensorMap::exact_conflict(const Entry &entry, const Region &region) {
  if (entry.shape != nullptr) return overlap(*entry.shape, region);
  Region dense;
  dense.begin = entry.begin;
  dense.end = entry.end;
  dense.dense = true;
  return overlap(dense, region);
}

bool TensorMap::is_covered(const Entry &entry, const Region &region) {
  if (entry.begin < region.begin || entry.end > region.end) return false;
  if (region.dense) return true;
  return entry.shape != nullptr && covers(region, *entry.shape);
}

// ---- entries --------------------------------------------------------------------------------------------------------

TensorMap::Entry *TensorMap::insert(const Region &region) {
  sweep();
  return insert_unswept(region);
}

TensorMap::Entry *TensorMap::insert_unswept(const Region &region) {
  if (count_ >= buckets_.size()) grow();
  Entry *entry = free_entries_;
  if (entry != nullptr)
    free_entries_ = entry->next_in_bucket;
  else
    entry = &entry_pool_.emplace_back();
  *entry = Entry{};
  entry->begin = region.begin;
  entry->end = region.end;
  entry->prune_at = entry->noted_prune_at = kPruneMin;
  if (!region.dense) {
    if (free_shapes_.empty()) {
      entry->shape = &shape_pool_.emplace_back(region);
    } else {
      entry->shape = free_shapes_.back();
      free_shapes_.pop_back();
      *entry->shape = region;
    }
  }
  const unsigned k = class_of(*entry);
  Entry *&bucket = buckets_[bucket_of(k, region.begin >> k)];
  entry->next_in_bucket = bucket;
  bucket = entry;
  entry->next_in_class = class_first_[k];
  if (class_first_[k] != nullptr) class_first_[k]->previous_in_class = entry;
  class_first_[k] = entry;
  class_count_[k]++;
  classes_used_ |= uint64_t{1} << k;
  if (region.begin >> k != (region.end - 1) >> k) class_straddlers_[k]++;
  count_++;
  peak_ = std::max(peak_, count_);
  return entry;
}

void TensorMap::remove(Entry *entry) {
  drop_accesses(entry);
  const unsigned k = class_of(*entry);
  Entry **link = &buckets_[bucket_of(k, entry->begin >> k)];
  while (*link != entry) link = &(*link)->next_in_bucket;
  *link = entry->next_in_bucket;
  if (entry->previous_in_class != nullptr)
    entry->previous_in_class->next_in_class = entry->next_in_class;
  else
    class_first_[k] = entry->next_in_class;
  if (entry->next_in_class != nullptr) entry->next_in_class->previous_in_class = entry->previous_in_class;
  if (--class_count_[k] == 0) classes_used_ &= ~(uint64_t{1} << k);
  if (entry->begin >> k != (entry->end - 1) >> k) class_straddlers_[k]--;
  if (entry->shape != nullptr) free_shapes_.push_back(entry->shape);
  entry->next_in_bucket = free_entries_;
  free_entries_ = entry;
  count_--;
}

void TensorMap::take_out(Entry *entry, const Region &region) {
  Region whole;
  if (entry->shape != nullptr) {
    whole = *entry->shape;
  } else {
    whole.begin = entry->begin;
    whole.end = entry->end;
    whole.dense = true;
  }
  Region pieces[kPiecesMax];
  const uint32_t count = subtract(whole, region, pieces);
  if (count == kInseparable) return;
  for (uint32_t i = 0; i < count; i++) {
    Entry *piece = insert_unswept(pieces[i]);
    piece->writer = entry->writer;
    std::copy(std::begin(entry->first_readers), std::end(entry->first_readers), piece->first_readers);
    // The last piece takes the lists over.
    const bool is_last = i + 1 == count;
    piece->more_readers = is_last ? std::exchange(entry->more_readers, nullptr) : copy_of(entry->more_readers);
    piece->more_count = entry->more_count;
    piece->prune_at = entry->prune_at;
    piece->noted_writers = is_last ? std::exchange(entry->noted_writers, nullptr) : copy_of(entry->noted_writers);
    piece->noted_count = entry->noted_count;
    piece->noted_prune_at = entry->noted_prune_at;
  }
  remove(entry);
}

void TensorMap::write_fresh(const Region &region, TaskId task) {
  for_each_conflict(region, [&](Entry *entry) { remove(entry); });
  insert(region)->writer = task;
}

void TensorMap::note(const Region &region, TaskId task, bool writes) {
  Entry *same = nullptr;
  for_each_conflict(region, [&](Entry *entry) {
    if (is_equal(*entry, region)) same = entry;
  });
  if (same == nullptr) same = insert(region);
  if (writes)
    add_noted_writer(same, task);
  else
    add_reader(same, task);
}

// ---- lists of tasks ---------------------------------------------------------------------------------------------------

void TensorMap::push(TaskChunk *&list, TaskId task) {
  if (list == nullptr || list->count == std::size(list->ids)) {
    TaskChunk *chunk = free_chunks_;
    if (chunk != nullptr)
      free_chunks_ = chunk->next;
    else
      chunk = &chunk_pool_.emplace_back();
    chunk->next = list;
    chunk->count = 0;
    list = chunk;
  }
  list->ids[list->count++] = task;
}

TensorMap::TaskChunk *TensorMap::copy_of(const TaskChunk *list) {
  TaskChunk *copy = nullptr;
  for (; list != nullptr; list = list->next) {
    for (uint32_t i = 0; i < list->count; i++) push(copy, list->ids[i]);
  }
  return copy;
}

void TensorMap::drop(TaskChunk *&list) {
  while (TaskChunk *chunk = list) {
    list = chunk->next;
    chunk->next = free_chunks_;
    free_chunks_ = chunk;
  }
}

uint32_t TensorMap::prune(TaskChunk *&list) {
  TaskChunk *kept = nullptr;
  uint32_t count = 0;
  while (TaskChunk *chunk = list) {
    list = chunk->next;
    for (uint32_t i = 0; i < chunk->count; i++) {
      if (!is_current(chunk->ids[i])) continue;
      push(kept, chunk->ids[i]);
      count++;
    }
    chunk->next = free_chunks_;
    free_chunks_ = chunk;
  }
  list = kept;
  return count;
}

void TensorMap::add_reader(Entry *entry, TaskId task) {
  // A task that reads one region through several arguments is usually seen here; otherwise it is listed twice, no harm done.
  for (TaskId &reader : entry->first_readers) {
    if (reader == task) return;
    if (reader != 0) continue;
    reader = task;
    return;
  }
  TaskChunk *&list = entry->more_readers;
  if (list != nullptr && list->ids[list->count - 1] == task) return;
  if (entry->more_count >= entry->prune_at) {
    entry->more_count = prune(list);
    entry->prune_at = std::max(kPruneMin, entry->more_count * 2);
  }
  push(list, task);
  entry->more_count++;
}

void TensorMap::add_noted_writer(Entry *entry, TaskId task) {
  if (entry->noted_count >= entry->noted_prune_at) {
    entry->noted_count = prune(entry->noted_writers);
    entry->noted_prune_at = std::max(kPruneMin, entry->noted_count * 2);
  }
  push(entry->noted_writers, task);
  entry->noted_count++;
}

void TensorMap::drop_accesses(Entry *entry) {
  entry->first_readers[0] = entry->first_readers[1] = 0;
  if (entry->more_readers != nullptr) {
    drop(entry->more_readers);
    entry->more_count = 0;
    entry->prune_at = kPruneMin;
  }
  if (entry->noted_writers != nullptr) {
    drop(entry->noted_writers);
    entry->noted_count = 0;
    entry->noted_prune_at = kPruneMin;
  }
}

// ---- what is over -------------------------------------------------------------------------------------------------------

bool TensorMap::is_any_current(const TaskChunk *list) const {
  for (; list != nullptr; list = list->next) {
    for (uint32_t i = 0; i < list->count; i++) {
      if (is_current(list->ids[i])) return true;
    }
  }
  return false;
}

bool TensorMap::is_dead(const Entry &entry) const {
  if (entry.writer != 0 && is_current(entry.writer)) return false;
  for (const TaskId reader : entry.first_readers) {
    if (reader != 0 && is_current(reader)) return false;
  }
  return !is_any_current(entry.more_readers) && !is_any_current(entry.noted_writers);
}

// Two buckets per insertion: the hand goes round once while the map takes in half as many entries as it has buckets.
void TensorMap::sweep() {
  for (int step = 0; step < 2; step++) {
    for (Entry *entry = buckets_[hand_], *next; entry != nullptr; entry = next) {
      next = entry->next_in_bucket;
      if (is_dead(*entry)) remove(entry);
    }
    hand_ = (hand_ + 1) & (buckets_.size() - 1);
  }
}

void TensorMap::grow() {
  std::vector<Entry *> old(buckets_.size() * 2);
  old.swap(buckets_);
  shift_--;
  hand_ = 0;
  for (Entry *entry : old) {
    while (entry != nullptr) {
      Entry *next = entry->next_in_bucket;
      const unsigned k = class_of(*entry);
      Entry *&bucket = buckets_[bucket_of(k, entry->begin >> k)];
      entry->next_in_bucket = bucket;
      bucket = entry;
      entry = next;
    }
  }
}

void TensorMap::clear() {
  for (uint64_t classes = classes_used_; classes != 0; classes &= classes - 1) {
    const int k = std::countr_zero(classes);
    while (class_first_[k] != nullptr) remove(class_first_[k]);
  }
  partial_.clear();  // not empty after a write that ran out of memory
  peak_ = 0;
}

}  // namespace simpler::graph
