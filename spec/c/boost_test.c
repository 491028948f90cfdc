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
      cmocka_unit_test(other_models_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
