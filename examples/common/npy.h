/* npy.h - reads and writes .npy files (NumPy's array format) of float32.
 *
 * Versions 1.0 and 2.0, dtype '<f4', C order, up to 8 dimensions; anything else is refused with a message that says what came
 * and what is expected. Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#ifndef EXAMPLES_NPY_H
#define EXAMPLES_NPY_H

#include <stddef.h>
#include <stdint.h>

enum {
  NPY_RANK_MAX = 8
};

typedef struct npy_array {
  uint32_t rank;
  uint64_t shape[NPY_RANK_MAX];
  uint64_t elements; /* product of the shape */
  float *data;       /* malloc'ed by npy_read, never NULL after success */
} npy_array;

/* Where a function puts its message when it returns 0; one line without a newline, with the path. */
typedef struct npy_error {
  char text[512];
} npy_error;

/* 1 on success: `array` is filled in and has to be freed with npy_free. 0 on failure. */
int npy_read(const char *path, npy_array *array, npy_error *error);

/* 1 on success, 0 on failure; a regular file that could not be written completely is removed. */
int npy_write(const char *path, const npy_array *array, npy_error *error);

/* Frees the data and clears the array. */
void npy_free(npy_array *array);

#endif /* EXAMPLES_NPY_H */
