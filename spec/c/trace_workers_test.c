/* Work shared by threads: every piece of every job is done once, whichever thread is
 * late. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "trace/table/workers.h"

#define PIECES_MOST 500

typedef struct job {
  atomic_uint done[PIECES_MOST];
  atomic_uint calls;
} job;

static void count(void *context, uint32_t i) {
  job *j = context;
  atomic_fetch_add(&j->done[i], 1);
  for (volatile unsigned wait = 0; wait < i % 7 * 20; wait++) {
  }
  atomic_fetch_add(&j->calls, 1);
}

static void run_jobs(ett_workers *w, unsigned jobs) {
  job *j = malloc(sizeof *j);
  assert_non_null(j);
  for (unsigned n = 0; n < jobs; n++) {
    const uint32_t pieces = n * 37 % (PIECES_MOST + 1);
    memset(j, 0, sizeof *j);
    ett_workers_run(w, pieces, count, j, NULL);
    assert_int_equal(atomic_load(&j->calls), pieces); /* after the last call */
    for (uint32_t i = 0; i < PIECES_MOST; i++)
      assert_int_equal(atomic_load(&j->done[i]), i < pieces);
  }
  free(j);
}

static void every_piece_once(void **unused) {
  (void)unused;
  for (unsigned threads = 2; threads <= 9; threads += 7) {
    ett_workers *w = ett_workers_new(threads);
    assert_non_null(w);
    run_jobs(w, 3000);
    ett_workers_free(w);
  }
}

static void ticks(void *context) {
  job *j = context;
  atomic_fetch_add(&j->done[PIECES_MOST - 1], 1);
}

/* Ends at the second tick; without ticks after two minutes. */
static void until_it_ticks(void *context, uint32_t i) {
  (void)i;
  job *j = context;
  for (int n = 0; n < 12000 && atomic_load(&j->done[PIECES_MOST - 1]) < 2; n++)
    nanosleep(&(struct timespec){0, 10000000}, NULL);
  atomic_fetch_add(&j->calls, 1);
}

static double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The caller of a job with a tick waits, and ticks every 0.1 s. */
static void ticks_while_it_waits(void **unused) {
  (void)unused;
  ett_workers *w = ett_workers_new(2);
  job j = {0};
  assert_non_null(w);
  const double began = seconds_now();
  ett_workers_run(w, 2, until_it_ticks, &j, ticks);
  const double most = (seconds_now() - began) / 0.1;
  assert_int_equal(atomic_load(&j.calls), 2);
  assert_in_range(atomic_load(&j.done[PIECES_MOST - 1]), 2, (uint64_t)most);
  ett_workers_free(w);
}

static void without_workers(void **unused) {
  (void)unused;
  assert_null(ett_workers_new(0));
  run_jobs(NULL, 20);
  ett_workers_free(NULL);
}

static void more_threads_than_allowed(void **unused) {
  (void)unused;
  ett_workers *w = ett_workers_new(1000);
  run_jobs(w, 20);
  ett_workers_free(w);
}

static void a_child_works_alone(void **unused) {
  (void)unused;
  ett_workers *w = ett_workers_new(3);
  run_jobs(w, 20);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    alarm(120);
    run_jobs(w, 20);
    ett_workers_free(w);
    _exit(0);
  }
  int status = -1;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  run_jobs(w, 20);
  ett_workers_free(w);
}

static void idle_workers_end(void **unused) {
  (void)unused;
  for (int i = 0; i < 50; i++)
    ett_workers_free(ett_workers_new(4));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_piece_once),    cmocka_unit_test(ticks_while_it_waits),
      cmocka_unit_test(without_workers),     cmocka_unit_test(more_threads_than_allowed),
      cmocka_unit_test(a_child_works_alone), cmocka_unit_test(idle_workers_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
