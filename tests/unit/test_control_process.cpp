// lib/control: the loop, and chip processes that start, answer, die, lie and end.
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/shared_memory.h"
#include "build_id.h"
#include "control/chip_process.h"
#include "control/control_loop.h"
#include "control/link.h"
#include "support.h"  // after all others: it defines fail as a macro

using namespace simpler;
using namespace simpler::control;

namespace {

void posts_of_many_threads_run_in_order_of_each(void **) {
  ControlLoop loop;
  constexpr int kThreads = 8;
  constexpr int kPosts = 2000;
  std::atomic<int> out_of_order{0};
  std::atomic<int> ran{0};
  std::vector<int> last(kThreads, -1);
  std::vector<std::thread> threads;
  std::promise<void> done;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kPosts; i++) {
        loop.post([&, t, i] {
          if (last[static_cast<size_t>(t)] != i - 1) out_of_order++;
          last[static_cast<size_t>(t)] = i;
          if (!loop.on_loop_thread()) out_of_order++;
          if (++ran == kThreads * kPosts) done.set_value();
        });
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  done.get_future().wait();
  assert_int_equal(out_of_order.load(), 0);
}

void a_loop_ends_with_posts_on_the_way(void **) {
  for (int i = 0; i < 300; i++) {
    auto flag = std::make_shared<int>(0);
    {
      ControlLoop loop;
      for (int k = 0; k < 10; k++) loop.post([flag] { ++*flag; });
    }
    assert_int_equal(flag.use_count(), 1);
  }
}

// ---- processes ------------------------------------------------------------------------------------------------------

std::string chip_path() {
  const char *path = getenv("SIMPLER_CHIP_PATH");
  return path != nullptr ? path : "simpler-chip";
}

// A chip process and what was heard of it.
struct Chip {
  SharedMemory gm = SharedMemory::create("gm", 1 << 20);
  SharedMemory link = SharedMemory::create("link", kLinkBytes);
  std::promise<ErrorInfo> ready;
  std::promise<ChipExit> gone;
  std::atomic<int> ready_calls{0};
  std::atomic<int> gone_calls{0};
  std::shared_ptr<ChipProcess> process;

