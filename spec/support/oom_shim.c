/* Preloaded into a spec's process: makes allocations fail from a chosen one on, and
 * counts the blocks that are held, so that a leak on a failing way shows.
 *
 * glibc offers the real functions under other names (__libc_malloc, ...), so nothing has
 * to be looked up, which would itself allocate. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef ETT_SANITIZED /* AddressSanitizer's own functions */
#define __libc_malloc __interceptor_malloc
#define __libc_calloc __interceptor_calloc
#define __libc_realloc __interceptor_realloc
#define __libc_free __interceptor_free
#endif

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

/* The interface testing.c looks up. */
void ett_oom_arm(long first);
void ett_oom_fork(long stride);
long ett_oom_disarm(void);
long ett_oom_blocks(void);
long ett_oom_failed(void);

static atomic_long blocks;
static atomic_long counted;
static atomic_long failing_from; /* 0: never */
static long fork_stride;         /* 0: no forks */
static long failed_children;

void ett_oom_arm(long first) {
  atomic_store(&counted, 0);
  atomic_store(&failing_from, first);
}

/* Every stride-th allocation forks. It fails, with all that follow, in the child alone.
 */
void ett_oom_fork(long stride) {
  atomic_store(&counted, 0);
  fork_stride = stride;
  failed_children = 0;
}

/* How many children of ett_oom_fork did not exit with 0. */
long ett_oom_failed(void) {
  return failed_children;
}

/* A child that takes more than a minute hangs. */
static void wait_for(pid_t child, long number) {
  const struct timespec pause = {0, 200000};
  int status = 0;
  long waited = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    nanosleep(&pause, NULL);
    if (++waited == 300000)
      kill(child, SIGKILL);
  }
  if (status == 0)
    return;
  failed_children++;
  fprintf(stderr, "allocation %ld: the child ended with status %d, signal %d\n", number,
          WEXITSTATUS(status), WTERMSIG(status));
}

static int forks(void) {
  static atomic_flag at_work = ATOMIC_FLAG_INIT;
  const long number = atomic_fetch_add(&counted, 1) + 1;
  if (number % fork_stride != 0 || atomic_flag_test_and_set(&at_work))
    return 0;
  const pid_t child = fork();
  if (child == 0) {
    fork_stride = 0;
    atomic_store(&counted, number);
    atomic_store(&failing_from, number);
    errno = ENOMEM;
    return 1;
  }
  if (child > 0)
    wait_for(child, number);
  else
    failed_children++;
  atomic_flag_clear(&at_work);
  return 0;
}

/* Returns how many allocations were asked for since ett_oom_arm. */
long ett_oom_disarm(void) {
  atomic_store(&failing_from, 0);
  fork_stride = 0;
  return atomic_load(&counted);
}

long ett_oom_blocks(void) {
  return atomic_load(&blocks);
}

/* lua-cjson ends the process when malloc fails, and leaks its buffer when Lua's allocator
 * does. Its calls neither fail nor count. */
static int by_cjson(void *caller) {
  Dl_info info;
  return dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "cjson");
}
#define BY_CJSON by_cjson(__builtin_return_address(0))

static int fails(void) {
  if (fork_stride)
    return forks();
  const long first = atomic_load(&failing_from);
  if (first == 0 || atomic_fetch_add(&counted, 1) + 1 < first)
    return 0;
  errno = ENOMEM;
  return 1;
}

void *malloc(size_t size) {
  if (BY_CJSON)
    return __libc_malloc(size);
  void *block = fails() ? NULL : __libc_malloc(size);
  atomic_fetch_add(&blocks, block != NULL);
  return block;
}

void *calloc(size_t count, size_t size) {
  if (BY_CJSON)
    return __libc_calloc(count, size);
  void *block = fails() ? NULL : __libc_calloc(count, size);
  atomic_fetch_add(&blocks, block != NULL);
  return block;
}

void *realloc(void *block, size_t size) {
  if (BY_CJSON)
    return __libc_realloc(block, size);
  if (block && size == 0) { /* frees */
    atomic_fetch_sub(&blocks, 1);
    return __libc_realloc(block, size);
  }
  if (fails())
    return NULL;
  void *moved = __libc_realloc(block, size);
  atomic_fetch_add(&blocks, moved != NULL && block == NULL);
  return moved;
}

void free(void *block) {
  if (!BY_CJSON)
    atomic_fetch_sub(&blocks, block != NULL);
  __libc_free(block);
}
