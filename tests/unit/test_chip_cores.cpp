// lib/chip: geometry, register blocks and handshake, core claims, ready rings, carriers.
#include <atomic>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "chip/carrier_pool.h"
#include "chip/core_pool.h"
#include "chip/geometry.h"
#include "chip/handshake.h"
#include "chip/ready_ring.h"
#include "simpler/device.h"

// Last: its macro `fail` would change device.h.
extern "C" {
#include <cmocka.h>
}

using namespace simpler;
using namespace simpler::chip;

namespace {

template <class Action>
ErrorInfo error_of(Action &&action) {
  try {
    action();
  } catch (...) {
    return capture_current_exception();
  }
  return {};
}

void assert_error(const ErrorInfo &error, simpler_status code, const char *part) {
  if (error.code != code || error.message.find(part) == std::string::npos)
    fail_msg("expected %s with \"%s\", got %s: %s", status_name(code), part, status_name(error.code), error.message.c_str());
}

// ---- geometry -----------------------------------------------------------------------------------------------------------

void platforms_have_their_clusters(void **) {
  assert_int_equal(Geometry("a2a3sim", 0).cores(), 72);
  assert_int_equal(Geometry("a5sim", 0).cores(), 108);
  assert_int_equal(Geometry("a5sim", 0).cores(SIMPLER_CORE_AIC), 36);
  assert_int_equal(Geometry("a5sim", 5).cores(SIMPLER_CORE_AIV), 10);
}

void geometry_at_its_limits_and_beyond(void **) {
  assert_int_equal(Geometry("a2a3sim", 24).clusters(), 24);
  assert_int_equal(Geometry("a2a3sim", 1).cores(), 3);
  assert_error(error_of([] { Geometry("a2a3sim", 25); }), SIMPLER_INVALID_ARGUMENT, "clusters: 25 asked for");
  assert_error(error_of([] { Geometry("a9", 0); }), SIMPLER_INVALID_ARGUMENT, "a2a3sim (24 clusters), a5sim (36 clusters)");
}

void cores_are_named_both_ways(void **) {
  const Geometry geometry("a5sim", 7);
  for (const simpler_core_type type : {SIMPLER_CORE_AIC, SIMPLER_CORE_AIV}) {
    std::set<uint32_t> seen;
    for (uint32_t i = 0; i < geometry.cores(type); i++) {
      const uint32_t index = geometry.index_of(type, i);
      assert_true(seen.insert(index).second);
      assert_int_equal(geometry.core(index).type, type);
    }
  }
}

// ---- handshake ----------------------------------------------------------------------------------------------------------

void handshake_reports_unique_ids(void **) {
  for (const char *platform : {"a2a3sim", "a5sim"}) {
    const Geometry geometry(platform, 0);
    std::vector<CoreRegisters> registers(geometry.cores());
    start_cores(registers, geometry, [&](uint32_t i) { step_core(registers[i], geometry.core(i)); });
    std::set<uint32_t> ids;
    for (const CoreRegisters &core : registers) {
      assert_true(ids.insert(core.physical_id).second);
      assert_int_equal(core.condition.load(), CoreCondition::kIdle);
    }
    assert_int_equal(*ids.rbegin(), geometry.cores() - 1);
    stop_cores(registers, [&](uint32_t i) { step_core(registers[i], geometry.core(i)); });
    for (const CoreRegisters &core : registers) assert_int_equal(core.condition.load(), CoreCondition::kExited);
  }
}

void handshake_refuses_two_cores_with_one_id(void **) {
  const Geometry geometry("a2a3sim", 2);
  std::vector<CoreRegisters> registers(geometry.cores());
  const ErrorInfo error = error_of([&] {
    start_cores(registers, geometry, [&](uint32_t i) { step_core(registers[i], geometry.core(i == 4 ? 1 : i)); });
  });
  assert_error(error, SIMPLER_INTERNAL, "core 4");
}

void handshake_with_a_dead_core_ends_with_its_number(void **) {
  const Geometry geometry("a2a3sim", 1);
  std::vector<CoreRegisters> registers(geometry.cores());
  const ErrorInfo error = error_of([&] {
    start_cores(registers, geometry, [&](uint32_t i) {
      if (i != 2) step_core(registers[i], geometry.core(i));
    });
  });
  assert_error(error, SIMPLER_INTERNAL, "core 2 does not answer");
}

// What an earlier life left in the registers is not seen (P14).
void second_start_does_not_see_the_first_ones_exit(void **) {
  const Geometry geometry("a2a3sim", 3);
  std::vector<CoreRegisters> registers(geometry.cores());
  const auto step = [&](uint32_t i) { step_core(registers[i], geometry.core(i)); };
  for (int life = 0; life < 100; life++) {
    start_cores(registers, geometry, step);
    registers[0].task_word = 5;
    registers[0].acknowledgement = 5;
    stop_cores(registers, step);
  }
  start_cores(registers, geometry, step);
  assert_int_equal(registers[0].acknowledgement.load(), 0);
}

// The orders of the registers are those that cores with threads of their own need: for ThreadSanitizer (P12, P13).
void handshake_works_with_a_thread_per_core(void **) {
  const Geometry geometry("a2a3sim", 1);
  std::vector<CoreRegisters> registers(geometry.cores());
  std::vector<std::thread> threads;
  std::atomic<bool> over{false};
  for (uint32_t i = 0; i < geometry.cores(); i++)
    threads.emplace_back([&, i] {
      while (!over) {
        step_core(registers[i], geometry.core(i));
        yield_cpu();
      }
    });
  start_cores(registers, geometry, [](uint32_t) { yield_cpu(); });
  stop_cores(registers, [](uint32_t) { yield_cpu(); });
  over = true;
  for (std::thread &thread : threads) thread.join();
}

// ---- core claims --------------------------------------------------------------------------------------------------------

void claims_give_each_core_once_and_prefer_the_last_one(void **) {
  const Geometry geometry("a2a3sim", 2);
  CorePool pool(geometry);
  std::set<uint32_t> taken;
  for (int i = 0; i < 4; i++) {
    const uint32_t core = pool.claim(SIMPLER_CORE_AIV, kNoCore);
    assert_int_equal(geometry.core(core).type, SIMPLER_CORE_AIV);
    assert_true(taken.insert(core).second);
  }
  assert_int_equal(pool.claim(SIMPLER_CORE_AIV, *taken.begin()), kNoCore);
  assert_false(pool.has_free(SIMPLER_CORE_AIV));
  assert_true(pool.has_free(SIMPLER_CORE_AIC));
  (void)pool.release(*taken.rbegin());
  assert_int_equal(pool.claim(SIMPLER_CORE_AIV, *taken.rbegin()), *taken.rbegin());
}

// ---- ready ring ---------------------------------------------------------------------------------------------------------

void ring_keeps_order_and_grows(void **) {
  ReadyRing ring(2);
  ReadyRing::TailSeen seen = 0;
  uint64_t value = 0;
  assert_false(ring.pop(value, seen));
  uint64_t next = 0, expected = 0;
  for (int round = 0; round < 100; round++) {
    for (int i = 0; i < round; i++) ring.add(next++);
    ring.publish();
    for (int i = 0; i < round / 2 + 1 && ring.pop(value, seen); i++) assert_int_equal(value, expected++);
  }
  assert_true(ring.peek(value, seen));
  assert_int_equal(value, expected);
  while (ring.pop(value, seen)) assert_int_equal(value, expected++);
  assert_int_equal(expected, next);
  assert_true(ring.empty());
}

void ring_gives_each_entry_to_one_consumer(void **) {
  constexpr uint64_t kEntries = 200'000;
  ReadyRing ring(2);
  std::vector<std::atomic<uint32_t>> seen(kEntries);
  std::atomic<uint64_t> count{0};
  std::vector<std::thread> consumers;
  for (int i = 0; i < 3; i++)
    consumers.emplace_back([&] {
      ReadyRing::TailSeen tail_seen = 0;
      uint64_t value = 0;
      while (count.load() < kEntries) {
        if (ring.pop(value, tail_seen)) {
          seen[value]++;
          count++;
        } else {
          yield_cpu();
        }
      }
    });
  for (uint64_t i = 0; i < kEntries; i++) {
    ring.add(i);
    if (i % 7 == 0 || i + 1 == kEntries) ring.publish();
    if (i % 1000 == 0) yield_cpu();
  }
  for (std::thread &thread : consumers) thread.join();
  for (const std::atomic<uint32_t> &times : seen) assert_int_equal(times.load(), 1);
}

// ---- carriers -----------------------------------------------------------------------------------------------------------

// Work that is a number of tokens; each run_some takes one and may wait until others have taken theirs.
struct Tokens {
  std::atomic<uint64_t> left{0};
  std::atomic<uint64_t> done{0};
  std::atomic<uint32_t> inside{0};
  std::atomic<uint32_t> inside_peak{0};
  std::atomic<uint32_t> gather{0};  // run_some returns when so many are inside
  Doorbell bell;

