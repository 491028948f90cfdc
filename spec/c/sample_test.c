/* Statistics, ranges and journals of samplers/core. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "samplers/core/journal.h"
#include "samplers/core/memory.h"
#include "samplers/core/stats.h"

static void low_mean_ignores_what_noise_adds(void **state) {
  (void)state;
  double x[40], sorted[40];
  for (int i = 0; i < 40; i++)
    x[i] = 1.0 + (i % 4 == 0 ? 0.001 * i / 40 : 0.5 + i);
  ett_sample_stats s;
  ett_sample_stats_compute(x, 40, sorted, &s);
  assert_true(fabs(s.low_mean - 1.0) < 0.002);
  assert_true(s.mean > 10);
  assert_true(s.min <= s.low_mean && s.low_mean <= s.median);
  ett_sample_stats_compute(x, 0, sorted, &s);
  assert_true(s.count == 0 && s.low_mean == 0);
  ett_sample_stats_compute(x, 1, sorted, &s);
  assert_true(s.low_mean == x[0] && s.half_width == 0);
}

static void every_value_counts(void **state) {
  (void)state;
  enum { COUNT = 10000 };
  double *x = malloc(COUNT * sizeof *x);
  assert_non_null(x);
  for (int i = 0; i < COUNT; i++)
    x[i] = COUNT - i;
  ett_sample_stats s;
  ett_sample_stats_compute(x, COUNT, x, &s);
  assert_true(s.count == COUNT && s.min == 1 && s.median == 5000.5);
  assert_true(s.low == 1000.5); /* of 501 to 1500 */
  free(x);
}

static void low_ignores_flukes_below_as_well(void **state) {
  (void)state;
  double x[100], sorted[100];
  for (int i = 0; i < 100; i++)
    x[i] = i < 4 ? 0.1 : i < 60 ? 1.0 + 0.0001 * i : 2.0 + i; /* 4 % far too quick */
  ett_sample_stats s;
  ett_sample_stats_compute(x, 100, sorted, &s);
  assert_true(fabs(s.low - 1.0) < 0.002);
  assert_true(s.low_half_width < 0.5);
  assert_true(s.low_mean < 0.8); /* which they do move */
  for (int i = 4; i < 60; i++)
    x[i] = 1.0;
  for (int i = 0; i < 4; i++)
    x[i] = 1.0;
  ett_sample_stats_compute(x, 100, sorted, &s);
  assert_true(s.low == 1.0 && s.low_half_width == 0);
  ett_sample_stats_compute(x, 1, sorted, &s);
  assert_true(s.low == x[0] && s.low_half_width == 0);
  ett_sample_stats_compute(x, 0, sorted, &s);
  assert_true(s.low == 0 && s.low_half_width == 0);
}

static void pages_are_zeroed_and_aligned(void **state) {
  (void)state;
  const size_t sizes[] = {1, 4096, (2 << 20) - 1, (2 << 20) + 1, 5 << 20};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    char *at = ett_sample_pages_new(sizes[i]);
    assert_non_null(at);
    assert_true((uintptr_t)at % 64 == 0);
    for (size_t k = 0; k < sizes[i]; k += 511)
      assert_int_equal(at[k], 0);
    memset(at, 1, sizes[i]);
    ett_sample_pages_free(at, sizes[i]);
  }
  assert_null(ett_sample_pages_new((size_t)-1));
  ett_sample_pages_free(NULL, 1);
}

static char *contents(const char *path) {
  static char text[4096];
  FILE *file = fopen(path, "r");
  size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file)
    fclose(file);
  text[n] = '\0';
  return text;
}

