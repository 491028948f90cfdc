/* Designs, forests and model blocks: laws, and damage. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "regress/serve/compact.h"
#include "regress/serve/model.h"

static const double gemm[4] = {1, 4096, 6144, 4096};

static void every_family_counts_as_it_fills(void **state) {
  (void)state;
  for (int family = 0; family < ETT_FAMILY_COUNT; family++)
    for (int backward = 0; backward < 2; backward++) {
      ett_design d = {(ett_family)family, backward, 108, 1};
      ett_err err;
      while (d.dims <= ETT_DESIGN_DIMS && ett_design_check(&d, &err) != 0)
        d.dims++;
      assert_true(d.dims <= ETT_DESIGN_DIMS);
      int columns = ett_design_columns(&d), features = ett_design_features(&d);
      assert_in_range(columns, 1, ETT_DESIGN_COLUMNS);
      assert_in_range(features, 1, ETT_DESIGN_FEATURES);
      double dims[ETT_DESIGN_DIMS], column[ETT_DESIGN_COLUMNS + 1];
      float feature[ETT_DESIGN_FEATURES + 1];
      for (int i = 0; i < ETT_DESIGN_DIMS; i++)
        dims[i] = 256 << i % 4;
      column[columns] = -77;
      feature[features] = -77;
      ett_design_row(&d, dims, column, feature);
      assert_true(column[columns] == -77 && feature[features] == -77);
      for (int i = 0; i < columns; i++)
        assert_true(column[i] >= 0 && isfinite(column[i]));
      for (int i = 0; i < features; i++)
        assert_true(isfinite(feature[i]));
      assert_int_equal(ett_family_find(ett_family_name((ett_family)family)), family);
    }
}

/* Quantised FLOPs are whole waves: never below the plain ones, equal when tiles fit. */
static void quantised_flops_bound_the_plain_ones(void **state) {
  (void)state;
  ett_design d = {ETT_FAMILY_GEMM, false, 108, 4};
  double column[ETT_DESIGN_COLUMNS];
  float feature[ETT_DESIGN_FEATURES];
  const double whole[4] = {1, 256 * 12, 128 * 9, 512}; /* 108 tiles of 256 by 128 */
  ett_design_row(&d, whole, column, feature);
  assert_true(column[2] == column[1]);
  ett_design_row(&d, gemm, column, feature);
  for (int i = 2; i < 7; i++)
    assert_true(column[i] >= column[1]);
}

static void kernels_tell_shapes_apart(void **state) {
  (void)state;
  ett_design d = {ETT_FAMILY_GEMM, false, 108, 4};
  const double other[4] = {1, 6144, 4096, 4096};
  assert_true(ett_design_kernel(&d, gemm) == ett_design_kernel(&d, gemm));
  assert_true(ett_design_kernel(&d, gemm) != ett_design_kernel(&d, other));
  ett_design line = {ETT_FAMILY_COLLECTIVE, false, 108, 1};
  const double small = 1000, large = 1001;
  assert_true(ett_design_kernel(&line, &small) < ett_design_kernel(&line, &large));
}

/* A model of two small trees, by hand. */
static void make_parts(ett_model *parts, double *x, uint64_t *kernel, double *residual) {
  ett_err err;
  memset(parts, 0, sizeof *parts);
  parts->design = (ett_design){ETT_FAMILY_GEMM, false, 108, 4};
  parts->columns = ett_design_columns(&parts->design);
  parts->features = ett_design_features(&parts->design);
  memset(x, 0, ETT_DESIGN_COLUMNS * sizeof *x);
  x[1] = 1 / 2e14;
  parts->x = x;
  parts->forests = 1;
  assert_int_equal(ett_forest_make(2, 4, &parts->forest[0], &err), 0);
  ett_forest *f = &parts->forest[0];
  f->features = (uint32_t)parts->features;
  f->base_score = 0.125f;
  f->roots[1] = 3;
  f->node[0] = (ett_tree_node){8.0f, 0, 0, 1}; /* log m < 8 */
  f->node[1] = (ett_tree_node){-0.5f, -1, 0, 0};
  f->node[2] = (ett_tree_node){0.25f, -1, 0, 0};
  f->node[3] = (ett_tree_node){0.5f, -1, 0, 0};
  parts->facts.log_target = parts->facts.has_base = 1;
  parts->facts.shrink = parts->facts.shrink_outside = 1;
  parts->facts.floor = 0.01;
  parts->facts.width_inside = parts->facts.width_twin = 2;
  parts->facts.width_outside = 5;
  parts->facts.twin_weight = 1;
  for (int i = 0; i < 4; i++) {
    parts->facts.least[i] = 1;
    parts->facts.most[i] = 8192;
  }
  parts->facts.size_least = 1;
  parts->facts.size_most = 1e12;
  kernel[0] = 0;
  residual[0] = 0;
  parts->twins = 1;
  parts->twin_kernel = kernel;
  parts->twin_residual = residual;
}

