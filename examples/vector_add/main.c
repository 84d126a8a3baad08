/* The smallest program: add two vectors on a simulated chip.
 *
 *   cc main.c $(pkg-config --cflags --libs simpler) -o vector_add
 *   ./vector_add vector_add.so */
#include <simpler.h>
#include <stdio.h>
#include <stdlib.h>

enum {
  N = 1000
};

/* Every call that can fail returns a status and, on failure, stores an error object that tells what happened. */
static void check(simpler_status status, simpler_error **error) {
  if (status == SIMPLER_OK) return;
  fprintf(stderr, "vector_add: %s: %s\n", simpler_status_name(status), simpler_error_message(*error));
  exit(1);
}

int main(int argc, char **argv) {
  simpler_error *error = NULL;
  simpler_worker *worker;
  simpler_callable *callable;
  float a[N], b[N], c[N];
  const uint64_t shape[1] = {N};
  int i;
  for (i = 0; i < N; i++) {
    a[i] = (float)i;
    b[i] = (float)(2 * i);
  }

  /* A worker drives chips. The defaults, NULL, are one chip in a process of its own. */
  check(simpler_worker_create(NULL, &worker, &error), &error);

  /* Load the compiled kernel on the chip. */
  simpler_image image = {argc > 1 ? argv[1] : "./vector_add.so", NULL, 0};
  simpler_callable_desc desc = SIMPLER_CALLABLE_DESC_INIT;
  desc.images = &image;
  desc.image_count = 1;
  check(simpler_worker_register(worker, &desc, &callable, &error), &error);

  /* One task: the callable and its arguments. Inputs are copied to the chip, outputs back from it. */
  simpler_tensor_arg tensors[3] = {
      simpler_tensor_arg_make(a, SIMPLER_TAG_INPUT, SIMPLER_DTYPE_FLOAT32, 1, shape),
      simpler_tensor_arg_make(b, SIMPLER_TAG_INPUT, SIMPLER_DTYPE_FLOAT32, 1, shape),
      simpler_tensor_arg_make(c, SIMPLER_TAG_OUTPUT_EXISTING, SIMPLER_DTYPE_FLOAT32, 1, shape),
  };
  simpler_task task = SIMPLER_TASK_INIT;
  task.callable = callable;
  task.tensors = tensors;
  task.tensor_count = 3;
  check(simpler_worker_run(worker, &task, NULL, &error), &error);

  check(simpler_worker_unregister(worker, callable, &error), &error);
  check(simpler_worker_destroy(worker, &error), &error);

  for (i = 0; i < N; i++) {
    if (c[i] != a[i] + b[i]) {
      fprintf(stderr, "vector_add: element %d is %g instead of %g\n", i, (double)c[i], (double)(a[i] + b[i]));
      return 1;
    }
  }
  printf("%d elements added on one chip, all right\n", N);
  return 0;
}
