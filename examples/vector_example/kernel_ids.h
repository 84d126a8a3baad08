/* kernel_ids.h - the numbers by which tasks name kernels: any numbers, once per callable. */
#ifndef VECTOR_EXAMPLE_KERNEL_IDS_H
#define VECTOR_EXAMPLE_KERNEL_IDS_H

enum {
  KERNEL_ADD = 10,
  KERNEL_ADD_SCALAR = 11,
  KERNEL_MUL = 12
};

#endif /* VECTOR_EXAMPLE_KERNEL_IDS_H */
