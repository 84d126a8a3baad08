#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* lstat */
#endif
#include "npy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "npy.c stores numbers as the machine has them: little-endian machines only"
#endif

enum {
  MAGIC_BYTES = 6,
  HEADER_BYTES_MAX = 65536,
  ALIGNMENT = 64 /* the data start at a multiple of this */
};
static const char kMagic[MAGIC_BYTES + 1] = "\x93NUMPY";

static int fail(npy_error *error, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
static int fail(npy_error *error, const char *path, const char *format, ...) {
  va_list args;
  int used = snprintf(error->text, sizeof error->text, "%s: ", path);
  if (used < 0 || (size_t)used >= sizeof error->text) return 0;
  va_start(args, format);
  vsnprintf(error->text + used, sizeof error->text - (size_t)used, format, args);
  va_end(args);
  return 0;
}

/* ---- the header: a Python dict literal with the keys descr, fortran_order, shape ------------------------------------ */

typedef struct parser {
  const char *at;
  const char *end;
} parser;

static void skip_blanks(parser *p) {
  while (p->at < p->end && strchr(" \t\r\n", *p->at) != NULL && *p->at != '\0') p->at++;
}

/* Takes `word` if it comes next. */
static int take(parser *p, const char *word) {
  const size_t length = strlen(word);
  skip_blanks(p);
  if ((size_t)(p->end - p->at) < length || memcmp(p->at, word, length) != 0) return 0;
  p->at += length;
  return 1;
}

static int take_string(parser *p, char *text, size_t size) {
  char quote;
  size_t length = 0;
  skip_blanks(p);
  if (p->at == p->end || (*p->at != '\'' && *p->at != '"')) return 0;
  quote = *p->at++;
  while (p->at < p->end && *p->at != quote) {
    if (length + 1 == size) return 0;
    text[length++] = *p->at++;
  }
  if (p->at == p->end) return 0;
  p->at++;
  text[length] = '\0';
  return 1;
}

static int take_number(parser *p, uint64_t *number) {
  int digits = 0;
  skip_blanks(p);
  for (*number = 0; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++, digits++) {
    const uint64_t digit = (uint64_t)(*p->at - '0');
    if (*number > (UINT64_MAX - digit) / 10) return 0;
    *number = *number * 10 + digit;
  }
  return digits > 0;
}

/* (), (5,), (5, 3), (5, 3,) */
static int take_shape(parser *p, npy_array *array, int *too_many) {
  *too_many = 0;
  if (!take(p, "(")) return 0;
  for (array->rank = 0; !take(p, ")"); array->rank++) {
    if (array->rank == NPY_RANK_MAX) {
      *too_many = 1;
      return 0;
    }
    if (!take_number(p, &array->shape[array->rank])) return 0;
    take(p, "L"); /* written by Python 2 */
    if (!take(p, ",") && (array->rank == 0 || p->at == p->end || *p->at != ')')) return 0;
  }
  return 1;
}

static int parse_header(const char *path, const char *text, size_t length, npy_array *array, npy_error *error) {
  parser p;
  char key[32], descr[32] = "";
  int has_order = 0, has_shape = 0, too_many = 0;
  p.at = text;
  p.end = text + length;
  if (!take(&p, "{")) return fail(error, path, "the header is not a Python dict");
  while (!take(&p, "}")) {
    if (!take_string(&p, key, sizeof key) || !take(&p, ":"))
      return fail(error, path, "the header is not a valid Python dict");
    if (strcmp(key, "descr") == 0) {
      if (!take_string(&p, descr, sizeof descr)) {
        return fail(error, path, "the dtype is a structured one; only '<f4' (little-endian float32) can be read");
      }
    } else if (strcmp(key, "fortran_order") == 0) {
      if (take(&p, "True"))
        return fail(error, path, "the array is in Fortran order; save numpy.ascontiguousarray(a) instead");
      if (!take(&p, "False")) return fail(error, path, "fortran_order is neither True nor False");
      has_order = 1;
    } else if (strcmp(key, "shape") == 0) {
      if (!take_shape(&p, array, &too_many)) {
        return too_many ? fail(error, path, "the array has more than %d dimensions", NPY_RANK_MAX)
                        : fail(error, path, "the shape is not a tuple of numbers");
      }
      has_shape = 1;
    } else {
      return fail(error, path, "unknown key '%s' in the header", key);
    }
    take(&p, ",");
  }
  if (descr[0] == '\0' || !has_order || !has_shape) {
    return fail(error, path, "the header lacks %s", descr[0] == '\0' ? "descr" : !has_order ? "fortran_order" : "shape");
  }
  if (strcmp(descr, "<f4") != 0) {
    return fail(error, path, "dtype is '%s'; only '<f4' (little-endian float32) can be read: save a.astype('<f4') instead",
                descr);
  }
  return 1;
}

/* ---- reading -------------------------------------------------------------------------------------------------------- */

static int count_elements(npy_array *array) {
  uint32_t i;
  array->elements = 1;
  for (i = 0; i < array->rank; i++) {
    if (array->shape[i] == 0) {
      array->elements = 0;
      return 1;
    }
  }
  for (i = 0; i < array->rank; i++) {
    if (array->elements > SIZE_MAX / sizeof(float) / array->shape[i]) return 0;
    array->elements *= array->shape[i];
  }
  return 1;
}

static int read_header(const char *path, FILE *file, npy_array *array, npy_error *error) {
  unsigned char start[MAGIC_BYTES + 2], length_bytes[4];
  size_t length_size, length = 0, i;
  char *text;
  int ok;
  if (fread(start, 1, sizeof start, file) != sizeof start || memcmp(start, kMagic, MAGIC_BYTES) != 0) {
    return fail(error, path, "not an .npy file");
  }
  if ((start[MAGIC_BYTES] != 1 && start[MAGIC_BYTES] != 2) || start[MAGIC_BYTES + 1] != 0) {
    return fail(error, path, ".npy format %d.%d; only 1.0 and 2.0 can be read", start[MAGIC_BYTES], start[MAGIC_BYTES + 1]);
  }
  length_size = start[MAGIC_BYTES] == 1 ? 2 : 4;
  if (fread(length_bytes, 1, length_size, file) != length_size) return fail(error, path, "the file ends within its header");
  for (i = length_size; i > 0; i--) length = length << 8 | length_bytes[i - 1];
  if (length > HEADER_BYTES_MAX)
    return fail(error, path, "a header of %zu bytes; at most %d are read", length, HEADER_BYTES_MAX);
  text = malloc(length + 1);
  if (text == NULL) return fail(error, path, "out of memory");
  ok = fread(text, 1, length, file) == length || fail(error, path, "the file ends within its header");
  ok = ok && parse_header(path, text, length, array, error);
  free(text);
  if (ok && !count_elements(array)) return fail(error, path, "the shape is too large for this machine");
  return ok;
}

/* Reads in pieces and grows the memory with them, so that a header that lies costs nothing. */
static int read_data(const char *path, FILE *file, npy_array *array, npy_error *error) {
  const size_t bytes = (size_t)array->elements * sizeof(float);
  size_t have = 0, room = 0;
  char *data = NULL;
  do {
    size_t got;
    if (have == room) {
      char *more;
      room = room == 0 ? (size_t)1 << 20 : 2 * room;
      if (room > bytes) room = bytes;
      more = realloc(data, room == 0 ? 1 : room);
      if (more == NULL) {
        free(data);
        return fail(error, path, "out of memory: the array has %zu bytes", bytes);
      }
      data = more;
    }
    got = fread(data + have, 1, room - have, file);
    if (got == 0 && have < bytes) {
      free(data);
      return ferror(file) ? fail(error, path, "%s", strerror(errno))
                          : fail(error, path, "the file ends after %zu of %zu bytes of data", have, bytes);
    }
    have += got;
  } while (have < bytes);
  array->data = (float *)(void *)data;
  if (fgetc(file) != EOF) {
    npy_free(array);
    return fail(error, path, "the file goes on after the %zu bytes of its array", bytes);
  }
  return 1;
}

int npy_read(const char *path, npy_array *array, npy_error *error) {
  FILE *file = fopen(path, "rb");
  int ok;
  memset(array, 0, sizeof *array);
  if (file == NULL) return fail(error, path, "%s", strerror(errno));
  ok = read_header(path, file, array, error) && read_data(path, file, array, error);
  fclose(file);
  if (!ok) memset(array, 0, sizeof *array);
  return ok;
}

void npy_free(npy_array *array) {
  free(array->data);
  memset(array, 0, sizeof *array);
}

/* ---- writing -------------------------------------------------------------------------------------------------------- */

int npy_write(const char *path, const npy_array *array, npy_error *error) {
  char header[512];
  size_t length, total;
  uint32_t i;
  FILE *file;
  int ok, cause;
  if (array->rank > NPY_RANK_MAX) return fail(error, path, "more than %d dimensions", NPY_RANK_MAX);
  length = (size_t)snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
  for (i = 0; i < array->rank; i++) {
    length += (size_t)snprintf(header + length, sizeof header - length, i == 0 ? "%llu," : " %llu,",
                               (unsigned long long)array->shape[i]);
  }
  if (array->rank > 1) length--; /* only a tuple of one needs its comma */
  length += (size_t)snprintf(header + length, sizeof header - length, "), }");
  total = (MAGIC_BYTES + 4 + length + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  while (MAGIC_BYTES + 4 + length + 1 < total) header[length++] = ' ';
  header[length++] = '\n';

  file = fopen(path, "wb");
  if (file == NULL) return fail(error, path, "%s", strerror(errno));
  errno = 0;
  ok = fwrite(kMagic, 1, MAGIC_BYTES, file) == MAGIC_BYTES && fputc(1, file) != EOF && fputc(0, file) != EOF &&
       fputc((int)(length & 0xff), file) != EOF && fputc((int)(length >> 8), file) != EOF &&
       fwrite(header, 1, length, file) == length &&
       (array->elements == 0 || fwrite(array->data, sizeof(float), (size_t)array->elements, file) == array->elements);
  cause = errno;
  if (fclose(file) != 0) {
    if (ok) cause = errno;
    ok = 0;
  }
  if (!ok) {
    struct stat status; /* a device or a pipe is not ours to remove */
    if (lstat(path, &status) == 0 && S_ISREG(status.st_mode)) remove(path);
    return fail(error, path, "%s", strerror(cause));
  }
  return 1;
}
