/* Trees read from XGBoost's UBJSON give the library's predictions to the last bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xgboost/c_api.h>

#include "regress/fit/boost.h"
#include "regress/serve/compact.h"

#include <cmocka.h>

enum { ROWS = 400, COLUMNS = 4 };

static float x[ROWS * COLUMNS], y[ROWS];

/* Rows with values of many sizes; every ninth is missing. */
static void make_rows(void) {
  uint32_t state = 12345;
  for (int i = 0; i < ROWS * COLUMNS; i++) {
    state = state * 1664525u + 1013904223u;
    x[i] =
        i % 9 == 0 ? NAN : powf(10, (float)(i % COLUMNS)) * (float)(state >> 8) * 1e-6f;
  }
  for (int i = 0; i < ROWS; i++) {
    const float first = x[i * COLUMNS], second = x[i * COLUMNS + 1];
    y[i] = (isnan(first) ? 3 : sinf(first)) + (isnan(second) ? -1 : 0.01f * second);
  }
}

/* Trains 20 rounds; parameters: names and values, NULL behind them. */
static BoosterHandle train(DMatrixHandle *matrix, const char *const *parameters) {
  BoosterHandle booster;
  make_rows();
  assert_int_equal(XGDMatrixCreateFromMat(x, ROWS, COLUMNS, NAN, matrix), 0);
  assert_int_equal(XGDMatrixSetFloatInfo(*matrix, "label", y, ROWS), 0);
  assert_int_equal(XGBoosterCreate(matrix, 1, &booster), 0);
  XGBoosterSetParam(booster, "nthread", "1");
  XGBoosterSetParam(booster, "base_score", "-8.5");
  for (; *parameters; parameters += 2)
    XGBoosterSetParam(booster, parameters[0], parameters[1]);
  for (int i = 0; i < 20; i++)
    assert_int_equal(XGBoosterUpdateOneIter(booster, i, *matrix), 0);
  return booster;
}

static const char *save(BoosterHandle booster, bst_ulong *length) {
  const char *model;
  assert_int_equal(
      XGBoosterSaveModelToBuffer(booster, "{\"format\": \"ubj\"}", length, &model), 0);
  return model;
}

static void trees_predict_as_the_library(void **state) {
  (void)state;
  static const char *const parameters[][10] = {
      {"max_depth", "6", "eta", "0.1", NULL},
      {"max_depth", "5", "gamma", "0.5", NULL}, /* removes nodes */
      {"max_depth", "12", "num_parallel_tree", "5", "subsample", "0.6", "eta", "1", NULL},
  };
  for (size_t p = 0; p < sizeof parameters / sizeof *parameters; p++) {
    DMatrixHandle matrix;
    BoosterHandle booster = train(&matrix, parameters[p]);
    const float *theirs;
    bst_ulong count, length;
    ett_forest forest;
    ett_err err;
    const char *model = save(booster, &length);
    assert_int_equal(ett_forest_from_ubj(model, length, COLUMNS, -8.5, &forest, &err), 0);
    assert_int_equal(XGBoosterPredict(booster, matrix, 1, 0, 0, &count, &theirs), 0);
    assert_int_equal(count, ROWS);
    for (int i = 0; i < ROWS; i++) {
      const float ours = ett_forest_predict(&forest, x + i * COLUMNS);
      assert_memory_equal(&ours, &theirs[i], sizeof ours);
    }
    ett_forest_free(&forest);
    XGBoosterFree(booster);
    XGDMatrixFree(matrix);
  }
}

static uint32_t random_below(uint32_t *state, uint32_t bound) {
  *state = *state * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)*state * bound >> 32);
}

/* A feature at, just below or just above a threshold of the forest, any, or missing. */
static float near_threshold(const ett_forest *f, int feature, uint32_t *state) {
  const ett_tree_node *n = &f->node[random_below(state, f->nodes)];
  const uint32_t kind = random_below(state, 8);
  if (kind == 0)
    return NAN;
  if (kind == 1 || n->feature != feature)
    return x[(int)random_below(state, ROWS) * COLUMNS + feature];
  return kind < 4   ? nextafterf(n->value, -INFINITY)
         : kind < 6 ? nextafterf(n->value, INFINITY)
                    : n->value;
}

/* Leaves as a coefficient file keeps them: 16 bits of the largest one. */
static void round_leaf(float *value, float most) {
  *value = (float)((double)lround((double)*value / (double)most * 32767) / 32767 *
                   (double)most);
}

static void round_leaves(ett_forest *f) {
  float most = 0;
  for (uint32_t i = 0; i < f->nodes; i++)
    if (f->node[i].feature < 0)
      most = fmaxf(most, fabsf(f->node[i].value));
  for (uint32_t i = 0; i < f->nodes && most > 0; i++)
    if (f->node[i].feature < 0)
      round_leaf(&f->node[i].value, most);
  for (size_t i = 0; f->split && i < (size_t)f->trees << f->levels && most > 0; i++)
    round_leaf(&f->leaf[i], most);
}

