/* vector_example: computes f = (a + b + 1)(a + b + 2) + (a + b) on simulated chips. See usage(). */
#include <getopt.h>
#include <simpler.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "vector_example.h"

enum {
  EXIT_WRONG = 1, /* something failed, or a result is wrong */
  EXIT_USAGE = 2
};

static void usage(FILE *file) {
  fprintf(file,
          "usage: vector_example [OPTION...]\n"
          "\n"
          "Computes f = (a + b + 1)(a + b + 2) + (a + b) on simulated chips, as a graph of five kernel tasks; registers,\n"
          "runs and unregisters callables while the worker lives; checks every element. Exit status 0: all is right.\n"
          "\n"
          "  --chips N            chips to use, 1 to 64 (default 2)\n"
          "  --platform NAME      a2a3sim (default) or a5sim\n"
          "  --in-process         chips as threads of this process instead of processes of their own\n"
          "  --repeat N           runs to measure (default 100)\n"
          "  --input-a FILE.npy   a: float32 in C order, any shape (default: 128x128 made-up numbers)\n"
          "  --input-b FILE.npy   b: of the same shape (default: made-up numbers)\n"
          "  --output FILE.npy    where to store f\n"
          "  --callable FILE.so   kernels and orchestrations (default: vector_example.so beside this program)\n"
          "  --help               this text\n");
}

typedef struct options {
  example_settings settings;
  const char *input_a, *input_b, *output;
} options;

static int parse_number(const char *name, const char *text, uint32_t max, uint32_t *number) {
  char *end;
  const unsigned long value = strtoul(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end != '\0' || value < 1 || value > max) {
    fprintf(stderr, "vector_example: --%s is '%s'; expected is a number from 1 to %u\n", name, text, max);
    return 0;
  }
  *number = (uint32_t)value;
  return 1;
}

/* Returns -1 to go on, else the exit status. */
static int parse_options(int argc, char **argv, options *o) {
  static const struct option known[] = {
      {"chips", required_argument, NULL, 'n'},   {"platform", required_argument, NULL, 'p'},
      {"in-process", no_argument, NULL, 'i'},    {"repeat", required_argument, NULL, 'r'},
      {"input-a", required_argument, NULL, 'a'}, {"input-b", required_argument, NULL, 'b'},
      {"output", required_argument, NULL, 'o'},  {"callable", required_argument, NULL, 'c'},
      {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
  };
  int c;
  while ((c = getopt_long(argc, argv, "h", known, NULL)) != -1) {
    switch (c) {
      case 'n':
        if (!parse_number("chips", optarg, 64, &o->settings.chips)) return EXIT_USAGE;
        break;
      case 'p':
        o->settings.platform = optarg;
        break;
      case 'i':
        o->settings.in_process = 1;
        break;
      case 'r':
        if (!parse_number("repeat", optarg, 1000000000, &o->settings.repeat)) return EXIT_USAGE;
        break;
      case 'a':
        o->input_a = optarg;
        break;
      case 'b':
        o->input_b = optarg;
        break;
      case 'o':
        o->output = optarg;
        break;
      case 'c':
        o->settings.callable = optarg;
        break;
      case 'h':
        usage(stdout);
        return 0;
      default:
        fprintf(stderr, "'vector_example --help' lists the options\n");
        return EXIT_USAGE;
    }
  }
  if (optind < argc) {
    fprintf(stderr, "vector_example: unexpected argument '%s'; --help lists the options\n", argv[optind]);
    return EXIT_USAGE;
  }
  return -1;
}

/* vector_example.so in the folder of this program; malloc'ed. */
static char *default_callable(void) {
  static const char name[] = "vector_example.so";
  char folder[4096], *slash, *path;
  const ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
  if (length <= 0) return strdup(name);
  folder[length] = '\0';
  slash = strrchr(folder, '/');
  if (slash == NULL) return strdup(name);
  slash[1] = '\0';
  path = malloc(strlen(folder) + sizeof name);
  if (path != NULL) strcat(strcpy(path, folder), name);
  return path;
}

/* ---- inputs ----------------------------------------------------------------------------------------------------------- */

static void print_shape(FILE *file, const npy_array *array) {
  uint32_t i;
  for (i = 0; i < array->rank; i++) fprintf(file, "%s%llu", i == 0 ? "" : "x", (unsigned long long)array->shape[i]);
}

/* Fills an array of the shape of `like`, or of 128x128, with small made-up numbers. */
static int make_up(npy_array *array, const npy_array *like, uint64_t seed) {
  uint64_t i;
  if (like != NULL) {
    *array = *like;
  } else {
    array->rank = 2;
    array->shape[0] = array->shape[1] = 128;
    array->elements = 128 * 128;
  }
  array->data = malloc(array->elements == 0 ? 1 : (size_t)array->elements * sizeof(float));
  if (array->data == NULL) return 0;
  for (i = 0; i < array->elements; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    array->data[i] = (float)(seed >> 40) / (float)(1 << 20) - 8.0f; /* -8 to 8 */
  }
  return 1;
}

static int check_inputs(const options *o, const npy_array *a, const npy_array *b) {
  if (a->rank == 0) {
    fprintf(stderr, "vector_example: %s holds a single number; an array of 1 to %d dimensions is needed\n", o->input_a,
            NPY_RANK_MAX);
    return 0;
  }
  if (a->rank != b->rank || memcmp(a->shape, b->shape, a->rank * sizeof a->shape[0]) != 0) {
    fprintf(stderr, "vector_example: the shapes differ: a is ");
    print_shape(stderr, a);
    fprintf(stderr, ", b is ");
    print_shape(stderr, b);
    fprintf(stderr, "\n");
    return 0;
  }
  return 1;
}

static int read_inputs(const options *o, npy_array *a, npy_array *b) {
  npy_error error;
  if ((o->input_a != NULL && !npy_read(o->input_a, a, &error)) || (o->input_b != NULL && !npy_read(o->input_b, b, &error))) {
    fprintf(stderr, "vector_example: %s\n", error.text);
    return 0;
  }
  if ((o->input_a == NULL && !make_up(a, o->input_b != NULL ? b : NULL, 1)) || (o->input_b == NULL && !make_up(b, a, 2))) {
    fprintf(stderr, "vector_example: out of memory\n");
    return 0;
  }
  return check_inputs(o, a, b);
}

int main(int argc, char **argv) {
  options o = {{NULL, NULL, 2, 100, 0}, NULL, NULL, NULL};
  npy_array a = {0}, b = {0}, f = {0};
  npy_error error;
  char *callable = NULL;
  int status = parse_options(argc, argv, &o);
  if (status >= 0) return status;
  if (o.settings.callable == NULL) o.settings.callable = callable = default_callable();

  status = EXIT_WRONG;
  if (read_inputs(&o, &a, &b) && example_run(&o.settings, &a, &b, &f)) {
    if (o.output == NULL) {
      status = 0;
    } else if (npy_write(o.output, &f, &error)) {
      printf("wrote %s\n", o.output);
      status = 0;
    } else {
      fprintf(stderr, "vector_example: %s\n", error.text);
    }
  }
  npy_free(&a);
  npy_free(&b);
  npy_free(&f);
  free(callable);
  return status;
}
