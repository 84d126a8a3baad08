/* Says that it was built against a device interface of the far future. */
#include "simpler/device.h"

SIMPLER_EXPORT const simpler_callable_table simpler_exported_callable;
const simpler_callable_table simpler_exported_callable = {
    sizeof(simpler_callable_table), 4096, 0, "future", NULL, NULL, NULL};