/* The forest as a coefficient file states it. */
static void through_text(const ett_forest *forest, ett_model *read) {
  static const double coefficients[ETT_DESIGN_COLUMNS];
  ett_model model = {.design = {ETT_FAMILY_RAW, false, 108, COLUMNS}, .forests = 1};
  char *text;
  size_t length;
  ett_err err;
  model.columns = ett_design_columns(&model.design);
  model.features = ett_design_features(&model.design);
  model.x = coefficients;
  model.forest[0] = *forest;
  assert_int_equal(ett_model_to_text(&model, &text, &length, &err), 0);
  if (ett_model_from_text(text, length, read, &err) != 0)
    fail_msg("%s", err.message);
  free(text);
}

/* Rows at the thresholds: the forest, and its text with rounded leaves, lead each row to
 * the library's leaves. */
static void texts_lead_to_the_leaves_of_the_library(void **state) {
  (void)state;
  static const char *const parameters[][12] = {
      {"max_depth", "16", "min_child_weight", "0", "lambda", "0", "tree_method", "exact",
       NULL},
      {"max_depth", "0", "max_leaves", "48", "grow_policy", "lossguide", "tree_method",
       "hist", "max_bin", "256", NULL},
      {"max_depth", "4", "num_parallel_tree", "3", "subsample", "0.7", NULL},
      {"gamma", "1e30", NULL}, /* trees of one node */
      {"max_depth", "1", NULL},
  };
  uint32_t seed = 7;
  for (size_t p = 0; p < sizeof parameters / sizeof *parameters; p++) {
    DMatrixHandle matrix, tested;
    BoosterHandle booster = train(&matrix, parameters[p]);
    static float rows[2000 * COLUMNS];
    const float *theirs;
    bst_ulong count, length;
    ett_forest forest;
    ett_model read;
    ett_err err;
    const char *saved = save(booster, &length);
    assert_int_equal(ett_forest_from_ubj(saved, length, COLUMNS, -8.5, &forest, &err), 0);
    for (int i = 0; i < 2000 * COLUMNS; i++)
      rows[i] = near_threshold(&forest, i % COLUMNS, &seed);
    assert_int_equal(XGDMatrixCreateFromMat(rows, 2000, COLUMNS, NAN, &tested), 0);
    assert_int_equal(XGBoosterPredict(booster, tested, 0, 0, 0, &count, &theirs), 0);
    for (int i = 0; i < 2000; i++) {
      const float ours = ett_forest_predict(&forest, rows + i * COLUMNS);
      assert_memory_equal(&ours, &theirs[i], sizeof ours);
    }
    round_leaves(&forest);
    through_text(&forest, &read);
    for (int i = 0; i < 2000; i++) {
      const float ours = ett_forest_predict(&forest, rows + i * COLUMNS);
      const float served = ett_forest_predict(&read.forest[0], rows + i * COLUMNS);
      assert_memory_equal(&ours, &served, sizeof ours);
    }
    ett_model_close(&read);
    ett_forest_free(&forest);
    XGBoosterFree(booster);
    XGDMatrixFree(matrix);
    XGDMatrixFree(tested);
  }
}

/* Each edit puts a number at the root of an array of the first tree. */
static void other_models_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *array;
    uint32_t value;
  } edits[] = {
      {"left_children[$l#L", 0}, /* a cycle */
      {"left_children[$l#L", 1 << 20},  {"left_children[$l#L", UINT32_MAX - 1},
      {"right_children[$l#L", 1 << 20}, {"right_children[$l#L", UINT32_MAX},
      {"split_indices[$l#L", COLUMNS},  {"split_indices[$l#L", UINT32_MAX},
  };
  static const char *const parameters[] = {"max_depth", "3", NULL};
  DMatrixHandle matrix;
  BoosterHandle booster = train(&matrix, parameters);
  bst_ulong length;
  ett_forest forest;
  ett_err err;
  const char *model = save(booster, &length);
  char *copy = malloc(length);
  for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
    const size_t name = strlen(edits[i].array);
    memcpy(copy, model, length);
    char *at = memmem(copy, length, edits[i].array, name);
    assert_non_null(at);
    for (int k = 0; k < 4; k++)
      at[name + 8 + (size_t)k] = (char)(edits[i].value >> (24 - 8 * k));
    assert_int_equal(ett_forest_from_ubj(copy, length, COLUMNS, 0, &forest, &err), -1);
    assert_int_equal(err.code, ETT_ERR_FORMAT);
    assert_null(forest.memory);
  }
  free(copy);
  for (size_t cut = 0; cut < length; cut += 97) { /* fewer trees, or none */
    const int status = ett_forest_from_ubj(model, cut, COLUMNS, 0, &forest, &err);
    assert_true(cut < 500 ? status == -1 && err.code == ETT_ERR_FORMAT
                          : status == 0 || forest.memory == NULL);
    ett_forest_free(&forest);
  }
  XGBoosterFree(booster);
  XGDMatrixFree(matrix);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trees_predict_as_the_library),
      cmocka_unit_test(texts_lead_to_the_leaves_of_the_library),
      cmocka_unit_test(other_models_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
