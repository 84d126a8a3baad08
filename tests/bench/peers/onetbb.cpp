// oneTBB flow graph, built and run once per round: the edges are given by the program, nothing is inferred.
#include <deque>
#include <memory>

#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include "graphs.h"

using namespace peers;
using namespace oneapi::tbb::flow;

namespace {

using Node = continue_node<continue_msg>;

struct Graph {
  graph flow;
  std::deque<Node> nodes;
  std::vector<Node *> roots;

  Node *add() {
    nodes.emplace_back(flow, [](const continue_msg &) {
      count_task();
      return continue_msg();
    });
    return &nodes.back();
  }
  void run() {
    for (Node *root : roots) root->try_put(continue_msg());
    flow.wait_for_all();
  }
};

void independent(Graph &g) {
  for (long i = 0; i < kTasks; i++) g.roots.push_back(g.add());
}

void chain(Graph &g) {
  Node *last = nullptr;
  for (long i = 0; i < kTasks; i++) {
    Node *node = g.add();
    if (last != nullptr)
      make_edge(*last, *node);
    else
      g.roots.push_back(node);
    last = node;
  }
}

void wavefront(Graph &g) {
  std::vector<Node *> grid(kSide * kSide);
  for (long i = 0; i < kSide; i++) {
    for (long j = 0; j < kSide; j++) {
      Node *node = grid[i * kSide + j] = g.add();
      if (i > 0) make_edge(*grid[(i - 1) * kSide + j], *node);
      if (j > 0) make_edge(*grid[i * kSide + j - 1], *node);
    }
  }
  g.roots.push_back(grid[0]);
}

void fan(Graph &g) {
  Node *writer = g.add();
  g.roots.push_back(writer);
  for (long f = 0; f < kFans; f++) {
    Node *next = f + 1 < kFans ? g.add() : nullptr;
    for (long i = 0; i < kFanWidth; i++) {
      Node *reader = g.add();
      make_edge(*writer, *reader);
      if (next != nullptr) make_edge(*reader, *next);
    }
    writer = next;
  }
}

}  // namespace

int main(int argc, char **argv) {
  const Arguments arguments(argc, argv);
  const oneapi::tbb::global_control limit(oneapi::tbb::global_control::max_allowed_parallelism,
                                          static_cast<size_t>(arguments.threads));
  oneapi::tbb::task_arena arena(arguments.threads);
  const struct {
    const char *name;
    long tasks;
    void (*build)(Graph &);
  } graphs[] = {{"independent", kTasks, independent},
                {"chain", kTasks, chain},
                {"wavefront", kSide * kSide, wavefront},
                {"fan", kFans * (kFanWidth + 1), fan}};
  for (const auto &entry : graphs) {
    arena.execute([&] {
      // The graph's destruction is not timed: it lives until the next round has been built.
      std::unique_ptr<Graph> keep;
      time_graph(entry.name, entry.tasks, arguments.rounds, [&] {
        auto g = std::make_unique<Graph>();
        entry.build(*g);
        g->run();
        keep = std::move(g);
      });
    });
  }
  return 0;
}
