#include "graph/tensor_map.h"

#include <iterator>
#include <utility>

namespace simpler::graph {

namespace {
constexpr size_t kBucketsMin = 1024;  // a power of two
}

TensorMap::TensorMap(Liveness liveness) : liveness_(liveness), entries_(1), buckets_(kBucketsMin) {
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(kBucketsMin));
}

bool TensorMap::exact_conflict(const Entry &entry, const Region &region) {
  if (!entry.is_dense) return overlap(entry.extra->shape, region);
  Region dense;
  dense.begin = entry.begin;
  dense.end = entry.end;
  dense.dense = true;
  return overlap(dense, region);
}

bool TensorMap::is_covered(const Entry &entry, const Region &region) {
  if (entry.begin < region.begin || entry.end > region.end) return false;
  if (region.dense) return true;
  return !entry.is_dense && covers(region, entry.extra->shape);
}

// ---- entries --------------------------------------------------------------------------------------------------------

TensorMap::Index TensorMap::insert(const Region &region) {
  sweep();
  return insert_unswept(region);
}

TensorMap::Index TensorMap::insert_unswept(const Region &region) {
  if (count_ >= buckets_.size()) grow_buckets();
  const Index index = new_entry();
  Entry &entry = entries_[index];
  entry = Entry{};
  entry.begin = region.begin;
  entry.end = region.end;
  entry.is_dense = region.dense;
  if (!region.dense) {
    entry.extra = new_extra();
    entry.extra->shape = region;
  }
  const unsigned k = class_of(entry);
  SizeClass &size_class = classes_[k];
  const uint64_t block = region.begin >> k;
  Index &bucket = buckets_[bucket_of(k, block)];
  entry.next_in_bucket = bucket;
  bucket = index;
  entry.next_in_class = size_class.first;
  entries_[size_class.first].previous_in_class = index;  // of [0], if there is none: nobody reads it
  size_class.first = index;
  size_class.count++;
  classes_used_ |= uint64_t{1} << k;
  if (block != (region.end - 1) >> k) size_class.straddlers++;
  count_stretch(k, block, 1);
  peak_ = std::max(peak_, ++count_);
  return index;
}

void TensorMap::remove(Index index) {
  Entry &entry = entries_[index];
  drop_accesses(entry);
  const unsigned k = class_of(entry);
  SizeClass &size_class = classes_[k];
  const uint64_t block = entry.begin >> k;
  Index *link = &buckets_[bucket_of(k, block)];
  while (*link != index) link = &entries_[*link].next_in_bucket;
  *link = entry.next_in_bucket;
  if (size_class.first == index)
    size_class.first = entry.next_in_class;
  else
    entries_[entry.previous_in_class].next_in_class = entry.next_in_class;
  entries_[entry.next_in_class].previous_in_class = entry.previous_in_class;
  if (--size_class.count == 0) classes_used_ &= ~(uint64_t{1} << k);
  if (block != (entry.end - 1) >> k) size_class.straddlers--;
  count_stretch(k, block, UINT32_MAX);
  if (entry.extra != nullptr) free_extras_.push_back(entry.extra);
  entry.extra = nullptr;
  entry.end = 0;
  entry.next_in_bucket = free_entries_;
  free_entries_ = index;
  count_--;
}

void TensorMap::take_out(Index index, const Region &region) {
  Region whole;
  if (entries_[index].is_dense) {
    whole.begin = entries_[index].begin;
    whole.end = entries_[index].end;
    whole.dense = true;
  } else {
    whole = entries_[index].extra->shape;
  }
  Region pieces[kPiecesMax];
  const uint32_t count = subtract(whole, region, pieces);
  if (count == kInseparable) return;
  for (uint32_t i = 0; i < count; i++) {
    const Index piece_index = insert_unswept(pieces[i]);  // may move the entries
    Entry &piece = entries_[piece_index];
    const Entry &entry = entries_[index];
    piece.writer = entry.writer;
    std::copy(std::begin(entry.first_readers), std::end(entry.first_readers), piece.first_readers);
    if (entry.extra == nullptr) continue;
    if (piece.extra == nullptr) piece.extra = new_extra();
    if (i + 1 < count) {
      copy(piece.extra->readers, entry.extra->readers);
      copy(piece.extra->noted_writers, entry.extra->noted_writers);
    } else {  // the last piece takes them over
      std::swap(piece.extra->readers, entry.extra->readers);
      std::swap(piece.extra->noted_writers, entry.extra->noted_writers);
    }
  }
  remove(index);
}

void TensorMap::write_fresh(const Region &region, TaskId task) {
  for_each_conflict(region, [&](Index index) { remove(index); });
  const Index index = insert(region);
  entries_[index].writer = task;
}

void TensorMap::note(const Region &region, TaskId task, bool writes) {
  Index same = 0;
  for_each_conflict(region, [&](Index index) {
    if (is_equal(entries_[index], region)) same = index;
  });
  if (same == 0) same = insert(region);
  if (writes)
    add_noted_writer(entries_[same], task);
  else
    add_reader(entries_[same], task);
}

