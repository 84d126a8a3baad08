// OpenMP tasks with depend clauses: dependencies inferred by the compiler's runtime.
#include <omp.h>

#include "graphs.h"

using namespace peers;

namespace {

char data[kTasks];
char grid[kSide + 1][kSide + 1];

template <class Submit>
void in_team(int threads, Submit submit) {
#pragma omp parallel num_threads(threads)
#pragma omp single
  submit();
}

}  // namespace

int main(int argc, char **argv) {
  const Arguments arguments(argc, argv);
  time_graph("independent", kTasks, arguments.rounds, [&] {
    in_team(arguments.threads, [] {
      for (long i = 0; i < kTasks; i++) {
#pragma omp task depend(out : data[i])
        count_task();
      }
    });
  });
  time_graph("chain", kTasks, arguments.rounds, [&] {
    in_team(arguments.threads, [] {
      for (long i = 0; i < kTasks; i++) {
#pragma omp task depend(inout : data[0])
        count_task();
      }
    });
  });
  time_graph("wavefront", kSide * kSide, arguments.rounds, [&] {
    in_team(arguments.threads, [] {
      for (long i = 1; i <= kSide; i++) {
        for (long j = 1; j <= kSide; j++) {
#pragma omp task depend(in : grid[i - 1][j], grid[i][j - 1]) depend(inout : grid[i][j])
          count_task();
        }
      }
    });
  });
  // With one thread gcc's runtime needs minutes for this one: its list of readers is walked for each task.
  if (arguments.threads > 1) {
    time_graph("fan", kFans * (kFanWidth + 1), arguments.rounds, [&] {
      in_team(arguments.threads, [] {
        for (long fan = 0; fan < kFans; fan++) {
#pragma omp task depend(inout : data[0])
          count_task();
          for (long i = 0; i < kFanWidth; i++) {
#pragma omp task depend(in : data[0])
            count_task();
          }
        }
      });
    });
  }
  return 0;
}
