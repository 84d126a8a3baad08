// The callables that a chip has loaded: slots (cids) with generations, code with reference counts.
//
// A slot is taken by `load` and free again at once after `unload`; the code behind it is dropped when the last run that uses it lets go
// of its reference. A run names (cid, generation), so that a stale cid cannot reach the slot's next tenant.
//
// Threads: load and unload from the control thread, find from the orchestrator thread. One lock guards the slots; images are
// loaded and released outside of it. A Callable is immutable once it is in the table.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "chip/image_loader.h"
#include "control/messages.h"
#include "simpler/device.h"

namespace simpler::chip {

struct Kernel {
  uint32_t id = SIMPLER_NO_KERNEL;
  simpler_core_type core_type = 0;
  simpler_kernel_fn function = nullptr;
  std::string name;
};

// One loaded callable: images, orchestration, kernels.
class Callable {
 public:
  // Loads the images and resolves every symbol. `images` is the memfd in which the manifest's ranges lie. Throws LOAD_IMAGE,
  // LOAD_SYMBOL, LOAD_VERSION, INVALID_ARGUMENT (the description makes no sense), SYSTEM_ERROR.
  static std::shared_ptr<const Callable> load(const control::CallableManifest &manifest, const UniqueFd &images);

  const std::string &name() const { return name_; }
  simpler_orchestration_fn orchestration() const { return orchestration_; }  // nullptr: the single kernel is the run
  std::span<const Kernel> kernels() const { return kernels_; }               // sorted by id
  // nullptr when there is no such kernel.
  const Kernel *find_kernel(uint32_t id) const;

 private:
  Callable() = default;
  void load_table(const control::CallableManifest &manifest);
  void load_symbols(const control::CallableManifest &manifest);
  void add_kernel(uint32_t id, simpler_core_type type, simpler_kernel_fn function, std::string name);
  void finish();

  std::string name_;
  // Declared before what points into them.
  std::vector<std::shared_ptr<const LoadedImage>> images_;
  simpler_orchestration_fn orchestration_ = nullptr;
  std::vector<Kernel> kernels_;
};

class CallableTable {
 public:
  explicit CallableTable(uint32_t capacity) : slots_(capacity) {}

  uint32_t capacity() const { return static_cast<uint32_t>(slots_.size()); }
  // Throws what Callable::load throws, INVALID_ARGUMENT (cid beyond capacity) and ALREADY_EXISTS (slot in use).
  std::shared_ptr<const Callable> load(uint32_t cid, uint32_t generation, const control::CallableManifest &manifest,
                                       const UniqueFd &images);
  // Throws NOT_FOUND when the slot does not hold that generation.
  void unload(uint32_t cid, uint32_t generation);
  // Throws INVALID_HANDLE when the slot does not hold that generation.
  std::shared_ptr<const Callable> find(uint32_t cid, uint32_t generation) const;

 private:
  struct Slot {
    uint32_t generation = 0;
    std::shared_ptr<const Callable> callable;  // null: free
  };
  std::string describe(uint32_t cid) const;  // under mutex_

  mutable std::mutex mutex_;  // guards slots_; nothing else is locked or released under it
  std::vector<Slot> slots_;
};

}  // namespace simpler::chip
