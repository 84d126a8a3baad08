// StarPU: dependencies inferred from data handles; handles are registered once, outside of the timing.
#include <starpu.h>

#include "graphs.h"

using namespace peers;

namespace {

void body(void **, void *) { count_task(); }

starpu_codelet make_codelet(int buffers, starpu_data_access_mode first) {
  starpu_codelet codelet;
  starpu_codelet_init(&codelet);
  codelet.cpu_funcs[0] = body;
  codelet.nbuffers = buffers;
  codelet.modes[0] = first;
  codelet.modes[1] = STARPU_R;
  codelet.modes[2] = STARPU_R;
  return codelet;
}

}  // namespace

int main(int argc, char **argv) {
  const Arguments arguments(argc, argv);
  setenv("STARPU_SILENT", "1", 0);
  starpu_conf conf;
  starpu_conf_init(&conf);
  conf.ncpus = arguments.threads;
  conf.ncuda = 0;
  conf.nopencl = 0;
  if (starpu_init(&conf) != 0) {
    std::fprintf(stderr, "starpu_init failed\n");
    return 1;
  }
  starpu_codelet update = make_codelet(1, STARPU_RW);
  starpu_codelet update_1 = make_codelet(2, STARPU_RW);
  starpu_codelet update_2 = make_codelet(3, STARPU_RW);
  starpu_codelet write = make_codelet(1, STARPU_W);
  starpu_codelet read = make_codelet(1, STARPU_R);

  std::vector<int> values(kTasks);
  std::vector<starpu_data_handle_t> handles(kTasks);
  for (long i = 0; i < kTasks; i++)
    starpu_variable_data_register(&handles[i], STARPU_MAIN_RAM, reinterpret_cast<uintptr_t>(&values[i]), sizeof(int));
  starpu_data_handle_t one = handles[0];
  auto cell = [&](long i, long j) { return handles[i * kSide + j]; };

  time_graph("independent", kTasks, arguments.rounds, [&] {
    for (long i = 0; i < kTasks; i++) starpu_task_insert(&write, STARPU_W, handles[i], 0);
    starpu_task_wait_for_all();
  });
  time_graph("chain", kTasks, arguments.rounds, [&] {
    for (long i = 0; i < kTasks; i++) starpu_task_insert(&update, STARPU_RW, one, 0);
    starpu_task_wait_for_all();
  });
  time_graph("wavefront", kSide * kSide, arguments.rounds, [&] {
    for (long i = 0; i < kSide; i++) {
      for (long j = 0; j < kSide; j++) {
        if (i > 0 && j > 0)
          starpu_task_insert(&update_2, STARPU_RW, cell(i, j), STARPU_R, cell(i - 1, j), STARPU_R, cell(i, j - 1), 0);
        else if (i > 0)
          starpu_task_insert(&update_1, STARPU_RW, cell(i, j), STARPU_R, cell(i - 1, j), 0);
        else if (j > 0)
          starpu_task_insert(&update_1, STARPU_RW, cell(i, j), STARPU_R, cell(i, j - 1), 0);
        else
          starpu_task_insert(&update, STARPU_RW, cell(i, j), 0);
      }
    }
    starpu_task_wait_for_all();
  });
  time_graph("fan", kFans * (kFanWidth + 1), arguments.rounds, [&] {
    for (long fan = 0; fan < kFans; fan++) {
      starpu_task_insert(&update, STARPU_RW, one, 0);
      for (long i = 0; i < kFanWidth; i++) starpu_task_insert(&read, STARPU_R, one, 0);
    }
    starpu_task_wait_for_all();
  });
  for (starpu_data_handle_t handle : handles) starpu_data_unregister_no_coherency(handle);
  starpu_shutdown();
  return 0;
}