static void *packed(size_t *length) {
  ett_model parts;
  double x[ETT_DESIGN_COLUMNS], residual[1];
  uint64_t kernel[1];
  void *block;
  ett_err err;
  make_parts(&parts, x, kernel, residual);
  assert_int_equal(ett_model_pack(&parts, &block, length, &err), 0);
  ett_forest_free(&parts.forest[0]);
  return block;
}

static void a_model_answers_as_it_was_made(void **state) {
  (void)state;
  size_t length;
  ett_model model;
  ett_err err;
  ett_prediction p;
  void *block = packed(&length);
  assert_int_equal(ett_model_open(block, length, true, &model, &err), 0);
  assert_int_equal(ett_model_predict(&model, gemm, &p, &err), 0);
  double base = 2.0 * 4096 * 6144 * 4096 / 2e14;
  assert_true(fabs(p.base / base - 1) < 1e-12);
  assert_true(fabs(p.value / (base * exp(0.875)) - 1) < 1e-7); /* log 4096 > 8 */
  assert_true(fabs(log(p.high / p.value) - 0.02) < 1e-9);
  assert_int_equal(p.provenance, ETT_INTERPOLATED);
  const double far[4] = {1, 16384, 6144, 4096};
  assert_int_equal(ett_model_predict(&model, far, &p, &err), 0);
  assert_int_equal(p.provenance, ETT_EXTRAPOLATED);
  assert_true(fabs(p.outside - 1) < 1e-12);
  assert_true(log(p.high / p.value) > 0.05);
  const double wrong[4] = {1, 0, 6144, 4096};
  assert_int_equal(ett_model_predict(&model, wrong, &p, &err), -1);
  ett_model_close(&model);
  ett_model_close(&model);
  assert_int_equal(ett_model_predict(&model, gemm, &p, &err), -1);
  assert_string_equal(err.message, "the regressor is closed");
}

static void forests_become_ready_after_some_rows(void **state) {
  (void)state;
  size_t length;
  ett_model model;
  ett_err err;
  ett_prediction first, p;
  void *block = packed(&length);
  assert_int_equal(ett_model_open(block, length, true, &model, &err), 0);
  assert_int_equal(ett_model_predict(&model, gemm, &first, &err), 0);
  for (int i = 1; i < 3 * ETT_MODEL_FEW; i++) {
    assert_int_equal(model.forest[0].split != NULL, i > ETT_MODEL_FEW);
    assert_int_equal(ett_model_predict(&model, gemm, &p, &err), 0);
    assert_true(p.value == first.value && p.low == first.low && p.high == first.high);
    assert_int_equal(p.provenance, first.provenance);
  }
  ett_model_close(&model);
}

static const char digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void text_keeps_a_model(void **state) {
  (void)state;
  size_t length, characters;
  ett_model model, again;
  ett_err err;
  ett_prediction p, q;
  char *text;
  void *block = packed(&length);
  assert_int_equal(ett_model_open(block, length, true, &model, &err), 0);
  assert_int_equal(ett_model_to_text(&model, &text, &characters, &err), 0);
  assert_int_equal(ett_model_from_text(text, characters, &again, &err), 0);
  assert_int_equal(ett_model_predict(&model, gemm, &p, &err), 0);
  assert_int_equal(ett_model_predict(&again, gemm, &q, &err), 0);
  assert_true(fabs(q.value / p.value - 1) < 1e-4);
  ett_model_close(&again);
  for (size_t n = 0; n < characters; n++) {
    assert_int_equal(ett_model_from_text(text, n & ~(size_t)3, &again, &err), -1);
    if (n > 64)
      n += 37;
  }
  for (size_t i = 0; i < 64 * characters; i++) { /* any character, any other: no crash */
    char *damaged = malloc(characters);
    memcpy(damaged, text, characters);
    damaged[i / 64] = digits[i % 64];
    if (ett_model_from_text(damaged, characters, &again, &err) == 0) {
      for (int f = 0; f < again.forests; f++)
        assert_int_equal(ett_forest_check(&again.forest[f], &err), 0);
      assert_int_equal(ett_forest_check(&again.difficulty, &err), 0);
      ett_model_close(&again);
    }
    free(damaged);
  }
  free(text);
  ett_model_close(&model);
}

