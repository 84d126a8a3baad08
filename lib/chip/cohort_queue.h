// Tasks whose kernels need several cores at once, first come first served. The one at the head reserves the cores that it will start on:
// those that are free at once, busy ones when their kernels return. So it neither starts partly nor starves, and as only the head
// reserves, two of them never wait for each other.
//
// Threads: any; one lock, under which only claim words of the core pool are touched.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "chip/cohort.h"
#include "chip/core_pool.h"
#include "chip/geometry.h"

namespace simpler::chip {

class CohortQueue {
 public:
  CohortQueue(const Geometry &geometry, CorePool &cores) : geometry_(geometry), cores_(cores) {}

  // Whether a task starts as cohorts.
  static bool takes(const TaskPayload &payload) {
    return (payload.shape & (payload.shape - 1)) != 0 || (payload.flags & TaskPayload::kSyncStart) != 0;
  }
  // Cores of one type (clusters for a MIX) that the task needs at once, and that the chip has.
  static uint32_t needed_units(const TaskPayload &payload) {
    return (payload.flags & TaskPayload::kSyncStart) != 0 ? payload.block_count : 1;
  }
  uint32_t available_units(uint32_t shape) const;

  void push(graph::TaskSlot &task);
  // A core that was reserved has been released.
  void core_released();
  // The next cohort whose cores are all there: they are held now, and released by its members. Null: none yet.
  std::shared_ptr<Cohort> take();

 private:
  std::vector<uint32_t> cores_of_unit(uint32_t shape, uint32_t unit) const;
  void reserve(graph::TaskSlot &task);

  const Geometry geometry_;
  CorePool &cores_;
  std::mutex mutex_;  // guards what follows and SpmdState::next_block of the tasks here
  graph::TaskSlot *first_ = nullptr;
  graph::TaskSlot *last_ = nullptr;
  bool has_reserved_ = false;  // for first_
  std::vector<Cohort::Seat> seats_;
  uint32_t missing_ = 0;  // cores that are reserved and still held
};

}  // namespace simpler::chip
