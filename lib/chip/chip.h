// One simulated accelerator: cores, carriers, AICPU and callable table behind four calls. The same object lives in the
// process simpler-chip (behind the control pipe) and, for chips in-process, in the host.
//
// Threads: `load`, `unload`, `stop` are called by one control thread at a time. Runs arrive through the link and are executed
// by the chip's own threads: one AICPU orchestrator thread and the carriers. The chip owns no descriptor of the link or GM;
// both outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/unique_fd.h"
#include "control/link.h"
#include "control/messages.h"

namespace simpler::chip {

class Chip {
 public:
  // Brings the chip up: starts its threads, resets the cores and completes the handshake with each of them. Throws
  // INVALID_ARGUMENT (unknown platform, geometry), OUT_OF_MEMORY, SYSTEM_ERROR.
  Chip(const control::ChipConfig &config, control::Link link, std::span<std::byte> gm);
  // stop(), then frees everything.
  ~Chip();
  Chip(const Chip &) = delete;
  Chip &operator=(const Chip &) = delete;

  control::ChipReady ready() const;

  // Loads a callable into slot `cid`. `images` is a descriptor of the sealed memfd that holds the images of the manifest.
  // Throws LOAD_IMAGE, LOAD_SYMBOL, LOAD_VERSION, INVALID_ARGUMENT, ALREADY_EXISTS (slot in use). A callable that was
  // unloaded but is still used by a run keeps its code until that run ends; its slot is free at once.
  control::LoadedCallable load(uint32_t cid, uint32_t generation, const control::CallableManifest &manifest,
                               UniqueFd images);
  // Frees slot `cid`. Throws NOT_FOUND if the slot does not hold that generation. Never waits for runs.
  void unload(uint32_t cid, uint32_t generation);

  // Ends the chip: takes no further run, cancels what runs (kernels that are executing are waited for), sends each core its
  // exit request and waits for the acknowledgement, joins all threads. Idempotent. Unbounded if a kernel never returns: a
  // process is then killed by its host; in-process the host decides not to call it.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace simpler::chip