/* The text of a model of one tree with the thresholds 7 and 8. Hands back the parts. */
static char *text_of_two(ett_model *parts, double *x, size_t *length) {
  static uint64_t kernel[1];
  static double residual[1];
  ett_err err;
  char *text;
  make_parts(parts, x, kernel, residual);
  ett_forest_free(&parts->forest[0]);
  assert_int_equal(ett_forest_make(1, 5, &parts->forest[0], &err), 0);
  parts->forest[0].node[0] = (ett_tree_node){7, 0, 0, 1};
  parts->forest[0].node[1] = (ett_tree_node){0.5f, -1, 0, 0};
  parts->forest[0].node[2] = (ett_tree_node){8, 0, 0, 3};
  parts->forest[0].node[3] = (ett_tree_node){-0.5f, -1, 0, 0};
  parts->forest[0].node[4] = (ett_tree_node){0.25f, -1, 0, 0};
  assert_int_equal(ett_model_to_text(parts, &text, length, &err), 0);
  return text;
}

static int digit(char c) {
  return (int)(strchr(digits, c) - digits);
}

/* Swaps the floats 7 and 8 of a base64 text. */
static void swap_thresholds(char *text, size_t length) {
  const float ordered[2] = {7, 8}, swapped[2] = {8, 7};
  unsigned char *bytes = malloc(length);
  size_t count = 0;
  for (size_t i = 0; i + 4 <= length && text[i + 3] != '='; i += 4) {
    const int word = digit(text[i]) << 18 | digit(text[i + 1]) << 12 |
                     digit(text[i + 2]) << 6 | digit(text[i + 3]);
    bytes[count++] = (unsigned char)(word >> 16);
    bytes[count++] = (unsigned char)(word >> 8);
    bytes[count++] = (unsigned char)word;
  }
  unsigned char *at = memmem(bytes, count, ordered, sizeof ordered);
  assert_non_null(at);
  memcpy(at, swapped, sizeof swapped);
  for (size_t i = 0; i < count; i++) {
    const int word =
        bytes[i - i % 3] << 16 | bytes[i - i % 3 + 1] << 8 | bytes[i - i % 3 + 2];
    for (size_t k = 0; k < 4; k++)
      text[i / 3 * 4 + k] = digits[word >> (18 - 6 * k) & 63];
  }
  free(bytes);
}

static void refuse(const char *text, size_t length) {
  ett_model model;
  ett_err err;
  assert_int_equal(ett_model_from_text(text, length, &model, &err), -1);
  assert_int_equal(err.code, ETT_ERR_FORMAT);
  assert_null(model.memory);
}

/* What a writer never writes: the text is whole, so that nothing else shows the damage.
 */
static void damaged_texts_are_refused(void **state) {
  (void)state;
  ett_model parts, model;
  double x[ETT_DESIGN_COLUMNS];
  size_t length;
  ett_err err;
  char *text = text_of_two(&parts, x, &length), more[4096];
  assert_int_equal(ett_model_from_text(text, length, &model, &err), 0);
  ett_model_close(&model);
  assert_in_range(length, 100, sizeof more - 10);
  length -= text[length - 1] == '=';
  length -= text[length - 1] == '=';
  for (int part = 0; part < 2; part++) { /* bytes behind the end; text behind padding */
    const int count =
        snprintf(more, sizeof more, "%.*s%s", (int)length, text, part ? "=AAA" : "AAAA");
    refuse(more, (size_t)count);
  }
  swap_thresholds(text, length);
  refuse(text, length);
  free(text);
  double *const facts[] = {&parts.facts.error_mean, &parts.facts.error_median,
                           &parts.facts.rows, &parts.facts.dropped};
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
    for (int k = 0; k < 3; k++) {
      *facts[i] = k == 0 ? NAN : k == 1 ? INFINITY : -1;
      assert_int_equal(ett_model_to_text(&parts, &text, &length, &err), 0);
      refuse(text, length);
      free(text);
      *facts[i] = 0;
    }
  parts.forest[0].node[0].value = NAN;
  assert_int_equal(ett_model_to_text(&parts, &text, &length, &err), 0);
  refuse(text, length);
  free(text);
  ett_forest_free(&parts.forest[0]);
}

