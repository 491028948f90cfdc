/* The timing of collectives on one rank, with a simulated clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs these before it */
#include <cmocka.h>
#include <time.h>

#include "samplers/mpi/dist.h"

static int simulated;
static int64_t now_ns;
static int late; /* announcements of a start that arrive 20 ms late */

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __real_MPI_Bcast(void *at, int count, MPI_Datatype type, int root, MPI_Comm comm);
int __wrap_MPI_Bcast(void *at, int count, MPI_Datatype type, int root, MPI_Comm comm);

int __wrap_clock_gettime(clockid_t id, struct timespec *t) {
  if (!simulated)
    return __real_clock_gettime(id, t);
  now_ns += 1000;
  *t = (struct timespec){.tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000};
  return 0;
}

int __wrap_MPI_Bcast(void *at, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  if (simulated && late > 0) {
    late--;
    now_ns += 20000000;
  }
  return __real_MPI_Bcast(at, count, type, root, comm);
}

static ett_dist_timing time_with(int late_starts, int min_repeats) {
  ett_err err = {0};
  const ett_dist_job *job = ett_dist_open(&err);
  assert_non_null(job);
  const ett_dist_time_options options = {.min_repeats = min_repeats,
                                         .max_repeats = 100,
                                         .budget_seconds = 1,
                                         .target = 0.01};
  ett_dist_timing t;
  late = late_starts;
  simulated = 1;
  const int status =
      ett_dist_time(job, &job->world, ETT_DIST_ALL_REDUCE, 8, &options, &t, &err);
  simulated = 0;
  assert_int_equal(status, 0);
  return t;
}

static void late_first_repeats_do_not_end_it(void **state) {
  (void)state;
  for (int starts = 0; starts < 5; starts++) {
    const ett_dist_timing t = time_with(starts, 0);
    assert_int_equal(t.dropped, starts);
    assert_int_equal(t.used, 8); /* equal times: eight suffice */
    assert_false(t.late);
    assert_true(t.stats.low_mean < 10e-6);
  }
}

static void it_says_that_nearly_all_were_late(void **state) {
  (void)state;
  const ett_dist_timing t = time_with(1000, 10);
  assert_true(t.late);
  assert_int_equal(t.used, 61); /* 4 min_repeats + 20, and the one under way */
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(late_first_repeats_do_not_end_it),
                                     cmocka_unit_test(it_says_that_nearly_all_were_late)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
