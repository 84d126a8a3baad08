// Benchmarks through simpler.h: what tasks, runs, registrations, starts and idling cost, each next to what the machine does.
//
//   usage: bench_worker [--json FILE] [--rounds N] [--only TEXT] [--quick]
//
// Values are medians over the rounds.
#include <getopt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../callables/work.h"
#include "machine.h"
#include "report.h"
#include "simpler.h"

using namespace bench;

namespace {

struct Settings {
  std::string json, only;
  int rounds = 7;
  bool quick = false;
};
Settings settings;
Report report;

// ---- a thin layer over simpler.h: every failure ends the benchmark --------------------------------------------------------

template <typename Call>
void must(const char *what, Call call) {
  simpler_error *error = nullptr;
  if (call(&error) == SIMPLER_OK) return;
  std::fprintf(stderr, "bench_worker: %s: %s\n", what, simpler_error_message(error));
  std::exit(1);
}

class Worker {
 public:
  explicit Worker(uint32_t chips, bool in_process = false) {
    simpler_worker_options options = SIMPLER_WORKER_OPTIONS_INIT;
    options.chips = chips;
    options.isolation = in_process ? SIMPLER_ISOLATION_IN_PROCESS : SIMPLER_ISOLATION_PROCESS;
    must("create", [&](simpler_error **e) { return simpler_worker_create(&options, &worker_, e); });
  }
  ~Worker() { close(); }
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  void close() {
    must("destroy", [&](simpler_error **e) { return simpler_worker_destroy(worker_, e); });
    worker_ = nullptr;
  }
  simpler_callable *add(const simpler_callable_desc &desc) const {
    simpler_callable *callable = nullptr;
    must("register", [&](simpler_error **e) { return simpler_worker_register(worker_, &desc, &callable, e); });
    return callable;
  }
  void remove(simpler_callable *callable) const {
    must("unregister", [&](simpler_error **e) { return simpler_worker_unregister(worker_, callable, e); });
  }
  simpler_buffer *buffer(uint64_t bytes) const {
    simpler_buffer *buffer = nullptr;
    must("buffer", [&](simpler_error **e) { return simpler_buffer_create(worker_, bytes, &buffer, e); });
    return buffer;
  }
  void run(const simpler_task &task) const {
    must("run", [&](simpler_error **e) { return simpler_worker_run(worker_, &task, nullptr, e); });
  }
  simpler_run *submit(const simpler_task &task) const {
    simpler_run *run = nullptr;
    must("submit", [&](simpler_error **e) { return simpler_worker_submit(worker_, &task, nullptr, &run, e); });
    return run;
  }
  static void finish(simpler_run *run) {
    must("wait", [&](simpler_error **e) { return simpler_run_wait(run, SIMPLER_FOREVER, e); });
    must("release", [&](simpler_error **e) { return simpler_run_release(run, e); });
  }
  int64_t pid(uint32_t chip) const {
    int64_t pid = 0;
    must("pid", [&](simpler_error **e) { return simpler_worker_chip_pid(worker_, chip, &pid, e); });
    return pid;
  }

