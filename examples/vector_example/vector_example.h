/* vector_example.h - what the example does with a worker. main.c reads options and files and calls it. */
#ifndef VECTOR_EXAMPLE_H
#define VECTOR_EXAMPLE_H

#include <stdint.h>

#include "../common/npy.h"

typedef struct example_settings {
  const char *platform; /* NULL: the default */
  const char *callable; /* path of vector_example.so */
  uint32_t chips;
  uint32_t repeat; /* runs to measure */
  int in_process;
} example_settings;

/* Runs everything on a worker of its own, reports on stdout, and stores f, of the shape of a and b, in `f` (the caller frees
 * f->data). Returns 1 if every element of every run was right. */
int example_run(const example_settings *settings, const npy_array *a, const npy_array *b, npy_array *f);

#endif /* VECTOR_EXAMPLE_H */
