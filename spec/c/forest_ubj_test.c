/* XGBoost's UBJSON, written here by hand in every number type that the format has. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "regress/serve/forest.h"

enum { INNER = 200, NODES = 2 * INNER + 1 };

typedef struct {
  unsigned char data[1 << 16];
  size_t length;
} bytes;

static void put(bytes *b, const void *data, size_t count) {
  assert_true(b->length + count <= sizeof b->data);
  memcpy(b->data + b->length, data, count);
  b->length += count;
}

static void put_big_endian(bytes *b, uint64_t value, int count) {
  for (int i = count - 1; i >= 0; i--) {
    unsigned char one = (unsigned char)(value >> 8 * i);
    put(b, &one, 1);
  }
}

static void put_number(bytes *b, char type, double value) {
  float single = (float)value;
  uint32_t bits;
  uint64_t wide;
  memcpy(&bits, &single, sizeof bits);
  memcpy(&wide, &value, sizeof wide);
  switch (type) {
  case 'I':
    put_big_endian(b, (uint64_t)(int64_t)value, 2);
    break;
  case 'l':
    put_big_endian(b, (uint64_t)(int64_t)value, 4);
    break;
  case 'L':
    put_big_endian(b, (uint64_t)(int64_t)value, 8);
    break;
  case 'd':
    put_big_endian(b, bits, 4);
    break;
  default:
    put_big_endian(b, wide, 8);
  }
}

static void put_key(bytes *b, const char *name) {
  put(b, "U", 1);
  put_big_endian(b, strlen(name), 1);
  put(b, name, strlen(name));
}

static void put_text(bytes *b, const char *name, const char *value) {
  put_key(b, name);
  put(b, "S", 1);
  put_key(b, value);
}

typedef enum { TYPED, COUNTED, ENDED } layout;

static void put_array(bytes *b, const char *name, const double *values, size_t count,
                      char type, layout as) {
  put_key(b, name);
  put(b, "[", 1);
  if (as == TYPED) {
    put(b, "$", 1);
    put(b, &type, 1);
  }
  if (as != ENDED) {
    put(b, "#I", 2);
    put_big_endian(b, count, 2);
  }
  for (size_t i = 0; i < count; i++) {
    if (as != TYPED)
      put(b, &type, 1);
    put_number(b, type, values[i]);
  }
  if (as == ENDED)
    put(b, "]", 1);
}

/* A chain: inner node 2k asks x < k + 1, its left child is the leaf k, its right one the
 * next inner node. Children are numbers from -1 to 400: more than a byte and a sign. */
typedef struct {
  double left[NODES], right[NODES], feature[NODES], threshold[NODES], missing[NODES];
  size_t rights; /* how many right children are written */
} chain;

static void fill(chain *c) {
  memset(c, 0, sizeof *c);
  c->rights = NODES;
  for (int i = 0; i < NODES; i++) {
    bool inner = i % 2 == 0 && i < NODES - 1;
    c->left[i] = inner ? i + 1 : -1;
    c->right[i] = inner ? i + 2 : -1;
    c->feature[i] = inner ? 1 : 0;
    c->threshold[i] = inner ? i / 2 + 1 : 0.25 * i;
    c->missing[i] = i == 6; /* what is not known goes left there, to the leaf 7 */
  }
}

static void put_model(bytes *b, const chain *c, char integer, char real, layout as,
                      const char *base_score) {
  static const char unheard[] =
      "[ZNTFCxi\5SU\2abI\1\2{U\1aI\3\4}[$I#U\2\0\1\0\2[d\0\0\0\0]]";
  b->length = 0;
  put(b, "{", 1);
  put_key(b, "learner");
  put(b, "{", 1);
  put_key(b, "learner_model_param");
  put(b, "{", 1);
  put_text(b, "base_score", base_score);
  put_text(b, "num_feature", "2");
  put(b, "}", 1);
  put_key(b, "unheard"); /* skipped, whatever it holds */
  put(b, unheard, sizeof unheard - 1);
  put_key(b, "trees");
  put(b, "[#U\1{", 5);
  put_array(b, "left_children", c->left, NODES, integer, as);
  put_array(b, "right_children", c->right, c->rights, integer, as);
  put_array(b, "split_indices", c->feature, NODES, integer, as);
  put_array(b, "split_conditions", c->threshold, NODES, real, as);
  put_array(b, "default_left", c->missing, NODES, integer, as);
  put(b, "}}}", 3);
}

