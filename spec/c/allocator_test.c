/* Lua's allocator: resizing keeps contents, blocks do not overlap, the limit holds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "host/allocator.h"
#include "host/host.h"

volatile sig_atomic_t host_allocations, host_allocating; /* of interrupt.c */

enum { BLOCKS = 300, TURNS = 200000 };

typedef struct {
  unsigned char *bytes, mark;
  size_t size;
} block;

static uint64_t state = 1;

static size_t below(size_t most) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (size_t)(state >> 33) % most;
}

/* Sizes on both sides of those that are kept. */
static size_t any_size(void) {
  return below(4) == 0 ? below(3000) : below(8) == 0 ? below(50000) : below(600);
}

static void check(const block *b, size_t size) {
  for (size_t i = 0; i < size; i++)
    assert_int_equal(b->bytes[i], b->mark);
}

static void change(host_memory *memory, block *b, size_t size) {
  size_t least = size < b->size ? size : b->size;
  check(b, b->size);
  b->bytes = host_allocate(memory, b->bytes, b->size, size);
  assert_true((b->bytes != NULL) == (size > 0));
  check(b, least);
  b->mark = (unsigned char)below(256);
  b->size = size;
  if (size > 0)
    memset(b->bytes, b->mark, size);
}

static void run(size_t turns) {
  host_memory memory = {0, SIZE_MAX};
  block blocks[BLOCKS] = {{NULL, 0, 0}};
  size_t used = 0;
  for (size_t t = 0; t < turns; t++) {
    block *b = &blocks[below(BLOCKS)];
    used -= b->size;
    change(&memory, b, below(3) == 0 ? 0 : any_size());
    used += b->size;
    assert_int_equal(memory.used, used);
  }
  for (size_t i = 0; i < BLOCKS; i++)
    change(&memory, &blocks[i], 0);
  assert_int_equal(memory.used, 0);
}

static void contents_survive(void **unused) {
  (void)unused;
  run(TURNS);
}

static void each_size_holds_its_bytes(void **unused) {
  (void)unused;
  host_memory memory = {0, SIZE_MAX};
  for (size_t size = 1; size < 40000; size += size < 1100 ? 1 : 31) {
    block b = {NULL, 0, 0};
    change(&memory, &b, size);
    change(&memory, &b, 0); /* kept, and taken again */
    change(&memory, &b, size);
    change(&memory, &b, size + 1);
    change(&memory, &b, 0);
  }
}

static void the_bound_holds(void **unused) {
  (void)unused;
  host_memory memory = {0, 1000};
  void *a = host_allocate(&memory, NULL, 5, 600); /* 5: a type, not a size */
  assert_non_null(a);
  assert_null(host_allocate(&memory, NULL, 0, 401));
  assert_null(host_allocate(&memory, a, 600, 1001));
  assert_int_equal(memory.used, 600);
  host_allocate(&memory, a, 600, 0);
  assert_int_equal(memory.used, 0);
}

/* 34 MiB of small blocks: more than the arena holds. */
static void a_full_arena_is_no_limit(void **unused) {
  (void)unused;
  enum { MANY = 70 << 10 };
  host_memory memory = {0, SIZE_MAX};
  char **blocks = malloc(MANY * sizeof *blocks);
  for (size_t i = 0; i < MANY; i++) {
    blocks[i] = host_allocate(&memory, NULL, 0, 500);
    memset(blocks[i], (char)i, 500);
  }
  for (size_t i = 0; i < MANY; i++)
    blocks[i] = host_allocate(&memory, blocks[i], 500, i % 2 ? 505 : 480);
  for (size_t i = 0; i < MANY; i++) {
    assert_int_equal(blocks[i][0], (char)i);
    assert_int_equal(blocks[i][479], (char)i);
    host_allocate(&memory, blocks[i], i % 2 ? 505 : 480, 0);
  }
  free(blocks);
  assert_int_equal(memory.used, 0);
}

/* Holds for the rest of the process. */
static void no_blocks_are_kept(void **unused) {
  host_memory memory = {0, SIZE_MAX};
  block a = {NULL, 0, 0}, b = a;
  change(&memory, &a, 100);
  change(&memory, &b, 100);
  host_keep_no_blocks();
  change(&memory, &a, 90);
  change(&memory, &a, 0);
  change(&memory, &b, 600);
  change(&memory, &b, 0);
  contents_survive(unused);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(contents_survive),   cmocka_unit_test(each_size_holds_its_bytes),
      cmocka_unit_test(the_bound_holds),    cmocka_unit_test(a_full_arena_is_no_limit),
      cmocka_unit_test(no_blocks_are_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