 private:
  simpler_worker *worker_ = nullptr;
};

simpler_task task_of(simpler_callable *callable, int32_t chip, const std::vector<simpler_tensor_arg> &tensors = {},
                     const std::vector<uint64_t> &scalars = {}) {
  simpler_task task = SIMPLER_TASK_INIT;
  task.callable = callable;
  task.chip = chip;
  task.tensors = tensors.data();
  task.tensor_count = static_cast<uint32_t>(tensors.size());
  task.scalars = scalars.data();
  task.scalar_count = static_cast<uint32_t>(scalars.size());
  return task;
}

simpler_callable *add_self_describing(const Worker &worker, const char *path) {
  const simpler_image image = {path, nullptr, 0};
  simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
  desc.images = &image;
  desc.image_count = 1;
  return worker.add(desc);
}

simpler_callable *add_orchestration(const Worker &worker, const char *symbol) {
  static const simpler_kernel_desc kernels[] = {
#define DESCRIBE(id, name) {id, SIMPLER_CORE_AIV, 0, 0, #name},
      WORK_KERNELS(DESCRIBE)
#undef DESCRIBE
  };
  const simpler_image image = {TEST_CALLABLE_DIR "/work.so", nullptr, 0};
  simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
  desc.images = &image;
  desc.image_count = 1;
  desc.kernels = kernels;
  desc.kernel_count = std::size(kernels);
  desc.orchestration_symbol = symbol;
  return worker.add(desc);
}

// ---- rows -----------------------------------------------------------------------------------------------------------------

bool is_wanted(const std::string &name) { return settings.only.empty() || name.find(settings.only) != std::string::npos; }

// Adds a row whose value is the median of `measure`, in the unit that `scale` ns make.
void row(const std::string &name, const char *unit, double scale_ns, const std::function<double()> &measure,
         const std::function<double()> &bound = nullptr, const char *against = "", std::optional<double> target = {}) {
  if (!is_wanted(name)) return;
  Row r;
  r.name = name;
  r.unit = unit;
  r.target = target;
  r.spin_before_ns = spinning_round_trip_ns();
  std::vector<double> values, bounds;
  for (int i = 0; i < settings.rounds; i++) {
    values.push_back(measure() / scale_ns);
    if (bound) bounds.push_back(bound() / scale_ns);
  }
  r.value = median(values);
  if (bound) {
    r.bound = median(bounds);
    r.against = against;
  }
  r.spin_after_ns = spinning_round_trip_ns();
  report.add(std::move(r));
}

double time_ns(int repeats, const std::function<void()> &work) {
  const uint64_t start = now_ns();
  for (int i = 0; i < repeats; i++) work();
  return static_cast<double>(now_ns() - start) / repeats;
}

const char *kind(bool in_process) { return in_process ? "in-process" : "chip process"; }

// ---- empty tasks ------------------------------------------------------------------------------------------------------------

void bench_tasks() {
  const uint64_t tasks = settings.quick ? 10'000 : 100'000, side = settings.quick ? 100 : 300;
  report.heading("empty tasks in one orchestration, time per task");
  for (const bool in_process : {false, true}) {
    Worker worker(1, in_process);
    simpler_buffer *buffer = worker.buffer((tasks + 1) * 8);
    const uint64_t flat[1] = {tasks + 1}, square[2] = {side, side};
    const std::vector<simpler_tensor_arg> row_arg = {
        simpler_tensor_arg_make_in_buffer(buffer, 0, SIMPLER_TAG_INOUT, SIMPLER_DTYPE_UINT64, 1, flat)};
    const std::vector<simpler_tensor_arg> grid_arg = {
        simpler_tensor_arg_make_in_buffer(buffer, 0, SIMPLER_TAG_INOUT, SIMPLER_DTYPE_UINT64, 2, square)};
    const struct {
      const char *name, *symbol;
      const std::vector<simpler_tensor_arg> &tensors;
      std::vector<uint64_t> scalars;
      uint64_t tasks;
    } graphs[] = {
        {"independent", "orch_independent_nothing", row_arg, {tasks}, tasks},
        {"chain", "orch_chain_nothing", row_arg, {tasks}, tasks},
        {"wavefront", "orch_grid_nothing", grid_arg, {side, side}, side * side},
        {"fan of 100, joined", "orch_fan_nothing", row_arg, {100, tasks / 100}, tasks / 100 * 102},
    };
    for (const auto &graph : graphs) {
      simpler_callable *callable = add_orchestration(worker, graph.symbol);
      const simpler_task task = task_of(callable, 0, graph.tensors, graph.scalars);
      row(
          std::string(graph.name) + ", " + kind(in_process), "ns", 1,
          [&] { return time_ns(1, [&] { worker.run(task); }) / static_cast<double>(graph.tasks); }, spinning_round_trip_ns,
          "a spinning round trip");
      worker.remove(callable);
    }
  }
}

// ---- runs -------------------------------------------------------------------------------------------------------------------

void bench_empty_runs() {
  const int repeats = settings.quick ? 200 : 2000;
  report.heading("run of an empty callable");
  for (const bool in_process : {false, true}) {
    Worker worker(1, in_process);
    const simpler_task task = task_of(add_orchestration(worker, "orch_empty"), 0);
    const auto once = [&] { worker.run(task); };
    const auto after_idling = [&] {
      double sum = 0;
      const int rounds = repeats / 10;
      for (int i = 0; i < rounds; i++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        sum += time_ns(1, once);
      }
      return sum / rounds;
    };
    if (in_process) {
      row(
          "back to back, in-process", "us", 1e3, [&] { return time_ns(repeats, once); }, nullptr, "", 3.0);
      row("after 1 ms of idling, in-process", "us", 1e3, after_idling, parked_round_trip_ns, "a parked futex round trip");
    } else {
      row(
          "back to back, chip process", "us", 1e3, [&] { return time_ns(repeats, once); }, parked_round_trip_ns,
          "a parked futex round trip", 0.25);
      row("after 1 ms of idling, chip process", "us", 1e3, after_idling, parked_round_trip_ns, "a parked futex round trip",
          2.0);
    }
  }
}

// The vector example's kernels, one after the other on this thread.
double plain_vector_example_ns() {
  constexpr size_t kElements = 128 * 128;
  static std::vector<float> a(kElements, 1.5f), b(kElements, 2.5f), c(kElements), d(kElements), e(kElements), g(kElements),
      f(kElements);
  const auto barrier = [](std::vector<float> &v) { __asm__ volatile("" : : "r"(v.data()) : "memory"); };
  return time_ns(20, [&] {
    for (size_t i = 0; i < kElements; i++) c[i] = a[i] + b[i];
    barrier(c);
    for (size_t i = 0; i < kElements; i++) d[i] = c[i] + 1.0f;
    barrier(d);
    for (size_t i = 0; i < kElements; i++) e[i] = c[i] + 2.0f;
    barrier(e);
    for (size_t i = 0; i < kElements; i++) g[i] = d[i] * e[i];
    barrier(g);
    for (size_t i = 0; i < kElements; i++) f[i] = g[i] + c[i];
    barrier(f);
  });
}

void bench_vector_example() {
#ifdef VECTOR_EXAMPLE_CALLABLE
  const int repeats = settings.quick ? 50 : 500;
  const uint64_t shape[2] = {128, 128}, bytes = 128 * 128 * 4;
  report.heading("run of the vector example: five tasks on 128x128 float32");
  for (const bool in_process : {true, false}) {
    for (const bool staged : {false, true}) {
      for (const uint32_t chips : {1u, 2u}) {
        Worker worker(chips, in_process);
        simpler_callable *callable = add_self_describing(worker, VECTOR_EXAMPLE_CALLABLE);
        std::vector<std::vector<float>> host(3 * chips, std::vector<float>(bytes / 4, 1.0f));
        std::vector<std::vector<simpler_tensor_arg>> tensors(chips);
        std::vector<simpler_task> tasks;
        for (uint32_t chip = 0; chip < chips; chip++) {
          for (uint32_t i = 0; i < 3; i++) {
            const simpler_tag tag = i == 2 ? SIMPLER_TAG_OUTPUT_EXISTING : SIMPLER_TAG_INPUT;
            tensors[chip].push_back(
                staged ? simpler_tensor_arg_make(host[3 * chip + i].data(), tag, SIMPLER_DTYPE_FLOAT32, 2, shape)
                       : simpler_tensor_arg_make_in_buffer(worker.buffer(bytes), 0, tag, SIMPLER_DTYPE_FLOAT32, 2, shape));
          }
          tasks.push_back(task_of(callable, static_cast<int32_t>(chip), tensors[chip]));
        }
        const auto once = [&] {
          std::vector<simpler_run *> runs;
          for (const simpler_task &task : tasks) runs.push_back(worker.submit(task));
          for (simpler_run *run : runs) Worker::finish(run);
        };
        // The targets of the issue on speed are bare times, for buffers.
        std::optional<double> target;
        if (!staged) target = in_process ? 20.0 : chips == 1 ? 60.0 : 120.0;
        if (in_process && chips == 2) target.reset();
        const std::string name = std::string(chips == 1 ? "one chip, " : "two chips at once, ") + kind(in_process) +
                                 (staged ? ", host memory" : ", buffers");
        if (target) {
          row(
              name, "us", 1e3, [&] { return time_ns(repeats, once); }, nullptr, "", target);
        } else {
          row(
              name, "us", 1e3, [&] { return time_ns(repeats, once); }, plain_vector_example_ns,
              "its kernels in plain loops");
        }
      }
    }
  }
  row("its kernels in plain loops on one thread", "us", 1e3, plain_vector_example_ns);
#endif
}

// Copies between host memory and the chip against memcpy: nothing is run, one tensor goes in, another in and out.
void bench_staging() {
  const uint64_t count = (settings.quick ? 8 : 64) << 20;
  report.heading("a large tensor in host memory to the chip and back");
  for (const bool in_process : {false, true}) {
    Worker worker(1, in_process);
    simpler_callable *callable = add_orchestration(worker, "orch_empty");
    std::vector<char> in(count, 1), out(count, 2);
    const std::vector<simpler_tensor_arg> tensors = {
        simpler_tensor_arg_make(in.data(), SIMPLER_TAG_INPUT, SIMPLER_DTYPE_UINT8, 1, &count),
        simpler_tensor_arg_make(out.data(), SIMPLER_TAG_INOUT, SIMPLER_DTYPE_UINT8, 1, &count)};
    const simpler_task task = task_of(callable, 0, tensors);
    const auto copies = [&] { /* two in, one out */
                              return 3 * static_cast<double>(count) / memcpy_gb_per_s(count);
    };
    row(
        std::string("three copies, ") + kind(in_process), "ms", 1e6, [&] { return time_ns(1, [&] { worker.run(task); }); },
        copies, "memcpy", 1.25);
  }
}

// ---- register, unregister ---------------------------------------------------------------------------------------------------

// add_1.so with bytes added at its end up to 64 KiB; no two calls give the same bytes.
std::vector<unsigned char> fresh_image() {
  static uint64_t serial = 0;
  std::ifstream file(TEST_CALLABLE_DIR "/add_1.so", std::ios::binary);
  std::vector<unsigned char> image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (image.size() < 65536) image.resize(65536);
  serial++;
  std::memcpy(image.data() + image.size() - sizeof serial, &serial, sizeof serial);
  return image;
}

void bench_register() {
  const int repeats = settings.quick ? 10 : 50;
  report.heading("register and unregister an image of 64 KiB after the start");
  for (const uint32_t chips : {1u, 2u}) {
    Worker worker(chips);
    double register_ns = 0, unregister_ns = 0;
    const auto cycle = [&] {
      register_ns = unregister_ns = 0;
      for (int i = 0; i < repeats; i++) {
        const std::vector<unsigned char> bytes = fresh_image();
        const simpler_image image = {nullptr, bytes.data(), bytes.size()};
        simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
        desc.images = &image;
        desc.image_count = 1;
        simpler_callable *callable = nullptr;
        register_ns += time_ns(1, [&] { callable = worker.add(desc); }) / repeats;
        unregister_ns += time_ns(1, [&] { worker.remove(callable); }) / repeats;
      }
    };
    const auto bound = [&] {
      return pipe_round_trip_ns() +
             median_of(10, [] { return hash_and_load_ns(fresh_image(), "simpler_exported_callable"); });
    };
    const std::string on = chips == 1 ? " on 1 chip" : " on 2 chips";
    row(
        "register" + on, "us", 1e3, [&] { return cycle(), register_ns; }, bound, "SHA-256, memfd, dlopen, a round trip",
        chips == 2 ? std::optional<double>(3.0) : std::nullopt);
    row(
        "unregister" + on, "us", 1e3, [&] { return cycle(), unregister_ns; }, pipe_round_trip_ns, "a pipe round trip",
        chips == 2 ? std::optional<double>(2.0) : std::nullopt);
  }
}

// ---- start, close, idle -------------------------------------------------------------------------------------------------------

void bench_start() {
  report.heading("start and close of a worker");
  for (const uint32_t chips : {1u, 2u, 4u, 16u}) {
    double start_ns = 0, close_ns = 0;
    const auto cycle = [&] {
      std::unique_ptr<Worker> worker;
      start_ns = time_ns(1, [&] { worker = std::make_unique<Worker>(chips); });
      close_ns = time_ns(1, [&] { worker->close(); });
    };
    const auto bare = [&] { return spawn_and_wait_ns(BENCH_TRIVIAL, static_cast<int>(chips)); };
    const std::string with = " with " + std::to_string(chips) + (chips == 1 ? " chip" : " chips");
    std::optional<double> target;
    if (chips == 2) target = 3.0;
    if (chips == 16) target = 2.0;
    row(
        "start" + with, "ms", 1e6, [&] { return cycle(), start_ns; }, bare, "as many C++ processes, started and ended");
    row(
        "close" + with, "ms", 1e6, [&] { return cycle(), close_ns; }, bare, "as many C++ processes, started and ended");
    row(
        "start and close" + with, "ms", 1e6, [&] { return cycle(), start_ns + close_ns; }, bare,
        "as many C++ processes, started and ended", target);
  }
}

void single(const std::string &name, double value, const char *unit, std::optional<double> target) {
  if (!is_wanted(name)) return;
  Row r;
  r.name = name;
  r.value = value;
  r.unit = unit;
  r.target = target;
  r.spin_before_ns = r.spin_after_ns = spinning_round_trip_ns();
  report.add(std::move(r));
}

constexpr uint32_t kIdleChips = 4;

// Resident memory that a worker adds to a host that has not had one before, MiB. To be called first.
double added_by_first_worker_mib() {
  const double before = use_of_process(getpid()).resident_kib;
  const Worker worker(kIdleChips);
  return (use_of_process(getpid()).resident_kib - before) / 1024;
}

void bench_idle(double added_mib) {
  const int seconds = settings.quick ? 1 : 10;
  report.heading("an idle worker with 4 chips");
  Worker worker(kIdleChips);
  std::vector<ProcessUse> first;
  double chip_kib = 0, chip_threads = 0;
  const auto all = [&] {
    std::vector<ProcessUse> uses = {use_of_process(getpid())};
    for (uint32_t chip = 0; chip < kIdleChips; chip++) uses.push_back(use_of_process(worker.pid(chip)));
    return uses;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // what start-up left to do
  first = all();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const std::vector<ProcessUse> last = all();
  double cpu_ns = 0, sleeps = 0, chip_sleeps = 0;
  for (size_t i = 0; i < last.size(); i++) {
    cpu_ns += last[i].cpu_ns - first[i].cpu_ns;
    sleeps += static_cast<double>(last[i].sleeps - first[i].sleeps);
    if (i == 0) continue;
    chip_sleeps = std::max(chip_sleeps, static_cast<double>(last[i].sleeps - first[i].sleeps));
    chip_kib = std::max(chip_kib, last[i].resident_kib);
    chip_threads = std::max(chip_threads, static_cast<double>(last[i].threads));
  }
  single("CPU of host and chips", cpu_ns / (seconds * 1e9) * 100, "% of one", 0.2);
  single("wake-ups of host and chips", sleeps / seconds, "1/s", {});
  single("wake-ups of one chip", chip_sleeps / seconds, "1/s", 1.0);
  single("resident memory of one chip process", chip_kib / 1024, "MiB", 10.0);
  single("resident memory of the host, added by the worker", added_mib, "MiB", 5.0);
  single("threads of one chip process", chip_threads, "", usable_cpus() + 4);
}

void bench_machine() {
  report.heading("the machine");
  row("spinning round trip", "ns", 1, spinning_round_trip_ns);
  row("parked futex round trip", "us", 1e3, parked_round_trip_ns);
  row("pipe round trip", "us", 1e3, pipe_round_trip_ns);
  for (const int count : {1, 2, 4, 16}) {
    row("posix_spawn and end of " + std::to_string(count) + " C++ process" + (count == 1 ? "" : "es"), "ms", 1e6,
        [&] { return spawn_and_wait_ns(BENCH_TRIVIAL, count); });
  }
}

void parse(int argc, char **argv) {
  static const option known[] = {{"json", required_argument, nullptr, 'j'}, {"rounds", required_argument, nullptr, 'r'},
                                 {"only", required_argument, nullptr, 'o'}, {"quick", no_argument, nullptr, 'q'},
                                 {"help", no_argument, nullptr, 'h'},       {nullptr, 0, nullptr, 0}};
  int c;
  while ((c = getopt_long(argc, argv, "h", known, nullptr)) != -1) {
    if (c == 'j') {
      settings.json = optarg;
    } else if (c == 'r') {
      settings.rounds = std::max(1, std::atoi(optarg));
    } else if (c == 'o') {
      settings.only = optarg;
    } else if (c == 'q') {
      settings.quick = true;
      settings.rounds = 3;
    } else {
      std::fprintf(c == 'h' ? stdout : stderr,
                   "usage: bench_worker [--json FILE] [--rounds N] [--only TEXT] [--quick]\n"
                   "  --json FILE   write the rows as JSON, too\n"
                   "  --rounds N    rounds whose median is given (7)\n"
                   "  --only TEXT   only rows whose name contains TEXT\n"
                   "  --quick       smaller sizes and 3 rounds: to see that it works\n");
      std::exit(c == 'h' ? 0 : 2);
    }
  }
}

}  // namespace

int main(int argc, char **argv) {
  parse(argc, argv);
  const double added_mib = added_by_first_worker_mib();
  const std::string machine = machine_text();
  const double busy = busy_ns(), own = own_ns();
  const uint64_t start = now_ns();
  std::printf("libsimpler %s on %s\n", simpler_version_string(), machine.c_str());
  bench_machine();
  bench_tasks();
  bench_empty_runs();
  bench_vector_example();
  bench_staging();
  bench_register();
  bench_start();
  bench_idle(added_mib);
  const double wall = static_cast<double>(now_ns() - start) * usable_cpus();
  const double foreign = std::max(0.0, (busy_ns() - busy - (own_ns() - own)) / wall * 100);
  std::printf("\nforeign CPU time: %.1f %%%s; %zu of the targets missed\n", foreign,
              foreign > 5 ? " (too much: run again on a quiet machine)" : "", report.missed());
  if (!settings.json.empty() && !report.write_json(settings.json, machine, foreign)) {
    std::fprintf(stderr, "bench_worker: %s could not be written\n", settings.json.c_str());
    return 1;
  }
  return 0;
}
