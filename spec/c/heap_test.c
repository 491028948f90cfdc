/* malloc's heap in the executable: few page faults, and no failure under a limit. */
#include "host/heap.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SIZE = 700 << 10, PAGE = 4096 };

static long faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/* Faults while a block of `size` bytes is written for the first time. */
static long faults_of_block(size_t size) {
  char *volatile block = malloc(size);
  const long before = faults();
  for (size_t i = 0; block && i < size; i += PAGE)
    block[i] = 1;
  const long count = faults() - before;
  free(block);
  return block ? count : -1;
}

/* The exit status of a child that runs check(). */
static int in_child(int (*check)(void)) {
  const pid_t child = fork();
  if (child == 0)
    _exit(check());
  int status = 1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int first_block_has_few_faults(void) {
  heap_prepare();
  const long count = faults_of_block(SIZE);
  return count >= 0 && count < SIZE / PAGE / 10 ? 0 : 1;
}

static int large_blocks_come_back(void) {
  heap_prepare();
  if (faults_of_block((size_t)8 << 20) < 0)
    return 1;
  return faults_of_block((size_t)8 << 20) < 10 ? 0 : 1; /* the same pages */
}

static int a_limit_is_no_failure(void) {
  struct rlimit limit = {1 << 20, 1 << 20};
  if (setrlimit(RLIMIT_DATA, &limit) != 0)
    return 2;
  heap_prepare();
  char *volatile block = malloc(100 << 10);
  if (!block)
    return 1;
  memset(block, 1, 100 << 10);
  free(block);
  return 0;
}

static void test_few_faults(void **unused) {
  (void)unused;
#if !defined __GLIBC__ || !defined MADV_POPULATE_WRITE
  skip(); /* heap_prepare does nothing */
#else
  char *page =
      mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (madvise(page, PAGE, MADV_POPULATE_WRITE) != 0)
    skip(); /* a kernel before 5.14 */
#endif
  assert_int_equal(in_child(first_block_has_few_faults), 0);
  assert_int_equal(in_child(large_blocks_come_back), 0);
}

static void test_limit(void **unused) {
  (void)unused;
  assert_int_equal(in_child(a_limit_is_no_failure), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_few_faults),
      cmocka_unit_test(test_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
