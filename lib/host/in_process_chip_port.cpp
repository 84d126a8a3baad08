// A chip whose threads live in this process: the same chip::Chip, without pipe and child. For debuggers and sanitizers.
#include <fcntl.h>
#include <mutex>
#include <thread>
#include <unistd.h>

#include "chip/chip.h"
#include "host/chip_port.h"

namespace simpler::host {

namespace {

// What the chip's threads use. If a kernel never returns, the chip cannot be stopped; all of this is then left to it for good.
struct Resident {
  std::shared_ptr<SharedMemory> link;
  std::shared_ptr<SharedMemory> gm;
  std::mutex mutex;  // one control thread at a time, as chip.h asks
  std::unique_ptr<chip::Chip> chip;
};

class InProcessChipPort : public ChipPort {
 public:
  explicit InProcessChipPort(ChipPortOptions options)
      : resident_(std::make_shared<Resident>()), chip_(options.config.chip), on_gone_(std::move(options.on_gone)) {
    resident_->link = options.link;
    resident_->gm = options.gm;
    ErrorInfo error;
    control::ChipReady ready;
    try {
      resident_->chip =
          std::make_unique<chip::Chip>(options.config, control::Link::attach(options.link->data()), options.gm->span());
      ready = resident_->chip->ready();
    } catch (...) {
      error = capture_current_exception();
      error.chip = static_cast<int32_t>(chip_);
    }
    options.on_ready(error, ready);
    if (!error.ok()) tell_gone(error);
  }
  ~InProcessChipPort() override {
    if (stopper_.joinable()) stopper_.join();
  }

  int64_t pid() const override { return getpid(); }

  void load(uint32_t cid, uint32_t generation, std::shared_ptr<const control::CallableManifest> manifest,
            std::shared_ptr<const UniqueFd> images, control::RegisterReplyFn reply) override {
    control::LoadedCallable loaded;
    const ErrorInfo error = attempt([&] {
      UniqueFd own(fcntl(images->get(), F_DUPFD_CLOEXEC, 3));
      if (!own.valid()) throw_system_error(errno, "duplicating the images of a callable");
      loaded = resident_->chip->load(cid, generation, *manifest, std::move(own));
    });
    reply(error, loaded);
  }

  void unload(uint32_t cid, uint32_t generation, control::ReplyFn reply) override {
    reply(attempt([&] { resident_->chip->unload(cid, generation); }));
  }

  void shut_down(uint64_t grace_ns) override {
    // Stopping waits for kernels that are executing. It happens on a thread of its own, which is given up after the grace:
    // there is no way to end a kernel in this process.
    struct Stop {
      Doorbell bell;
      std::atomic<bool> done{false};
    };
    auto stop = std::make_shared<Stop>();
    std::thread worker([resident = resident_, stop] {
      {
        const std::lock_guard lock(resident->mutex);
        resident->chip.reset();
      }
      stop->done.store(true, std::memory_order_seq_cst);
      stop->bell.ring();
    });
    stopper_ = std::thread([this, stop, grace_ns, worker = std::move(worker)]() mutable {
      if (stop->bell.wait(deadline_after(grace_ns), [&] { return stop->done.load(std::memory_order_seq_cst); })) {
        worker.join();
        tell_gone({});
      } else {
        worker.detach();
        ErrorInfo error;
        error.code = SIMPLER_CHIP_LOST;
        error.chip = static_cast<int32_t>(chip_);
        error.message = fmt::format("chip {} in-process did not stop: a kernel does not return; its threads stay", chip_);
        tell_gone(error);
      }
    });
  }

  void kill() override {}  // threads cannot be ended from outside

 private:
  template <class Function>
  ErrorInfo attempt(Function function) {
    const std::lock_guard lock(resident_->mutex);
    try {
      if (resident_->chip == nullptr) throw_error(SIMPLER_CANCELLED, "chip {} has ended", chip_);
      function();
      return {};
    } catch (...) {
      ErrorInfo error = capture_current_exception();
      error.chip = static_cast<int32_t>(chip_);
      return error;
    }
  }
  void tell_gone(const ErrorInfo &error) {
    control::ChipExit exit;
    exit.pid = getpid();
    exit.expected = error.ok();
    exit.error = error;
    on_gone_(exit);
  }

  const std::shared_ptr<Resident> resident_;
  const uint32_t chip_;
  const control::GoneFn on_gone_;
  std::thread stopper_;
};

}  // namespace

std::unique_ptr<ChipPort> start_in_process_chip(ChipPortOptions options) {
  return std::make_unique<InProcessChipPort>(std::move(options));
}

}  // namespace simpler::host
