/* Blocks that grow, shrink and are freed in random order keep their contents: none
 * overlaps another, and all are aligned as malloc's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "host/blocks.h"

enum { BLOCKS = 400, STEPS = 20000, LARGEST = 400 };

static struct {
  unsigned char *at, mark;
  size_t size;
} block[BLOCKS];

static host_blocks blocks;

static uint32_t next_random(void) {
  static uint32_t state = 12345;
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

static void check(size_t i, size_t size) {
  for (size_t k = 0; k < size; k++)
    assert_int_equal(block[i].mark, block[i].at[k]);
}

static void resize(size_t i, size_t size) {
  size_t kept = size < block[i].size ? size : block[i].size;
  check(i, block[i].size);
  block[i].at = host_block_resize(&blocks, block[i].at, block[i].size, size);
  if (size == 0) {
    assert_null(block[i].at);
  } else {
    assert_non_null(block[i].at);
    assert_int_equal(0, (uintptr_t)block[i].at % _Alignof(max_align_t));
    check(i, kept);
    block[i].mark = (unsigned char)next_random();
    memset(block[i].at, block[i].mark, size);
  }
  block[i].size = size;
}

static void blocks_keep_their_contents(void **state) {
  (void)state;
  for (int step = 0; step < STEPS; step++)
    resize(next_random() % BLOCKS, next_random() % 4 ? next_random() % LARGEST : 0);
  for (size_t i = 0; i < BLOCKS; i++)
    resize(i, 0);
  host_blocks_close(&blocks);
}

/* What was freed serves again: as many blocks of the same sizes are the same ones. */
static void free_blocks_are_used_again(void **state) {
  (void)state;
  for (size_t size = 1; size <= 256; size++) {
    void *first = host_block_resize(&blocks, NULL, 0, size);
    host_block_resize(&blocks, first, size, 0);
    void *last = host_block_resize(&blocks, NULL, 0, size);
    assert_ptr_equal(first, last);
    host_block_resize(&blocks, last, size, 0);
  }
  host_blocks_close(&blocks);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_keep_their_contents),
      cmocka_unit_test(free_blocks_are_used_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