/* A time that is not finite is an error, not an answer. */
static void no_infinite_time_is_served(void **state) {
  (void)state;
  ett_model parts, model;
  double x[ETT_DESIGN_COLUMNS];
  size_t length;
  ett_err err;
  ett_prediction p;
  free(text_of_two(&parts, x, &length));
  for (int huge = 0; huge < 2; huge++) {
    void *block;
    x[1] = huge ? 1e300 : 1 / 2e14;
    parts.forest[0].node[4].value = huge ? 0.25f : -1e30f; /* a factor that is 0 */
    assert_int_equal(ett_model_pack(&parts, &block, &length, &err), 0);
    assert_int_equal(ett_model_open(block, length, true, &model, &err), 0);
    assert_int_equal(ett_model_predict(&model, gemm, &p, &err), -1);
    ett_model_close(&model);
  }
  ett_forest_free(&parts.forest[0]);
}

/* No text is written that cannot be read: trees of at most 64 levels. */
static void deep_trees_have_no_text(void **state) {
  (void)state;
  for (uint32_t levels = 64; levels < 66; levels++) {
    ett_model parts, model;
    double x[ETT_DESIGN_COLUMNS];
    size_t length;
    ett_err err;
    char *text;
    free(text_of_two(&parts, x, &length));
    ett_forest_free(&parts.forest[0]);
    assert_int_equal(ett_forest_make(1, 2 * levels + 1, &parts.forest[0], &err), 0);
    for (uint32_t i = 0; i < 2 * levels + 1; i++)
      parts.forest[0].node[i] = i % 2 == 0 && i < 2 * levels
                                    ? (ett_tree_node){(float)i, 0, 0, i + 1}
                                    : (ett_tree_node){1, -1, 0, 0};
    assert_int_equal(ett_model_to_text(&parts, &text, &length, &err),
                     levels == 64 ? 0 : -1);
    if (levels == 64) {
      assert_int_equal(ett_model_from_text(text, length, &model, &err), 0);
      ett_model_close(&model);
    } else {
      assert_string_equal(err.message,
                          "a coefficient file holds trees of at most 64 levels");
    }
    free(text);
    ett_forest_free(&parts.forest[0]);
  }
}

static void every_damaged_byte_is_noticed(void **state) {
  (void)state;
  size_t length;
  unsigned char *block = packed(&length);
  for (size_t i = 0; i < length; i++) {
    unsigned char *copy = malloc(length);
    ett_model model;
    ett_err err;
    memcpy(copy, block, length);
    copy[i] ^= 0x10;
    assert_int_equal(ett_model_open(copy, length, true, &model, &err), -1);
    assert_null(model.memory);
  }
  for (size_t n = 0; n < length; n += 9) {
    unsigned char *copy = malloc(n + 1);
    ett_model model;
    ett_err err;
    memcpy(copy, block, n);
    assert_int_equal(ett_model_open(copy, n, true, &model, &err), -1);
  }
  free(block);
}

static void damaged_trees_are_refused(void **state) {
  (void)state;
  ett_forest f;
  ett_err err;
  assert_int_equal(ett_forest_make(1, 3, &f, &err), 0);
  f.features = 2;
  f.node[0] = (ett_tree_node){1, 0, 0, 1};
  f.node[1] = f.node[2] = (ett_tree_node){1, -1, 0, 0};
  assert_int_equal(ett_forest_check(&f, &err), 0);
  f.node[0].left = 2; /* the right child would lie outside */
  assert_int_equal(ett_forest_check(&f, &err), -1);
  f.node[0].left = 0; /* a cycle */
  assert_int_equal(ett_forest_check(&f, &err), -1);
  f.node[0].left = 1;
  f.node[0].feature = 2;
  assert_int_equal(ett_forest_check(&f, &err), -1);
  f.node[0].feature = 0;
  f.node[1].value = NAN;
  assert_int_equal(ett_forest_check(&f, &err), -1);
  ett_forest_free(&f);
}