TensorMap::Index TensorMap::new_entry() {
  const Index index = free_entries_;
  if (index != 0) {
    free_entries_ = entries_[index].next_in_bucket;
    return index;
  }
  entries_.emplace_back();
  return static_cast<Index>(entries_.size() - 1);
}

TensorMap::Extra *TensorMap::new_extra() {
  if (free_extras_.empty()) {
    extra_pool_.emplace_back();
    free_extras_.reserve(extra_pool_.size());  // so that giving it back cannot fail
    return &extra_pool_.back();
  }
  Extra *extra = free_extras_.back();
  free_extras_.pop_back();
  return extra;
}

void TensorMap::count_stretch(unsigned size_class, uint64_t block, uint32_t change) {
  auto &stretches = classes_[size_class].stretches;
  if (stretches == nullptr) stretches = std::make_unique<std::array<uint32_t, kStretches>>();
  (*stretches)[(block >> kStretchBits) % kStretches] += change;
}

// ---- lists of tasks ---------------------------------------------------------------------------------------------------

void TensorMap::push(TaskList &list, TaskId task) {
  if (list.newest == nullptr || list.newest->count == std::size(list.newest->ids)) {
    TaskChunk *chunk = free_chunks_;
    if (chunk != nullptr)
      free_chunks_ = chunk->next;
    else
      chunk = &chunk_pool_.emplace_back();
    chunk->next = list.newest;
    chunk->count = 0;
    list.newest = chunk;
  }
  list.newest->ids[list.newest->count++] = task;
  list.count++;
}

void TensorMap::copy(TaskList &to, const TaskList &from) {
  auto push_to = [this, &to](TaskId task) { push(to, task); };
  for_each_task(from, push_to);
  to.prune_at = from.prune_at;
}

void TensorMap::drop(TaskList &list) {
  while (TaskChunk *chunk = list.newest) {
    list.newest = chunk->next;
    chunk->next = free_chunks_;
    free_chunks_ = chunk;
  }
  list.count = 0;
  list.prune_at = kPruneMin;
}

void TensorMap::prune(TaskList &list) {
  TaskList kept;
  auto keep = [this, &kept](TaskId task) {
    if (is_current(task)) push(kept, task);
  };
  for_each_task(list, keep);
  drop(list);
  list = kept;
  list.prune_at = std::max(kPruneMin, list.count * 2);
}

void TensorMap::add(TaskList &list, TaskId task) {
  if (list.newest != nullptr && list.newest->ids[list.newest->count - 1] == task) return;
  if (list.count >= list.prune_at) prune(list);
  push(list, task);
}

// A task that reads one region through several arguments is mostly seen here; otherwise it is listed twice, which does no harm.
void TensorMap::add_reader(Entry &entry, TaskId task) {
  for (TaskId &reader : entry.first_readers) {
    if (reader == task) return;
    if (reader != 0) continue;
    reader = task;
    return;
  }
  if (entry.extra == nullptr) entry.extra = new_extra();
  add(entry.extra->readers, task);
}

void TensorMap::add_noted_writer(Entry &entry, TaskId task) {
  if (entry.extra == nullptr) entry.extra = new_extra();
  add(entry.extra->noted_writers, task);
}

// ---- what is over -------------------------------------------------------------------------------------------------------

bool TensorMap::is_any_current(const TaskList &list) const {
  for (const TaskChunk *chunk = list.newest; chunk != nullptr; chunk = chunk->next) {
    for (uint32_t i = chunk->count; i > 0; i--) {
      if (is_current(chunk->ids[i - 1])) return true;
    }
  }
  return false;
}

bool TensorMap::is_dead(const Entry &entry) const {
  if (entry.writer != 0 && is_current(entry.writer)) return false;
  for (const TaskId reader : entry.first_readers) {
    if (reader != 0 && is_current(reader)) return false;
  }
  return entry.extra == nullptr || (!is_any_current(entry.extra->readers) && !is_any_current(entry.extra->noted_writers));
}

// Two entries per insertion: at most as many dead ones as live ones stay for long.
void TensorMap::sweep() {
  for (int step = 0; step < 2 && entries_.size() > 1; step++) {
    if (++hand_ >= entries_.size()) hand_ = 1;
    const Entry &entry = entries_[hand_];
    if (entry.end != 0 && is_dead(entry)) remove(hand_);
  }
}

void TensorMap::grow_buckets() {
  buckets_.assign(buckets_.size() * 2, 0);
  shift_--;
  for (Index index = 1; index < entries_.size(); index++) {
    Entry &entry = entries_[index];
    if (entry.end == 0) continue;
    const unsigned k = class_of(entry);
    Index &bucket = buckets_[bucket_of(k, entry.begin >> k)];
    entry.next_in_bucket = bucket;
    bucket = index;
  }
}

void TensorMap::clear() {
  for (uint64_t classes = classes_used_; classes != 0; classes &= classes - 1) {
    const int k = std::countr_zero(classes);
    while (classes_[static_cast<size_t>(k)].first != 0) remove(classes_[static_cast<size_t>(k)].first);
  }
  partial_.clear();  // not empty after a write that ran out of memory
  peak_ = 0;
}

}  // namespace simpler::graph
