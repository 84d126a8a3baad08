// simpler_worker_create, _destroy, _get_info, _chip_pid.
#include "host/worker.h"
#include "api/guard.h"

using namespace simpler;
using namespace simpler::api;
using host::HandleKind;
using host::Worker;

extern "C" {

simpler_status simpler_worker_create(const simpler_worker_options *options, simpler_worker **worker, simpler_error **err) {
  if (worker != nullptr) *worker = nullptr;
  return guard(err, [&] {
    refuse_in_callback("simpler_worker_create");
    host::check_process();
    const simpler_worker_options defaults = SIMPLER_WORKER_OPTIONS_INIT;
    // Read without checks first: whoever gave a free function gets it called, whatever else is wrong.
    simpler_log_fn log = nullptr;
    void *log_user_data = nullptr;
    simpler_free_fn log_free = nullptr;
    if (options != nullptr && options->struct_size >= offsetof(simpler_worker_options, log_free) + sizeof(simpler_free_fn) &&
        options->struct_size <= 64 * 1024) {
      log = options->log;
      log_user_data = options->log_user_data;
      log_free = options->log_free;
    }
    struct FreeOnError {
      simpler_free_fn function;
      void *user_data;
      ~FreeOnError() {
        if (function != nullptr) function(user_data);
      }
    } free_on_error{log_free, log_user_data};
    require(worker, "worker");
    const simpler_worker_options known = options != nullptr ? read_struct(options, defaults, "options") : defaults;
    const host::WorkerConfig config = host::check_options(known);
    auto sink = std::make_unique<host::LogSink>(config.log_level, log, log_user_data, log_free);
    free_on_error.function = nullptr;  // the sink has it now
    std::shared_ptr<Worker> created = Worker::create(config, std::move(sink));
    *worker = static_cast<simpler_worker *>(host::add_handle(HandleKind::kWorker, std::move(created)));
  });
}

simpler_status simpler_worker_destroy(simpler_worker *worker, simpler_error **err) {
  return guard(err, [&] {
    if (worker == nullptr) return;
    refuse_in_callback("simpler_worker_destroy");
    const auto object = host::find<Worker>(HandleKind::kWorker, worker, "worker");
    object->close();
    try {
      host::remove_handle(HandleKind::kWorker, worker, "worker");
    } catch (const Error &) {
      // Another thread that closed it at the same time has ended the handle.
    }
  });
}

simpler_status simpler_worker_get_info(simpler_worker *worker, simpler_worker_info *info, simpler_error **err) {
  return guard(err, [&] {
    const auto object = host::find<Worker>(HandleKind::kWorker, worker, "worker");
    write_struct(require(info, "info"), object->info(), "info");
  });
}

simpler_status simpler_worker_chip_pid(simpler_worker *worker, uint32_t chip, int64_t *pid, simpler_error **err) {
  if (pid != nullptr) *pid = 0;
  return guard(err, [&] {
    const auto object = host::find<Worker>(HandleKind::kWorker, worker, "worker");
    *require(pid, "pid") = object->chip_pid(chip);
  });
}

}  // extern "C"