/* 37 trees of 1 to `most` levels, whose left branches are the longer ones. */
static void ready_trees_of(uint32_t most) {
  enum { TREES = 37 };
  const uint32_t nodes = 2 * most + 1;
  ett_forest f;
  ett_err err;
  uint32_t used = 0;
  assert_int_equal(ett_forest_make(TREES, TREES * nodes, &f, &err), 0);
  f.features = 3;
  f.base_score = 0.5f;
  for (uint32_t t = 0; t < TREES; t++) {
    const uint32_t levels = 1 + t % most;
    f.roots[t] = used;
    for (uint32_t k = 0; k < levels; k++) {
      const int16_t feature = (int16_t)((t + k) % 3);
      f.node[used++] = (ett_tree_node){(float)((t * 7 + k * 5) % 11), feature, 1, 0};
      if (k > 0) /* the right sibling, a leaf */
        f.node[used++] = (ett_tree_node){0.1f * (float)(t + k), -1, 0, 0};
      f.node[used - (k > 0 ? 2 : 1)].left = 2 * k + 1;
    }
    f.node[used++] = (ett_tree_node){-0.3f * (float)t, -1, 0, 0};
    f.node[used++] = (ett_tree_node){0.7f * (float)t, -1, 0, 0};
  }
  f.nodes = used;
  assert_int_equal(ett_forest_check(&f, &err), 0);
  float before[11 * 11];
  for (int i = 0; i < 121; i++) {
    const float x[3] = {(float)(i % 11), (float)(i / 11), i == 60 ? NAN : (float)(i % 7)};
    before[i] = ett_forest_predict(&f, x);
  }
  assert_int_equal(ett_forest_ready(&f, &err), 0);
  for (int i = 0; i < 121; i++) {
    const float x[3] = {(float)(i % 11), (float)(i / 11), i == 60 ? NAN : (float)(i % 7)};
    assert_true(ett_forest_predict(&f, x) == before[i]);
  }
  assert_int_equal(f.split != NULL, most <= 6);
  assert_int_equal(f.step != NULL, most > 6);
  ett_forest_free(&f);
}

/* Complete trees of 4, 5 and 6 levels, and steps for deeper trees. */
static void ready_trees_answer_the_same(void **state) {
  (void)state;
  const uint32_t most[] = {3, 4, 5, 6, 7, 9};
  for (size_t i = 0; i < sizeof most / sizeof *most; i++)
    ready_trees_of(most[i]);
}

/* The median of the nearest, with and without one's own. */
static void neighbours_are_the_nearest(void **state) {
  (void)state;
  const double r[6] = {1, 2, 3, 100, 5, 6};
  assert_true(ett_model_neighbours(r, 6, 3, 2, 3) == 4);   /* 3 and 5 */
  assert_true(ett_model_neighbours(r, 6, 0, 2, 0) == 2.5); /* 2 and 3 at the edge */
  assert_true(ett_model_neighbours(r, 6, 5, 2, 5) > 5);    /* 100 and 5 */
  assert_true(ett_model_neighbours(r, 1, 0, 4, 0) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_family_counts_as_it_fills),
      cmocka_unit_test(quantised_flops_bound_the_plain_ones),
      cmocka_unit_test(kernels_tell_shapes_apart),
      cmocka_unit_test(a_model_answers_as_it_was_made),
      cmocka_unit_test(forests_become_ready_after_some_rows),
      cmocka_unit_test(text_keeps_a_model),
      cmocka_unit_test(damaged_texts_are_refused),
      cmocka_unit_test(no_infinite_time_is_served),
      cmocka_unit_test(deep_trees_have_no_text),
      cmocka_unit_test(every_damaged_byte_is_noticed),
      cmocka_unit_test(damaged_trees_are_refused),
      cmocka_unit_test(ready_trees_answer_the_same),
      cmocka_unit_test(neighbours_are_the_nearest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