static void every_number_type_says_the_same(void **state) {
  (void)state;
  chain *c = malloc(sizeof *c);
  bytes *b = malloc(sizeof *b);
  fill(c);
  for (const char *integer = "IlLdD"; *integer; integer++)
    for (const char *real = "dD"; *real; real++)
      for (int as = TYPED; as <= ENDED; as++) {
        ett_forest f;
        ett_err err;
        put_model(b, c, *integer, *real, (layout)as, as == TYPED ? "[5E-1]" : "5E-1");
        assert_int_equal(ett_forest_from_ubj(b->data, b->length, &f, &err), 0);
        assert_int_equal(f.trees, 1);
        assert_int_equal(f.nodes, NODES);
        assert_int_equal(f.features, 2);
        for (int k = 0; k < INNER; k++) {
          float x[2] = {-1, (float)k + 0.5F};
          assert_true(ett_forest_predict(&f, x) == 0.5F + 0.25F * (float)(2 * k + 1));
        }
        float last[2] = {-1, INNER + 1};
        assert_true(ett_forest_predict(&f, last) == 0.5F + 0.25F * (NODES - 1));
        float unknown[2] = {-1, NAN};
        assert_true(ett_forest_predict(&f, unknown) == 0.5F + 0.25F * 7);
        ett_forest_free(&f);
      }
  free(b);
  free(c);
}

static void refused(const bytes *b, size_t length, const char *why) {
  unsigned char *copy = malloc(length + 1); /* of its own size: overruns are seen */
  ett_forest f;
  ett_err err = {ETT_OK, ""};
  memcpy(copy, b->data, length);
  assert_int_equal(ett_forest_from_ubj(copy, length, &f, &err), -1);
  assert_int_equal(err.code, ETT_ERR_FORMAT);
  assert_non_null(strstr(err.message, why));
  assert_null(f.memory);
  free(copy);
}

static void what_is_cut_short_is_refused(void **state) {
  (void)state;
  chain *c = malloc(sizeof *c);
  bytes *b = malloc(sizeof *b);
  fill(c);
  put_model(b, c, 'I', 'd', TYPED, "5E-1");
  for (size_t n = 0; n < b->length; n++)
    refused(b, n, "not an XGBoost model in UBJSON");
  free(b);
  free(c);
}

static void what_is_no_tree_is_refused_by_its_fault(void **state) {
  (void)state;
  chain *c = malloc(sizeof *c);
  bytes *b = malloc(sizeof *b);
  fill(c);
  put_model(b, c, 'I', 'd', TYPED, "half");
  refused(b, b->length, "base_score or num_feature is not a number");
  c->rights = NODES - 1;
  put_model(b, c, 'I', 'd', TYPED, "5E-1");
  refused(b, b->length, "a tree's arrays differ in length");
  const struct {
    double *list, value;
  } damage[] = {{c->left, NODES}, {c->right, NODES},  {c->right, -1},
                {c->left, 0}, /* its own child: more nodes than there are */
                {c->feature, -1}, {c->feature, 32767}};
  for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
    fill(c);
    damage[i].list[0] = damage[i].value;
    put_model(b, c, 'I', 'd', TYPED, "5E-1");
    refused(b, b->length, "a tree's children or features are out of range");
  }
  fill(c);
  c->feature[0] = 2; /* of two */
  put_model(b, c, 'I', 'd', TYPED, "5E-1");
  refused(b, b->length, "feature 2 of 2");
  free(b);
  free(c);
}

static void what_is_no_ubjson_is_refused(void **state) {
  (void)state;
  bytes *b = malloc(sizeof *b);
  b->length = 0;
  put(b, "{", 1);
  put_text(b, "base_score", "0");
  put_key(b, "typed but not counted");
  put(b, "[$U\1]}", 6);
  refused(b, b->length, "malformed");
  char digits[81];
  memset(digits, '0', 80);
  digits[80] = 0;
  b->length = 0;
  put(b, "{", 1);
  put_text(b, "base_score", "0");
  put_text(b, "num_feature", digits); /* more than any number has */
  put(b, "}", 1);
  refused(b, b->length, "malformed");
  free(b);
}

static void what_nests_too_deep_is_refused(void **state) {
  (void)state;
  bytes *b = malloc(sizeof *b);
  for (int lists = 0; lists < 2; lists++) {
    b->length = 0;
    put(b, "{", 1);
    put_text(b, "base_score", "0");
    for (int i = 0; i < 40; i++) {
      if (!lists || i == 0)
        put_key(b, "a");
      put(b, lists ? "[" : "{", 1);
    }
    for (int i = 0; i < 40; i++)
      put(b, lists ? "]" : "}", 1);
    put(b, "}", 1);
    refused(b, b->length, "malformed");
  }
  free(b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_number_type_says_the_same),
      cmocka_unit_test(what_is_cut_short_is_refused),
      cmocka_unit_test(what_is_no_tree_is_refused_by_its_fault),
      cmocka_unit_test(what_is_no_ubjson_is_refused),
      cmocka_unit_test(what_nests_too_deep_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