  Chip(ControlLoop &loop, const std::string &path, const std::string &build_id = SIMPLER_BUILD_ID) {
    Link::create(link.data());
    ChipProcess::Options options;
    options.path = path;
    options.build_id = build_id;
    options.config.platform = "a2a3sim";
    options.config.gm_bytes = gm.bytes();
    options.config.link_bytes = kLinkBytes;
    options.gm_fd = gm.fd();
    options.link_fd = link.fd();
    options.on_ready = [this](const ErrorInfo &error, const ChipReady &) {
      ready_calls++;
      ready.set_value(error);
    };
    options.on_gone = [this](const ChipExit &exit) {
      gone_calls++;
      gone.set_value(exit);
    };
    process = ChipProcess::spawn(loop, std::move(options));
  }
  ErrorInfo wait_ready() { return ready.get_future().get(); }
  ChipExit wait_gone() {
    ChipExit exit = gone.get_future().get();
    assert_int_equal(ready_calls.load(), 1);
    assert_int_equal(gone_calls.load(), 1);
    return exit;
  }
  ErrorInfo ping() {
    std::promise<ErrorInfo> answer;
    process->ping([&](const ErrorInfo &error) { answer.set_value(error); });
    return answer.get_future().get();
  }
};

void a_chip_starts_answers_and_shuts_down(void **) {
  ControlLoop loop;
  for (int i = 0; i < 20; i++) {
    Chip chip(loop, chip_path());
    assert_int_equal(chip.wait_ready().code, SIMPLER_OK);
    assert_true(chip.process->pid() > 0);
    assert_int_equal(chip.ping().code, SIMPLER_OK);
    chip.process->shut_down(5'000'000'000u);
    const ChipExit exit = chip.wait_gone();
    assert_true(exit.expected && exit.status_known);
    assert_int_equal(exit.exit_code, 0);
    assert_int_equal(exit.signal, 0);
    assert_int_not_equal(chip.ping().code, SIMPLER_OK);
  }
}

void a_killed_chip_is_told_with_pid_and_signal_and_answers_everything(void **) {
  ControlLoop loop;
  Chip chip(loop, chip_path());
  assert_int_equal(chip.wait_ready().code, SIMPLER_OK);
  const int64_t pid = chip.process->pid();
  kill(static_cast<pid_t>(pid), SIGSTOP);
  std::promise<ErrorInfo> answer;
  chip.process->ping([&](const ErrorInfo &error) { answer.set_value(error); });
  kill(static_cast<pid_t>(pid), SIGKILL);
  const ChipExit exit = chip.wait_gone();
  assert_false(exit.expected);
  assert_int_equal(exit.signal, SIGKILL);
  assert_int_equal(exit.error.code, SIMPLER_CHIP_LOST);
  assert_int_equal(exit.error.pid, pid);
  assert_int_equal(exit.error.signal, SIGKILL);
  assert_int_equal(answer.get_future().get().code, SIMPLER_CHIP_LOST);
}

void a_chip_that_does_not_answer_is_killed_after_its_grace(void **) {
  ControlLoop loop;
  Chip chip(loop, chip_path());
  assert_int_equal(chip.wait_ready().code, SIMPLER_OK);
  kill(static_cast<pid_t>(chip.process->pid()), SIGSTOP);
  chip.process->shut_down(20'000'000);
  const ChipExit exit = chip.wait_gone();
  assert_true(exit.expected);
  assert_int_equal(exit.signal, SIGKILL);
}

void shutting_down_or_killing_while_starting_ends_cleanly(void **) {
  ControlLoop loop;
  for (int i = 0; i < 20; i++) {
    Chip chip(loop, chip_path());
    if (i % 2 == 0)
      chip.process->shut_down(0);
    else
      chip.process->kill();
    chip.wait_ready();
    chip.wait_gone();
  }
}

void another_build_is_refused_with_both_ids(void **) {
  ControlLoop loop;
  Chip chip(loop, chip_path(), "another build");
  const ErrorInfo error = chip.wait_ready();
  assert_int_equal(error.code, SIMPLER_LOAD_VERSION);
  assert_non_null(strstr(error.message.c_str(), "another build"));
  assert_non_null(strstr(error.message.c_str(), SIMPLER_BUILD_ID));
  assert_int_equal(chip.wait_gone().error.code, SIMPLER_LOAD_VERSION);
}

// A program of the test's own in $TMPDIR.
struct Script {
  std::string path;
  Script(const char *text, mode_t mode) {
    const char *folder = getenv("TMPDIR");
    path = std::string(folder != nullptr ? folder : "/tmp") + "/simpler-test-chip-" + std::to_string(getpid());
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
  }
  ~Script() { unlink(path.c_str()); }
};

void C40_executables_that_cannot_be_started_are_errors_with_the_path(void **) {
  ControlLoop loop;
  {
    Chip chip(loop, "/nonexistent/simpler-chip");
    const ErrorInfo error = chip.wait_ready();
    assert_int_equal(error.code, SIMPLER_NOT_FOUND);
    assert_non_null(strstr(error.message.c_str(), "/nonexistent/simpler-chip"));
    chip.wait_gone();
  }
  {
    const Script script("#!/bin/sh\n", 0600);
    Chip chip(loop, script.path);
    const ErrorInfo error = chip.wait_ready();
    assert_int_equal(error.code, SIMPLER_SYSTEM_ERROR);
    assert_non_null(strstr(error.message.c_str(), script.path.c_str()));
    chip.wait_gone();
  }
  {
    const Script script(
        "\x7f"
        "ELF but not really",
        0700);
    Chip chip(loop, script.path);
    assert_int_not_equal(chip.wait_ready().code, SIMPLER_OK);
    chip.wait_gone();
  }
}

void programs_that_are_no_chip_are_given_up(void **) {
  ControlLoop loop;
  const struct {
    const char *text;
    simpler_status status;
  } programs[] = {
      {"#!/bin/sh\nexit 7\n", SIMPLER_CHIP_LOST},
      {"#!/bin/sh\nkill -SEGV $$\n", SIMPLER_CHIP_LOST},
      {"#!/bin/sh\nexec 3>&- 4>&-\nexec sleep 1000\n", SIMPLER_CHIP_LOST},
      {"#!/bin/sh\necho 'this is not the protocol at all' >&3\nexec sleep 1000\n", SIMPLER_PROTOCOL_ERROR},
  };
  for (const auto &program : programs) {
    const Script script(program.text, 0700);
    Chip chip(loop, script.path);
    assert_int_equal(chip.wait_ready().code, program.status);
    const ChipExit exit = chip.wait_gone();
    assert_int_equal(exit.error.code, program.status);
    assert_false(exit.expected);
  }
}

void a_program_that_never_says_hello_can_be_killed(void **) {
  ControlLoop loop;
  const Script script("#!/bin/sh\ntrap '' TERM INT HUP\nexec sleep 1000\n", 0700);
  Chip chip(loop, script.path);
  chip.process->shut_down(10'000'000);
  assert_int_equal(chip.wait_gone().signal, SIGKILL);
}

// ---- hosts as they are ----------------------------------------------------------------------------------------------

std::atomic<int> sigchld_seen{0};

void a_host_with_a_sigchld_handler_keeps_it(void **) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) { sigchld_seen++; };
  sigaction(SIGCHLD, &action, &before);
  {
    ControlLoop loop;
    Chip chip(loop, chip_path());
    assert_int_equal(chip.wait_ready().code, SIMPLER_OK);
    struct sigaction now {};
    sigaction(SIGCHLD, nullptr, &now);
    assert_ptr_equal(now.sa_handler, action.sa_handler);
    kill(static_cast<pid_t>(chip.process->pid()), SIGKILL);
    assert_int_equal(chip.wait_gone().signal, SIGKILL);
  }
  sigaction(SIGCHLD, &before, nullptr);
  assert_true(sigchld_seen.load() >= 1);
}

