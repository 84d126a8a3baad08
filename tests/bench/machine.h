// What the machine can do, measured in the run in which it is compared: round trips, copies, process starts, loading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace bench {

uint64_t now_ns();

// Median over `rounds` of a function that returns one value.
double median_of(int rounds, const std::function<double()> &measure);
double median(std::vector<double> values);

// Two threads hand a word to and fro, spinning with pause, each on a CPU of its own. On one CPU only: -1.
double spinning_round_trip_ns();
// The same, each parked on a futex until the other wakes it.
double parked_round_trip_ns();
// The same through two pipes: what one control message and its reply cost at least.
double pipe_round_trip_ns();
// Copying `bytes` from one place to another, GB/s.
double memcpy_gb_per_s(size_t bytes);
// Starting `count` processes of `program`, a C++ program that does nothing, at once, and waiting for the end of all.
double spawn_and_wait_ns(const std::string &program, int count);
// SHA-256 of an image, a memfd with its bytes, dlopen, dlsym and dlclose.
double hash_and_load_ns(const std::vector<unsigned char> &image, const char *symbol);

// User and system time of a process with all its threads so far, ns; its resident memory, KiB; its number of threads; how
// often its threads have gone to sleep so far.
struct ProcessUse {
  double cpu_ns = 0;
  double resident_kib = 0;
  int threads = 0;
  uint64_t sleeps = 0;
};
ProcessUse use_of_process(int64_t pid);

// Time that all CPUs together were busy so far, and that this process and its ended children used, ns.
double busy_ns();
double own_ns();
int usable_cpus();
std::string machine_text();

}  // namespace bench
