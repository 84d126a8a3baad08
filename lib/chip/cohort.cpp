#include "chip/cohort.h"

#include <bit>

namespace simpler::chip {

namespace {

// How long a wait may take to notice that the run is over, of which nobody tells it.
constexpr uint64_t kLivenessNs = 20'000'000;

}  // namespace

Cohort::Cohort(graph::TaskSlot &task, std::vector<Seat> seats)
    : task_(&task),
      seats_(std::move(seats)),
      shape_(payload_of(task).shape),
      left_(std::make_unique<std::atomic<bool>[]>(seats_.size())) {
  const uint32_t blocks = seats_.back().block - seats_.front().block + 1;
  if (std::popcount(shape_) > 1) fifos_ = std::make_unique<Fifo[]>(size_t{blocks} * 9);
}

// Seats are ordered by block and position.
uint32_t Cohort::peer_of(uint32_t member, uint32_t position) const {
  const uint32_t own = static_cast<uint32_t>(std::popcount(shape_ & ((1u << seats_[member].position) - 1)));
  const uint32_t other = static_cast<uint32_t>(std::popcount(shape_ & ((1u << position) - 1)));
  return member - own + other;
}

template <class Condition>
void Cohort::wait(Condition condition) {
  PollBudget budget;
  bell_.wait(kForever, budget, condition, kLivenessNs);
}

Cohort::Wait Cohort::barrier(const IsOver &is_over) {
  const uint64_t round = round_.load(std::memory_order_seq_cst);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size()) {
    arrived_.store(0, std::memory_order_relaxed);  // nobody arrives before the round is over
    round_.fetch_add(1, std::memory_order_seq_cst);
    bell_.ring();
    return Wait::kDone;
  }
  const auto is_through = [&] { return round_.load(std::memory_order_seq_cst) != round; };
  wait([&] { return is_through() || left_count_.load(std::memory_order_seq_cst) != 0 || is_over(); });
  if (is_through()) return Wait::kDone;
  return is_over() ? Wait::kOver : Wait::kPeerLeft;
}

Cohort::Wait Cohort::push(uint32_t member, uint32_t position, uint64_t word, const IsOver &is_over) {
  Fifo &to = fifo(member, seats_[member].position, position);
  const uint32_t peer = peer_of(member, position);
  const uint64_t tail = to.tail.load(std::memory_order_relaxed);  // our own
  const auto has_room = [&] { return tail - to.head.load(std::memory_order_seq_cst) < SIMPLER_FIFO_WORDS; };
  wait([&] { return has_room() || has_left(peer) || is_over(); });
  if (!has_room()) return is_over() ? Wait::kOver : Wait::kPeerLeft;
  to.words[tail % SIMPLER_FIFO_WORDS] = word;
  to.tail.store(tail + 1, std::memory_order_seq_cst);
  bell_.ring();
  return Wait::kDone;
}

Cohort::Wait Cohort::pop(uint32_t member, uint32_t position, uint64_t *word, const IsOver &is_over) {
  Fifo &from = fifo(member, position, seats_[member].position);
  const uint32_t peer = peer_of(member, position);
  const uint64_t head = from.head.load(std::memory_order_relaxed);  // our own
  const auto has_word = [&] { return from.tail.load(std::memory_order_seq_cst) != head; };
  wait([&] { return has_word() || has_left(peer) || is_over(); });
  if (!has_word()) return is_over() ? Wait::kOver : Wait::kPeerLeft;
  *word = from.words[head % SIMPLER_FIFO_WORDS];
  from.head.store(head + 1, std::memory_order_seq_cst);
  bell_.ring();
  return Wait::kDone;
}

void Cohort::leave(uint32_t member) {
  left_[member].store(true, std::memory_order_seq_cst);
  left_count_.fetch_add(1, std::memory_order_seq_cst);
  bell_.ring();
}

}  // namespace simpler::chip
