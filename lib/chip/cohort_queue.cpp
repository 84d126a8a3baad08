#include "chip/cohort_queue.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace simpler::chip {

namespace {

bool is_mix(uint32_t shape) { return std::popcount(shape) > 1; }

}  // namespace

uint32_t CohortQueue::available_units(uint32_t shape) const {
  if (is_mix(shape)) return geometry_.clusters();
  return geometry_.cores(shape == 1u << SIMPLER_POSITION_AIC ? SIMPLER_CORE_AIC : SIMPLER_CORE_AIV);
}

std::vector<uint32_t> CohortQueue::cores_of_unit(uint32_t shape, uint32_t unit) const {
  std::vector<uint32_t> cores;
  if (!is_mix(shape)) {
    cores.push_back(geometry_.index_of(shape == 1u << SIMPLER_POSITION_AIC ? SIMPLER_CORE_AIC : SIMPLER_CORE_AIV, unit));
    return cores;
  }
  for (uint32_t position = 0; position < kCoresPerCluster; position++)
    if ((shape & 1u << position) != 0) cores.push_back(unit * kCoresPerCluster + position);
  return cores;
}

void CohortQueue::push(graph::TaskSlot &task) {
  const std::lock_guard lock(mutex_);
  task.next_ready = nullptr;
  (last_ != nullptr ? last_->next_ready : first_) = &task;
  last_ = &task;
}

void CohortQueue::core_released() {
  const std::lock_guard lock(mutex_);
  SIMPLER_ASSERT(missing_ > 0);
  missing_--;
}

void CohortQueue::reserve(graph::TaskSlot &task) {
  TaskPayload &payload = payload_of(task);
  const uint32_t shape = payload.shape;
  const uint32_t units = available_units(shape);
  const uint32_t needed = needed_units(payload);
  // The units with the fewest busy cores: all free ones, then the rest.
  std::vector<uint32_t> chosen[kCoresPerCluster + 1];
  for (uint32_t unit = 0; unit < units && chosen[0].size() < needed; unit++) {
    uint32_t busy = 0;
    for (const uint32_t core : cores_of_unit(shape, unit)) busy += cores_.is_free(core) ? 0 : 1;
    chosen[busy].push_back(unit);
  }
  seats_.clear();
  missing_ = 0;
  uint32_t block = payload.spmd().next_block;
  const uint32_t end = block + needed;
  for (const std::vector<uint32_t> &list : chosen) {
    for (const uint32_t unit : list) {
      if (block == end) break;
      for (const uint32_t core : cores_of_unit(shape, unit)) {
        if (!cores_.reserve(core)) missing_++;
        // A task of one kernel runs that kernel wherever its core stands.
        const uint32_t position = is_mix(shape) ? core % kCoresPerCluster : static_cast<uint32_t>(std::countr_zero(shape));
        seats_.push_back({core, block, position});
      }
      block++;
    }
  }
  SIMPLER_ASSERT(block == end);  // what can never fit was refused at submit
  has_reserved_ = true;
}

std::shared_ptr<Cohort> CohortQueue::take() {
  const std::lock_guard lock(mutex_);
  if (first_ == nullptr) return nullptr;
  graph::TaskSlot &task = *first_;
  if (!has_reserved_) reserve(task);
  if (missing_ != 0) return nullptr;
  auto cohort = std::make_shared<Cohort>(task, std::move(seats_));
  for (uint32_t i = 0; i < cohort->size(); i++) cores_.occupy(cohort->seat(i).core);
  has_reserved_ = false;
  TaskPayload &payload = payload_of(task);
  payload.spmd().next_block += needed_units(payload);
  if (payload.spmd().next_block == payload.block_count) {
    first_ = task.next_ready;
    if (first_ == nullptr) last_ = nullptr;
  }
  return cohort;
}

}  // namespace simpler::chip