static void journal_keeps_whole_lines_only(void **state) {
  (void)state;
  char path[] = "/tmp/ett_journal_XXXXXX", lock[64];
  close(mkstemp(path));
  unlink(path);
  ett_err err = {0};
  ett_sample_journal *j = ett_sample_journal_open(path, "# h\n", &err);
  assert_non_null(j);
  assert_int_equal(ett_sample_journal_append(j, "1,2", 3, 1, &err), 0);
  assert_int_equal(ett_sample_journal_append(j, "a\n", 2, 1, &err), -1);
  assert_int_equal(ett_sample_journal_append(j, "a\n\nb", 4, 1, &err), -1);
  assert_null(ett_sample_journal_open(path, "# h\n", &err)); /* held */
  assert_int_equal(err.code, ETT_ERR_LIMIT);

  /* A full disk, as a limit on the file's size: the line is not there at all. */
  struct rlimit before, small = {10, RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &before);
  small.rlim_max = before.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  assert_int_equal(ett_sample_journal_append(j, "3,4,5,6", 7, 1, &err), -1);
  setrlimit(RLIMIT_FSIZE, &before);
  assert_int_equal(err.code, ETT_ERR_IO);
  assert_string_equal(contents(path), "# h\n1,2\n");
  assert_int_equal(ett_sample_journal_append(j, "5,6", 3, 1, &err), 0);
  ett_sample_journal_close(j);

  int file = open(path, O_WRONLY | O_APPEND);
  assert_int_equal(write(file, "7,", 2), 2); /* a write that a kill cut short */
  close(file);
  j = ett_sample_journal_open(path, "# other\n", &err);
  assert_non_null(j);
  assert_string_equal(contents(path), "# h\n1,2\n5,6\n");
  assert_int_equal(ett_sample_journal_append(j, "#~ mark\n7,8", 11, 1, &err), 0);
  assert_int_equal(ett_sample_journal_append(j, "9,10", 4, 0, &err), 0);
  assert_int_equal(ett_sample_journal_sync(j, &err), 0);
  ett_sample_journal_close(j);

  /* Marks without their row are cut off with it. */
  file = open(path, O_WRONLY | O_APPEND);
  assert_int_equal(write(file, "#~ one\n#~ two\n9", 15), 15);
  close(file);
  j = ett_sample_journal_open(path, "# other\n", &err);
  assert_non_null(j);
  assert_string_equal(contents(path), "# h\n1,2\n5,6\n#~ mark\n7,8\n9,10\n");
  ett_sample_journal_close(j);
  ett_sample_journal_close(NULL);
  unlink(path);
  snprintf(lock, sizeof lock, "/tmp/.%s.lock", path + 5);
  unlink(lock);
}

static void put(const char *root, const char *path, const char *text) {
  char at[512];
  snprintf(at, sizeof at, "%s%s", root, path);
  for (char *slash = strchr(at + strlen(root) + 1, '/'); slash;
       slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    mkdir(at, 0777);
    *slash = '/';
  }
  FILE *file = fopen(at, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void memory_that_is_free_is_what_every_group_leaves(void **state) {
  (void)state;
  char root[] = "/tmp/ett_groups_XXXXXX", command[64];
  assert_non_null(mkdtemp(root));
  const double machine = ett_sample_memory_free(root); /* no groups at all */
  assert_true(machine > 0 &&
              machine <= (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE));
  /* Not what is free of cached files. */
  put(root, "/proc/meminfo",
      "MemTotal:  900000 kB\nMemFree:  1000 kB\nMemAvailable:  300000 kB\n");
  assert_true(ett_sample_memory_free(root) == 300000 * 1024.0);
  put(root, "/proc/self/cgroup", "5:cpu:/x\n4:memory:/jobs/7\n0::/jobs/7\n");
  put(root, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  assert_true(ett_sample_memory_free(root) > 1e8); /* the largest number is no limit */
  put(root, "/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "50000000\n");
  put(root, "/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "30000000\n");
  put(root, "/sys/fs/cgroup/memory/jobs/memory.stat",
      "inactive_file 1\ntotal_inactive_file 10000000\n");
  assert_true(ett_sample_memory_free(root) ==
              30e6); /* 50 less 30, of which 10 are files */
  put(root, "/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "20000000\n");
  assert_true(ett_sample_memory_free(root) == 20e6);
  put(root, "/sys/fs/cgroup/jobs/7/memory.max", "max\n"); /* v2 beside it */
  put(root, "/sys/fs/cgroup/jobs/memory.max", "9000000\n");
  put(root, "/sys/fs/cgroup/jobs/memory.current", "8000000\n");
  assert_true(ett_sample_memory_free(root) == 1e6);
  put(root, "/sys/fs/cgroup/jobs/memory.current", "9500000\n");
  assert_true(ett_sample_memory_free(root) == 0);
  snprintf(command, sizeof command, "rm -rf %s", root);
  assert_int_equal(system(command), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(low_mean_ignores_what_noise_adds),
      cmocka_unit_test(every_value_counts),
      cmocka_unit_test(low_ignores_flukes_below_as_well),
      cmocka_unit_test(pages_are_zeroed_and_aligned),
      cmocka_unit_test(journal_keeps_whole_lines_only),
      cmocka_unit_test(memory_that_is_free_is_what_every_group_leaves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
