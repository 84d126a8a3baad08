// simpler_worker_register, _unregister, simpler_callable_get_info.
#include <algorithm>

#include "api/guard.h"
#include "host/worker.h"

using namespace simpler;
using namespace simpler::api;
using host::CallableHandle;
using host::HandleKind;
using host::Worker;

extern "C" {

simpler_status simpler_worker_register(simpler_worker *worker, const simpler_callable_desc *desc,
                                       simpler_callable **callable, simpler_error **err) {
  if (callable != nullptr) *callable = nullptr;
  return guard(err, [&] {
    refuse_in_callback("simpler_worker_register");
    const auto object = host::find<Worker>(HandleKind::kWorker, worker, "worker");
    require(callable, "callable");
    const simpler_callable_desc defaults = SIMPLER_CALLABLE_DESC_INIT;
    const simpler_callable_desc known = read_struct(require(desc, "desc"), defaults, "desc");
    std::shared_ptr<CallableHandle> handle = object->register_callable(known);
    *callable = static_cast<simpler_callable *>(host::add_handle(HandleKind::kCallable, std::move(handle)));
    object->adopt_handle(HandleKind::kCallable, *callable);
  });
}

simpler_status simpler_worker_unregister(simpler_worker *worker, simpler_callable *callable, simpler_error **err) {
  return guard(err, [&] {
    refuse_in_callback("simpler_worker_unregister");
    const auto object = host::find<Worker>(HandleKind::kWorker, worker, "worker");
    if (callable == nullptr) return;
    const auto handle = host::find<CallableHandle>(HandleKind::kCallable, callable, "callable");
    if (handle->worker.lock() != object) throw_error(SIMPLER_INVALID_HANDLE, "callable: it belongs to another worker");
    // Of two racing calls, the one that ends the handle goes on.
    host::remove_handle(HandleKind::kCallable, callable, "callable");
    object->forget_handle(callable);
    object->unregister(*handle);
  });
}

simpler_status simpler_callable_get_info(simpler_callable *callable, simpler_callable_info *info, simpler_error **err) {
  return guard(err, [&] {
    const auto handle = host::find<CallableHandle>(HandleKind::kCallable, callable, "callable");
    const host::CallableEntry &entry = *handle->entry;
    simpler_callable_info value = SIMPLER_CALLABLE_INFO_INIT;
    value.cid = entry.cid;
    value.generation = entry.generation;
    value.kernel_count = entry.loaded.kernel_count;
    std::copy(entry.digest.begin(), entry.digest.end(), value.digest);
    write_struct(require(info, "info"), value, "info");
  });
}

}  // extern "C"
