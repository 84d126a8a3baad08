// The callables of a worker: content -> loaded copy, cids, handle counts, broadcast to all chips with roll-back.
//
//   state        entered by                                        left by
//   kLoading     first registration of a content                   all chips answered: kLoaded, or one refused: kFailed
//   kLoaded      every chip has it                                 no handle and no run left: kUnloading
//   kUnloading   unload sent to every chip                         all answered: kGone, the cid is free
//   kFailed      a chip refused; rolled back, the cid is free
//
// Any thread may call anything.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/wait.h"
#include "control/messages.h"
#include "host/chip_port.h"
#include "simpler.h"

namespace simpler::host {

enum class CallableState : uint32_t {
  kLoading,
  kLoaded,
  kUnloading,
  kGone,
  kFailed
};

struct CallableEntry {
  // Fixed once made. The manifest and the images stay, so that a chip that is started anew can load it again.
  Digest digest{};
  std::shared_ptr<const control::CallableManifest> manifest;
  std::shared_ptr<const UniqueFd> images;
  std::vector<simpler_parameter> signature;
  uint32_t cid = 0;
  uint32_t generation = 0;
  // Written by the loader before it leaves kLoading.
  control::LoadedCallable loaded;
  ErrorInfo error;
  // Written under the registry's lock; read by waiters without it (seq_cst, base/wait.h).
  std::atomic<CallableState> state{CallableState::kLoading};
  Doorbell changed;
  // Under the registry's lock.
  uint32_t handles = 0;
  uint32_t runs = 0;
};

class Registry {
 public:
  // Chips that can take requests now, asked anew for each broadcast.
  using LivePorts = std::function<std::vector<std::shared_ptr<ChipPort>>()>;

  Registry(uint32_t capacity, LivePorts live_ports);

  // One more handle of the content. Waits for the chips. Throws as simpler_worker_register documents.
  std::shared_ptr<CallableEntry> add(const simpler_callable_desc &desc);
  // One handle less. Waits for the chips only if it unloads now.
  void remove(const std::shared_ptr<CallableEntry> &entry);

  // A run uses it from now on; throws CLOSED when it is being unloaded already.
  void begin_run(CallableEntry &entry);
  // The run has ended; unloads, without waiting, if it was the last use.
  void end_run(const std::shared_ptr<CallableEntry> &entry);

  uint32_t loaded() const;

 private:
  struct Cid {
    uint32_t generation = 0;
    bool used = false;
  };
  struct Images;

  std::shared_ptr<CallableEntry> find_or_reserve(const simpler_callable_desc &desc, const Images &images, bool *is_new);
  void load(const std::shared_ptr<CallableEntry> &entry);
  bool reserve_cid(CallableEntry &entry);                             // under the lock; false if all are in use
  void start_unloading(const std::shared_ptr<CallableEntry> &entry);  // under the lock
  void begin_unload(const std::shared_ptr<CallableEntry> &entry);
  void set_state(CallableEntry &entry, CallableState state);
  static void wait_while(CallableEntry &entry, CallableState state);

  const LivePorts live_ports_;
  // Guards everything below and the counts and states of the entries. No callback and no wait under it.
  mutable std::mutex mutex_;
  std::vector<Cid> cids_;
  std::map<Digest, std::shared_ptr<CallableEntry>> by_content_;
  std::vector<std::shared_ptr<CallableEntry>> unloading_;  // their cids become free soon
};

}  // namespace simpler::host
