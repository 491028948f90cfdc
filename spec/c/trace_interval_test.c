/* The interval algebra against a model of one bit for each integer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "trace/query/interval.h"

#define WORLD 96

typedef struct model {
  unsigned char in[WORLD];
} model;

static uint64_t state = 20;

static unsigned roll(unsigned below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 33) % below;
}

static void random_set(ett_intervals *s, model *m) {
  assert_int_equal(ett_intervals_make(s, 12), 0);
  size_t n = roll(13);
  memset(m, 0, sizeof *m);
  for (size_t i = 0; i < n; i++) {
    int64_t from = roll(WORLD), to = roll(4) ? from + roll(10) : roll(WORLD);
    if (to > WORLD)
      to = WORLD;
    s->items[s->count++] = (ett_interval){from, to};
    for (int64_t x = from; x < to; x++)
      m->in[x] = 1;
  }
  assert_int_equal(ett_intervals_unite(s), 0);
}

static void test_too_many(void **unused) {
  (void)unused;
  ett_intervals s;
  assert_int_equal(ett_intervals_make(&s, SIZE_MAX / sizeof *s.items + 1), -1);
}

static void check(const ett_intervals *s, const model *m) {
  int64_t length = 0;
  for (int x = 0; x < WORLD; x++) {
    assert_int_equal(ett_intervals_measure_in(s, x, x + 1), m->in[x]);
    length += m->in[x];
  }
  assert_int_equal(ett_intervals_measure(s), length);
  for (size_t i = 0; i < s->count; i++) {
    assert_true(s->items[i].from < s->items[i].to);
    if (i)
      assert_true(s->items[i - 1].to < s->items[i].from); /* canonical */
  }
}

static void test_against_bits(void **unused) {
  (void)unused;
  for (int round = 0; round < 4000; round++) {
    ett_intervals a, b, out;
    model x, y, want;
    random_set(&a, &x);
    random_set(&b, &y);
    check(&a, &x);
    for (int op = 0; op < 3; op++) {
      for (int i = 0; i < WORLD; i++)
        want.in[i] = op == 0   ? x.in[i] || y.in[i]
                     : op == 1 ? x.in[i] && y.in[i]
                               : x.in[i] && !y.in[i];
      assert_int_equal((op == 0   ? ett_intervals_union
                        : op == 1 ? ett_intervals_intersect
                                  : ett_intervals_subtract)(&out, &a, &b),
                       0);
      check(&out, &want);
      if (op == 1)
        assert_int_equal(ett_intervals_measure_both(&a, &b), ett_intervals_measure(&out));
      ett_intervals_free(&out);
    }
    int64_t from = roll(WORLD), to = roll(WORLD);
    int64_t inside = 0;
    for (int i = 0; i < WORLD; i++) {
      want.in[i] = x.in[i] && i >= from && i < to;
      inside += want.in[i];
    }
    assert_int_equal(ett_intervals_measure_in(&a, from, to), inside);
    assert_int_equal(ett_intervals_clip(&out, &a, from, to), 0);
    check(&out, &want);
    ett_intervals_free(&out);
    for (int i = 0; i < WORLD; i++)
      want.in[i] = !x.in[i] && i >= from && i < to;
    assert_int_equal(ett_intervals_gaps(&out, &a, from, to), 0);
    check(&out, &want);
    ett_intervals_free(&out);
    int64_t least = roll(12);
    memset(&want, 0, sizeof want);
    for (size_t i = 0; i < a.count; i++)
      for (int64_t k = a.items[i].from; k < a.items[i].to; k++)
        want.in[k] = a.items[i].to - a.items[i].from > least;
    assert_int_equal(ett_intervals_longer(&out, &a, least), 0);
    check(&out, &want);
    ett_intervals_free(&out);
    ett_intervals_free(&a);
    ett_intervals_free(&b);
  }
}

static void test_extremes(void **unused) {
  (void)unused;
  const ett_interval items[] = {{INT64_MIN, 0}, {5, INT64_MAX}, {0, 5}};
  ett_interval hole = {-1, 1};
  ett_intervals a, out, b = {&hole, 1};
  assert_int_equal(ett_intervals_make(&a, 3), 0);
  memcpy(a.items, items, sizeof items);
  a.count = 3;
  assert_int_equal(ett_intervals_unite(&a), 0);
  assert_int_equal(a.count, 1);
  assert_true(a.items[0].from == INT64_MIN && a.items[0].to == INT64_MAX);
  assert_int_equal(ett_intervals_subtract(&out, &a, &b), 0);
  assert_int_equal(out.count, 2);
  assert_int_equal(ett_intervals_longer(&b, &out, INT64_MAX - 2), 0);
  assert_int_equal(b.count, 2);
  ett_intervals_free(&b);
  ett_intervals_free(&out);
  ett_intervals_free(&a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_against_bits),
      cmocka_unit_test(test_extremes),
      cmocka_unit_test(test_too_many),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
