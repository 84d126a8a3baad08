// A chip in a child process, behind control::ChipProcess.
#include "build_id.h"
#include "host/chip_port.h"

namespace simpler::host {

namespace {

class ProcessChipPort : public ChipPort {
 public:
  ProcessChipPort(control::ControlLoop &loop, const std::string &path, ChipPortOptions options) {
    control::ChipProcess::Options process;
    process.path = path;
    process.config = options.config;
    process.build_id = SIMPLER_BUILD_ID;
    process.gm_fd = options.gm->fd();
    process.link_fd = options.link->fd();
    process.on_ready = std::move(options.on_ready);
    // Keeps both segments, and with them the descriptors, until the process is gone.
    process.on_gone = [on_gone = std::move(options.on_gone), link = options.link,
                       gm = options.gm](const control::ChipExit &exit) { on_gone(exit); };
    process_ = control::ChipProcess::spawn(loop, std::move(process));
  }

  int64_t pid() const override { return process_->pid(); }
  void load(uint32_t cid, uint32_t generation, std::shared_ptr<const control::CallableManifest> manifest,
            std::shared_ptr<const UniqueFd> images, control::RegisterReplyFn reply) override {
    process_->register_callable(cid, generation, std::move(manifest), std::move(images), std::move(reply));
  }
  void unload(uint32_t cid, uint32_t generation, control::ReplyFn reply) override {
    process_->unregister_callable(cid, generation, std::move(reply));
  }
  void shut_down(uint64_t grace_ns) override { process_->shut_down(grace_ns); }
  void kill() override { process_->kill(); }

 private:
  std::shared_ptr<control::ChipProcess> process_;
};

}  // namespace

std::unique_ptr<ChipPort> start_process_chip(control::ControlLoop &loop, const std::string &path, ChipPortOptions options) {
  return std::make_unique<ProcessChipPort>(loop, path, std::move(options));
}

}  // namespace simpler::host