void a_host_that_ignores_sigchld_or_reaps_everything_learns_of_the_end(void **) {
  for (const bool ignore : {true, false}) {
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = ignore ? SIG_IGN : SIG_DFL;
    sigaction(SIGCHLD, &action, &before);
    {
      ControlLoop loop;
      Chip chip(loop, chip_path());
      assert_int_equal(chip.wait_ready().code, SIMPLER_OK);
      const auto pid = static_cast<pid_t>(chip.process->pid());
      std::thread reaper;
      if (!ignore) {
        reaper = std::thread([] {
          while (waitpid(-1, nullptr, 0) > 0) {
          }
        });
      }
      kill(pid, SIGKILL);
      const ChipExit exit = chip.wait_gone();
      assert_int_equal(exit.error.code, SIMPLER_CHIP_LOST);
      if (reaper.joinable()) reaper.join();
    }
    sigaction(SIGCHLD, &before, nullptr);
  }
}

}  // namespace

int main() {
  { const ControlLoop warm_up; }  // libuv opens a pipe of its own once per process
  const CMUnitTest tests[] = {
      SIMPLER_TEST(posts_of_many_threads_run_in_order_of_each),
      SIMPLER_TEST(a_loop_ends_with_posts_on_the_way),
      SIMPLER_TEST(a_chip_starts_answers_and_shuts_down),
      SIMPLER_TEST(a_killed_chip_is_told_with_pid_and_signal_and_answers_everything),
      SIMPLER_TEST(a_chip_that_does_not_answer_is_killed_after_its_grace),
      SIMPLER_TEST(shutting_down_or_killing_while_starting_ends_cleanly),
      SIMPLER_TEST(another_build_is_refused_with_both_ids),
      SIMPLER_TEST(C40_executables_that_cannot_be_started_are_errors_with_the_path),
      SIMPLER_TEST(programs_that_are_no_chip_are_given_up),
      SIMPLER_TEST(a_program_that_never_says_hello_can_be_killed),
      SIMPLER_TEST(a_host_with_a_sigchld_handler_keeps_it),
      SIMPLER_TEST(a_host_that_ignores_sigchld_or_reaps_everything_learns_of_the_end),
  };
  return simpler_run_tests(tests);
}