  CarrierWork work() {
    return {[this](uint32_t, const std::function<void()> &found) {
              uint64_t n = left.load();
              do {
                if (n == 0) return false;
              } while (!left.compare_exchange_weak(n, n - 1));
              found();
              const uint32_t now = ++inside;
              if (now > inside_peak) inside_peak = now;
              bell.ring();
              if (gather != 0) bell.wait(kForever, [&] { return inside_peak >= gather; });
              inside--;
              done++;
              bell.ring();
              return true;
            },
            [this] { return left.load() != 0; }};
  }
};

void carriers_take_all_work_and_then_park(void **) {
  Tokens tokens;
  ThreadReserve reserve;
  CarrierPool pool(3, 3, tokens.work(), reserve);
  pool.start();
  for (uint64_t round = 1; round <= 300; round++) {
    tokens.left += 5;
    pool.notify();
    assert_true(tokens.bell.wait(deadline_after(20'000'000'000), [&] { return tokens.done == round * 5; }));
    if (round % 100 == 0) assert_true(tokens.bell.wait(deadline_after(50'000'000), [] { return false; }) == false);
  }
  assert_true(pool.parks() >= 3);
}

// One notification brings as many carriers as there is work for.
void one_notification_brings_as_many_carriers_as_there_is_work(void **) {
  Tokens tokens;
  tokens.gather = 4;
  ThreadReserve reserve;
  CarrierPool pool(4, 4, tokens.work(), reserve);
  pool.start();
  while (pool.parks() < 4) yield_cpu();
  tokens.left = 4;
  pool.notify();
  assert_true(tokens.bell.wait(deadline_after(20'000'000'000), [&] { return tokens.done == 4; }));
}

void one_piece_of_work_wakes_one_carrier(void **) {
  Tokens tokens;
  ThreadReserve reserve;
  CarrierPool pool(4, 4, tokens.work(), reserve);
  pool.start();
  while (pool.parks() < 4) yield_cpu();
  tokens.left = 1;
  pool.notify();
  assert_true(tokens.bell.wait(deadline_after(20'000'000'000), [&] { return tokens.done == 1; }));
  assert_int_equal(pool.wakes(), 1);
}

void pool_that_is_stopped_joins_its_threads(void **) {
  Tokens tokens;
  for (int i = 0; i < 50; i++) {
    ThreadReserve reserve;
    CarrierPool pool(2, 2, tokens.work(), reserve);
    pool.start();
    tokens.left += 1;
    pool.notify();
    pool.stop();
    pool.stop();
  }
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      cmocka_unit_test(platforms_have_their_clusters),
      cmocka_unit_test(geometry_at_its_limits_and_beyond),
      cmocka_unit_test(cores_are_named_both_ways),
      cmocka_unit_test(handshake_reports_unique_ids),
      cmocka_unit_test(handshake_refuses_two_cores_with_one_id),
      cmocka_unit_test(handshake_with_a_dead_core_ends_with_its_number),
      cmocka_unit_test(second_start_does_not_see_the_first_ones_exit),
      cmocka_unit_test(handshake_works_with_a_thread_per_core),
      cmocka_unit_test(claims_give_each_core_once_and_prefer_the_last_one),
      cmocka_unit_test(ring_keeps_order_and_grows),
      cmocka_unit_test(ring_gives_each_entry_to_one_consumer),
      cmocka_unit_test(carriers_take_all_work_and_then_park),
      cmocka_unit_test(one_notification_brings_as_many_carriers_as_there_is_work),
      cmocka_unit_test(one_piece_of_work_wakes_one_carrier),
      cmocka_unit_test(pool_that_is_stopped_joins_its_threads),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
