/* support.h - what every test includes first: cmocka, and a check that a test leaves nothing behind.
 *
 *   static void worker_starts_and_stops(void **state) { ... }
 *
 *   int main(void) {
 *     const struct CMUnitTest tests[] = {
 *         SIMPLER_TEST(worker_starts_and_stops),
 *     };
 *     return simpler_run_tests(tests);
 *   }
 *
 * Before and after each test made with SIMPLER_TEST, and before and after the whole group, the process is looked at: open
 * descriptors, child processes (zombies too), threads, mappings of shared memory, names in /dev/shm, entries of $TMPDIR. A
 * test fails if something is there that was not before, or if a descriptor is gone that was; the message says which. What
 * ends by itself (a thread that was joined a moment ago) gets a short time to do so.
 *
 * What a library sets up once per process and keeps on purpose is tolerated if it exists before the first look: make one
 * warm-up call in main, before simpler_run_tests.
 *
 * SIMPLER_TEST_FILTER=<pattern with * and ?> runs the tests of one program whose names match.
 *
 * cmocka's assertions leave a test by longjmp: use them on the test's own thread only, and not where a C++ destructor has to
 * run. C11, usable from C++. */
#ifndef SIMPLER_TEST_SUPPORT_H
#define SIMPLER_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include <cmocka.h>

/* A test with the check. */
#define SIMPLER_TEST(function) cmocka_unit_test_setup_teardown(function, simpler_test_setup, simpler_test_teardown)

/* A test with the check and with a fixture of its own, which runs inside the check:
 *   static simpler_test_fixture with_worker = {start_worker, stop_worker};
 *   SIMPLER_TEST_WITH(runs_once, &with_worker) */
typedef struct simpler_test_fixture {
  CMFixtureFunction setup;    /* may be NULL; gets *state NULL and sets what the test receives */
  CMFixtureFunction teardown; /* may be NULL; runs after a failed test, too */
} simpler_test_fixture;
#define SIMPLER_TEST_WITH(function, fixture) \
  cmocka_unit_test_prestate_setup_teardown(function, simpler_test_setup, simpler_test_teardown, fixture)

/* Runs an array of tests as a group and returns the exit status for main. */
#define simpler_run_tests(tests) simpler_run_test_group(__FILE__, tests, sizeof(tests) / sizeof((tests)[0]))
int simpler_run_test_group(const char *name, const struct CMUnitTest *tests, size_t count);

int simpler_test_setup(void **state);
int simpler_test_teardown(void **state);

/* The check by hand, for one part of a test. The second call frees the first one's snapshot, prints every difference on
 * stderr and returns their number; `what` names the checked part in the message. */
typedef struct simpler_test_snapshot simpler_test_snapshot;
simpler_test_snapshot *simpler_test_snapshot_take(void);
size_t simpler_test_snapshot_check(simpler_test_snapshot *before, const char *what);

#ifdef __cplusplus
}
#endif

#endif /* SIMPLER_TEST_SUPPORT_H */
