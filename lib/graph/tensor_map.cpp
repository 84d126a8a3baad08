#include "graph/tensor_map.h"

#include <algorithm>
#include <bit>

namespace simpler::graph {

namespace {
constexpr size_t kBucketsMin = 1024;  // a power of two
}

TensorMap::TensorMap(Liveness liveness) : liveness_(liveness), buckets_(kBucketsMin) {
  shift_ = 64 - static_cast<unsigned>(std::countr_zero(kBucketsMin));
}

unsigned TensorMap::class_of(uint64_t bytes) {
  return std::max(kClassMin, static_cast<unsigned>(std::bit_width(bytes - 1)));
}

bool TensorMap::exact_conflict(const Entry &entry, const Region &region) {
  if (entry.shape != nullptr) return overlap(*entry.shape, region);
  Region dense;
  dense.begin = entry.begin;
  dense.end = entry.end;
  return overlap(dense, region);
}

bool TensorMap::is_equal(const Entry &entry, const Region &region) {
  if (entry.begin != region.begin || entry.end != region.end) return false;
  return entry.shape == nullptr ? region.dense : equal(*entry.shape, region);
}

bool TensorMap::is_covered(const Entry &entry, const Region &region) {
  if (entry.begin < region.begin || entry.end > region.end) return false;
  if (region.dense) return true;
  return entry.shape != nullptr && covers(region, *entry.shape);
}

TensorMap::Entry *TensorMap::insert(const Region &region) {
  sweep();
  if (count_ >= buckets_.size()) grow();
  Entry *entry = free_entries_;
  if (entry != nullptr)
    free_entries_ = entry->next_in_bucket;
  else
    entry = &entry_pool_.emplace_back();
  *entry = Entry{};
  entry->begin = region.begin;
  entry->end = region.end;
  entry->prune_at = kPruneMin;
  if (!region.dense) {
    if (free_shapes_.empty()) {
      entry->shape = &shape_pool_.emplace_back(region);
    } else {
      entry->shape = free_shapes_.back();
      free_shapes_.pop_back();
      *entry->shape = region;
    }
  }
  const unsigned k = class_of(region.end - region.begin);
  entry->size_class = static_cast<uint8_t>(k);
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
  const unsigned k = entry->size_class;
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

void TensorMap::drop_accesses(Entry *entry) {
  while (Access *access = entry->accesses) {
    entry->accesses = access->next;
    access->next = free_accesses_;
    free_accesses_ = access;
  }
  entry->access_count = 0;
  entry->noted_writers = 0;
  entry->prune_at = kPruneMin;
}

void TensorMap::add_access(Entry *entry, TaskId task, bool writes) {
  // A task that reads one region through several arguments counts once.
  if (entry->accesses != nullptr && entry->accesses->task == task && entry->accesses->writes == writes) return;
  if (entry->access_count >= entry->prune_at) {
    for (Access **link = &entry->accesses; *link != nullptr;) {
      Access *access = *link;
      if (liveness_.is_current(liveness_.context, access->task)) {
        link = &access->next;
        continue;
      }
      *link = access->next;
      access->next = free_accesses_;
      free_accesses_ = access;
      entry->access_count--;
      if (access->writes) entry->noted_writers--;
    }
    entry->prune_at = std::max(kPruneMin, entry->access_count * 2);
  }
  Access *access = free_accesses_;
  if (access != nullptr)
    free_accesses_ = access->next;
  else
    access = &access_pool_.emplace_back();
  *access = {entry->accesses, task, writes};
  entry->accesses = access;
  entry->access_count++;
  if (writes) entry->noted_writers++;
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
  add_access(same, task, writes);
}

bool TensorMap::is_dead(const Entry &entry) const {
  if (entry.writer != 0 && liveness_.is_current(liveness_.context, entry.writer)) return false;
  for (const Access *access = entry.accesses; access != nullptr; access = access->next) {
    if (liveness_.is_current(liveness_.context, access->task)) return false;
  }
  return true;
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
      Entry *&bucket = buckets_[bucket_of(entry->size_class, entry->begin >> entry->size_class)];
      entry->next_in_bucket = bucket;
      bucket = entry;
      entry = next;
    }
  }
}

void TensorMap::clear() {
  for (unsigned k = 0; k < kClasses; k++) {
    while (class_first_[k] != nullptr) remove(class_first_[k]);
  }
  peak_ = 0;
}

}  // namespace simpler::graph
