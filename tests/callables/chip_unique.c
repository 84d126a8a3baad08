/* An object with a symbol of binding STB_GNU_UNIQUE, as g++ makes for inline variables and function-local statics of templates:
 * the dynamic loader would merge it with that of other objects and would never unload either. */
#include "simpler/device.h"

/* In assembler, as C has no way to say it. */
__asm__(
    ".pushsection .bss.unique_counter, \"aw\", %nobits\n"
    ".balign 8\n"
    ".type unique_counter, %gnu_unique_object\n"
    ".size unique_counter, 8\n"
    "unique_counter: .zero 8\n"
    ".popsection\n");
extern uint64_t unique_counter __attribute__((visibility("default")));

static void count(const simpler_kernel_context *context, const simpler_args *args) {
  (void)context;
  unique_counter++;
  *(uint64_t *)args->tensors[0].data = unique_counter;
}

static const simpler_callable_kernel kernels[] = {SIMPLER_KERNEL(1, SIMPLER_CORE_AIV, count)};
SIMPLER_CALLABLE("unique", NULL, kernels);
