/* Trees read from XGBoost's text give the library's predictions to the last bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <xgboost/c_api.h>

#include "regress/fit/boost.h"

#include <cmocka.h>

enum { ROWS = 400, COLUMNS = 4 };

/* Rows with values of many sizes; every ninth is missing. */
static void make_rows(float x[ROWS * COLUMNS], float y[ROWS]) {
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

static void trees_predict_as_the_library(void **state) {
  (void)state;
  static const char *const parameters[][10] = {
      {"max_depth", "6", "eta", "0.1", NULL},
      {"max_depth", "5", "gamma", "0.5", NULL}, /* removes nodes */
      {"max_depth", "12", "num_parallel_tree", "5", "subsample", "0.6", "eta", "1", NULL},
  };
  static float x[ROWS * COLUMNS], y[ROWS];
  make_rows(x, y);
  for (size_t p = 0; p < sizeof parameters / sizeof *parameters; p++) {
    DMatrixHandle matrix;
    BoosterHandle booster;
    const float *theirs;
    const char **texts;
    bst_ulong count;
    ett_forest forest;
    ett_err err;
    assert_int_equal(XGDMatrixCreateFromMat(x, ROWS, COLUMNS, NAN, &matrix), 0);
    assert_int_equal(XGDMatrixSetFloatInfo(matrix, "label", y, ROWS), 0);
    assert_int_equal(XGBoosterCreate(&matrix, 1, &booster), 0);
    XGBoosterSetParam(booster, "nthread", "1");
    XGBoosterSetParam(booster, "base_score", "-8.5");
    for (const char *const *at = parameters[p]; *at; at += 2)
      XGBoosterSetParam(booster, at[0], at[1]);
    for (int i = 0; i < 20; i++)
      assert_int_equal(XGBoosterUpdateOneIter(booster, i, matrix), 0);
    assert_int_equal(XGBoosterDumpModelEx(booster, "", 0, "text", &count, &texts), 0);
    assert_int_equal(ett_forest_from_dump(texts, count, COLUMNS, -8.5, &forest, &err), 0);
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

static void other_texts_are_refused(void **state) {
  (void)state;
  static const char *const texts[] = {
      "",
      "0:leaf=x\n",
      "0:[f0<1] yes=1,no=2\n",
      "0:[f0<1] yes=1,no=2,missing=1\n\t1:leaf=1\n", /* 2 is not there */
      "0:[f0<1] yes=0,no=0,missing=0\n1:leaf=1\n",   /* a cycle */
      "0:[f0<1] yes=-1,no=2,missing=1\n2:leaf=1\n",
      "0:[f9<1] yes=1,no=2,missing=1\n1:leaf=1\n2:leaf=1\n", /* of 4 features */
      "5:leaf=1\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    ett_forest forest;
    ett_err err = {ETT_OK, ""};
    assert_int_equal(ett_forest_from_dump(&texts[i], 1, COLUMNS, 0, &forest, &err), -1);
    assert_int_equal(err.code, ETT_ERR_FORMAT);
    assert_null(forest.memory);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(trees_predict_as_the_library),
      cmocka_unit_test(other_texts_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
