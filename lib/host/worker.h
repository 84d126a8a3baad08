// A worker: chips, callables, buffers, runs. What the handle simpler_worker stands for.
//
//   state      entered by                         left by
//   kOpen      create                             close()
//   kClosing   the first close()                  everything has been ended: kClosed
//   kClosed
//
// Any thread may call anything; a call that is under way when the worker closes ends with CLOSED or CANCELLED.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/shared_memory.h"
#include "base/wait.h"
#include "control/control_loop.h"
#include "host/chip_port.h"
#include "host/chip_queue.h"
#include "host/gm_allocator.h"
#include "host/handle_table.h"
#include "host/log_sink.h"
#include "host/options.h"
#include "host/registry.h"
#include "host/run.h"

namespace simpler::host {

class Worker;

// What the handle simpler_buffer stands for.
struct BufferState {
  std::weak_ptr<Worker> worker;
  uint64_t gm_offset = 0;
  uint64_t bytes = 0;
  std::byte *data = nullptr;
  // Under the worker's memory lock.
  uint32_t runs = 0;
  bool released = false;
};

// What the handle simpler_callable stands for.
struct CallableHandle {
  std::weak_ptr<Worker> worker;
  std::shared_ptr<CallableEntry> entry;
};

// The arguments of a run, checked for form by the C layer; handles resolved.
struct RunRequest {
  std::shared_ptr<CallableHandle> callable;
  int32_t chip = SIMPLER_CHIP_ANY;
  std::span<const simpler_tensor_arg> tensors;
  std::vector<std::shared_ptr<BufferState>> buffers;  // per tensor; null where it has none
  std::span<const uint64_t> scalars;
  uint32_t window = 0;
  uint64_t heap_bytes = 0;
  uint64_t seed = 0;
  std::string label;
};

class Worker : public std::enable_shared_from_this<Worker> {
 public:
  // Starts all chips and waits for them; throws as simpler_worker_create documents, with nothing left behind.
  static std::shared_ptr<Worker> create(const WorkerConfig &config, std::unique_ptr<LogSink> log);
  ~Worker();

  // Waits until the worker is closed, whoever closes it. Idempotent.
  void close();

  std::shared_ptr<CallableHandle> register_callable(const simpler_callable_desc &desc);
  void unregister(CallableHandle &callable);
  std::shared_ptr<BufferState> create_buffer(uint64_t bytes);
  void release_buffer(BufferState &buffer);  // throws BUSY
  std::shared_ptr<Run> submit(const RunRequest &request);

  simpler_worker_info info() const;
  int64_t chip_pid(uint32_t chip) const;
  const WorkerConfig &config() const { return config_; }

  // Handles of callables and buffers, ended with the worker. (Runs outlive it.)
  void adopt_handle(HandleKind kind, void *handle);
  void forget_handle(void *handle);

 private:
  struct ChipSlot {
    std::shared_ptr<ChipPort> port;
    std::shared_ptr<ChipQueue> queue;
    std::shared_ptr<SharedMemory> link;
    std::atomic<bool> gone{false};
    ErrorInfo start_error;     // under start_mutex_
    bool answered = false;     // under start_mutex_
    control::ChipReady ready;  // under start_mutex_
  };
  enum class State : uint32_t {
    kOpen,
    kClosing,
    kClosed
  };
  // A call that needs the worker to stay open. Throws CLOSED.
  class Lease {
   public:
    explicit Lease(Worker &worker);
    ~Lease();
    Lease(const Lease &) = delete;
    Lease &operator=(const Lease &) = delete;

   private:
    Worker &worker_;
  };

  Worker(const WorkerConfig &config, std::unique_ptr<LogSink> log);
  void start();
  void start_chip(uint32_t index, const std::string &path);
  void wait_for_start();
  void shut_down(uint64_t grace_ns);
  void on_gone(uint32_t index, const control::ChipExit &exit);
  void finish_run(Run &run);
  void give_back(Run &run);
  std::vector<std::shared_ptr<ChipPort>> live_ports() const;
  uint32_t pick_chip(int32_t wanted) const;
  uint64_t allocate_gm(uint64_t bytes, const char *purpose);

  const WorkerConfig config_;
  std::unique_ptr<LogSink> log_;
  std::shared_ptr<SharedMemory> gm_;
  std::unique_ptr<control::ControlLoop> loop_;
  std::vector<std::unique_ptr<ChipSlot>> chips_;
  std::unique_ptr<Registry> registry_;
  std::atomic<uint64_t> next_run_{1};

  // Start-up and end of chips.
  mutable std::mutex start_mutex_;  // guards the start fields of the slots and start_error_; nothing is locked under it
  ErrorInfo start_error_;           // of the first chip that did not come up
  std::atomic<uint32_t> starting_{0};
  std::atomic<bool> start_failed_{false};
  std::atomic<uint32_t> alive_{0};
  Doorbell chips_changed_;

  std::atomic<State> state_{State::kOpen};
  std::atomic<uint32_t> leases_{0};
  Doorbell state_changed_;

  // Guards the allocator and the counts of buffers. Nothing is locked under it.
  mutable std::mutex memory_mutex_;
  GmAllocator allocator_;

  std::mutex handles_mutex_;  // guards the next; the handle table's lock may be taken under it
  std::set<std::pair<void *, HandleKind>> handles_;
};

}  // namespace simpler::host
