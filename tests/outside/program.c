/* program CALLABLE.so: registers the callable, whose single kernel adds one to each element, runs it, checks the result. */
#include <simpler.h>
#include <stdio.h>
#include <stdlib.h>

static void check(simpler_status status, simpler_error *error, const char *what) {
  if (status == SIMPLER_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, simpler_status_name(status), simpler_error_message(error));
  exit(1);
}

int main(int argc, char **argv) {
  simpler_worker_options options = SIMPLER_WORKER_OPTIONS_INIT;
  simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
  simpler_task task = SIMPLER_TASK_INIT;
  simpler_image image = {NULL, NULL, 0};
  simpler_worker *worker;
  simpler_callable *callable;
  simpler_error *error = NULL;
  simpler_tensor_arg arg;
  float values[64];
  const uint64_t shape[1] = {64};
  int i;

  if (argc != 2) {
    fprintf(stderr, "usage: program CALLABLE.so\n");
    return 2;
  }
  for (i = 0; i < 64; i++) values[i] = (float)i;

  check(simpler_worker_create(&options, &worker, &error), error, "create");
  image.path = argv[1];
  desc.images = &image;
  desc.image_count = 1;
  check(simpler_worker_register(worker, &desc, &callable, &error), error, "register");

  arg = simpler_tensor_arg_make(values, SIMPLER_TAG_INOUT, SIMPLER_DTYPE_FLOAT32, 1, shape);
  task.callable = callable;
  task.tensors = &arg;
  task.tensor_count = 1;
  check(simpler_worker_run(worker, &task, NULL, &error), error, "run");
  check(simpler_worker_unregister(worker, callable, &error), error, "unregister");
  check(simpler_worker_destroy(worker, &error), error, "destroy");

  for (i = 0; i < 64; i++) {
    if (values[i] != (float)i + 1.0f) {
      fprintf(stderr, "element %d is %g instead of %d\n", i, (double)values[i], i + 1);
      return 1;
    }
  }
  return 0;
}
