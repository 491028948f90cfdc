/* Preloaded into a spec's process: makes allocations fail from a chosen one on, and
 * counts the held blocks, which shows leaks on failure paths.
 *
 * glibc has the real functions under other names (__libc_malloc, ...). They need no
 * lookup, which would itself allocate. */
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

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
void ett_oom_fork(long stride, long alike);
long ett_oom_disarm(void);
long ett_oom_blocks(void);
long ett_oom_failed(void);
long ett_oom_tried(void);
void ett_oom_leave(void (*close_state)(void *), void *state, long most, int report);

static atomic_long blocks;
static atomic_long counted;
static atomic_long failing_from; /* 0: never */
static long fork_stride;         /* 0: no forks */
static long fork_alike;          /* these first ones of each chain of callers fork */
static long failed_children;
static long tried;

void ett_oom_arm(long first) {
  atomic_store(&counted, 0);
  atomic_store(&failing_from, first);
}

/* Every stride-th allocation forks, and so do the first `alike` of each chain of callers.
 * It fails, with all that follow, in the child alone. */
void ett_oom_fork(long stride, long alike) {
  atomic_store(&counted, 0);
  fork_stride = stride;
  fork_alike = alike;
  failed_children = tried = 0;
}

static _Unwind_Reason_Code add_caller(struct _Unwind_Context *frame, void *hash) {
  *(uint64_t *)hash = (*(uint64_t *)hash ^ _Unwind_GetIP(frame)) * 0x100000001b3;
  return _URC_NO_REASON;
}

/* Number of earlier calls of the same chain of callers; chains in the same slot count
 * as one. */
static long seen_before(void) {
  static uint32_t seen[1 << 20];
  uint64_t hash = 0xcbf29ce484222325;
  _Unwind_Backtrace(add_caller, &hash);
  return seen[hash >> 44]++;
}

/* Number of children of ett_oom_fork that did not exit with 0. */
long ett_oom_failed(void) {
  return failed_children;
}

static void wait_for(pid_t child, long number) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  if (status == 0)
    return;
  failed_children++;
  fprintf(stderr, "allocation %ld: the child ended with status %d, signal %d\n", number,
          WEXITSTATUS(status), WTERMSIG(status));
}

static int forks(void) {
  static atomic_flag at_work = ATOMIC_FLAG_INIT;
  const long number = atomic_fetch_add(&counted, 1) + 1;
  if (atomic_flag_test_and_set(&at_work))
    return 0;
  if (!(fork_alike && seen_before() < fork_alike) && number % fork_stride != 0) {
    atomic_flag_clear(&at_work);
    return 0;
  }
  tried++;
  const pid_t child = fork();
  if (child == 0) {
    alarm(300); /* a child that takes longer hangs */
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

/* Returns the number of allocations since ett_oom_arm. */
long ett_oom_disarm(void) {
  atomic_store(&failing_from, 0);
  fork_stride = 0;
  return atomic_load(&counted);
}

/* How many allocations forked. */
long ett_oom_tried(void) {
  return tried;
}

long ett_oom_blocks(void) {
  return atomic_load(&blocks);
}

/* Closes a Lua state and exits. This function is here because closing unloads the
 * modules. Writes the number of held blocks to the descriptor `report`; without one, the
 * exit status is 4 if there are more than `most`. */
void ett_oom_leave(void (*close_state)(void *), void *state, long most, int report) {
  close_state(state);
#ifdef ETT_SANITIZED /* memory of its strdup is freed here but was not counted */
  const long held = 0;
#else
  const long held = atomic_load(&blocks);
#endif
  if (report >= 0)
    _exit(write(report, &held, sizeof held) != sizeof held);
  if (held > most)
    fprintf(stderr, "%ld blocks leaked\n", held - most);
  _exit(held > most ? 4 : 0);
}

/* lua-cjson ends the process when malloc fails, and leaks its buffer when Lua's allocator
 * does. Its calls neither fail nor count. */
static int by_cjson(void *caller) {
  struct dl_find_object found; /* dladdr would search the symbols, too */
  return _dl_find_object(caller, &found) == 0 &&
         strstr(found.dlfo_link_map->l_name, "cjson");
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
