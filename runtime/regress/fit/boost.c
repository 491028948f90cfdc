#include "regress/fit/boost.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xgboost/c_api.h>

/* Keeps the first sentence of the library's message, without its time stamp and stack
 * trace. */
static int library_fault(ett_err *err) {
  const char *text = XGBGetLastError();
  char line[400];
  if (text[0] == '[') {
    const char *end = strstr(text, "] ");
    if (end)
      text = end + 2;
    const char *colon = strstr(text, ": ");
    if (colon && strncmp(text, "/", 1) == 0)
      text = colon + 2;
  }
  size_t n = strcspn(text, "\n");
  if (n >= sizeof line)
    n = sizeof line - 1;
  memcpy(line, text, n);
  line[n] = 0;
  return ett_err_set(err, ETT_ERR_ARGUMENT, "xgboost: %s", line);
}

static void silent(const char *message) {
  (void)message;
}

void ett_boost_version(char out[32]) {
  int major, minor, patch;
  XGBoostVersion(&major, &minor, &patch);
  snprintf(out, 32, "%d.%d.%d", major, minor, patch);
}

/* Gradient and majorising Hessian of the smoothed relative error in the logarithm:
 * r = prediction - log time. The slope of |exp(r) - 1| is exp(r). So a prediction that is
 * too high costs more than one that is too low, as in the reported error. */
static void relative_gradient(const float *margin, const float *target, size_t rows,
                              double delta, float *gradient, float *hessian) {
  for (size_t i = 0; i < rows; i++) {
    double r = (double)margin[i] - (double)target[i];
    double s = sqrt(1 + r * r / (delta * delta));
    double w = exp(fmax(fmin(r, 1.5), -1.5));
    gradient[i] = (float)(w * r / s);
    hessian[i] = (float)(w / s);
  }
}

static int rounds(BoosterHandle booster, DMatrixHandle matrix, const float *target,
                  size_t rows, const ett_boost_config *config, float *gradient,
                  ett_err *err) {
  for (int i = 0; i < config->rounds; i++) {
    if (!config->relative) {
      if (XGBoosterUpdateOneIter(booster, i, matrix) != 0)
        return library_fault(err);
      continue;
    }
    bst_ulong count;
    const float *margin;
    if (XGBoosterPredict(booster, matrix, 1, 0, 1, &count, &margin) != 0)
      return library_fault(err);
    if (count != rows)
      return ett_err_set(err, ETT_ERR_INTERNAL,
                         "internal error: XGBoost returned %zu of %zu predictions",
                         (size_t)count, rows);
    relative_gradient(margin, target, rows, config->delta, gradient, gradient + rows);
    if (XGBoosterBoostOneIter(booster, matrix, gradient, gradient + rows, rows) != 0)
      return library_fault(err);
  }
  return 0;
}

static int set_parameters(BoosterHandle booster, double base_score,
                          const ett_boost_config *config, ett_err *err) {
  char base[40];
  snprintf(base, sizeof base, "%.9g", (double)(float)base_score);
  if (XGBoosterSetParam(booster, "nthread", "1") != 0 ||
      XGBoosterSetParam(booster, "verbosity", "0") != 0 ||
      XGBoosterSetParam(booster, "base_score", base) != 0)
    return library_fault(err);
  for (int i = 0; i < config->parameters; i++)
    if (XGBoosterSetParam(booster, config->parameter[i].name,
                          config->parameter[i].value) != 0)
      return library_fault(err);
  return 0;
}

static int export_forest(BoosterHandle booster, int columns, double base_score,
                         ett_forest *forest, ett_err *err) {
  bst_ulong length;
  const char *model;
  if (XGBoosterSaveModelToBuffer(booster, "{\"format\": \"ubj\"}", &length, &model) != 0)
    return library_fault(err);
  return ett_forest_from_ubj(model, length, (uint32_t)columns, base_score, forest, err);
}

int ett_boost_train(const float *features, const float *target, size_t count, int columns,
                    double base_score, const ett_boost_config *config, ett_forest *forest,
                    ett_err *err) {
  DMatrixHandle matrix = NULL;
  BoosterHandle booster = NULL;
  int status = -1;
  memset(forest, 0, sizeof *forest);
  if (count == 0 || columns < 1 || config->rounds < 1)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "training takes rows, columns and rounds");
  float *gradient = malloc(2 * count * sizeof *gradient);
  if (!gradient)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for %zu rows", count);
  XGBRegisterLogCallback(silent);
  if (XGDMatrixCreateFromMat(features, count, (bst_ulong)columns, NAN, &matrix) != 0 ||
      XGDMatrixSetFloatInfo(matrix, "label", target, count) != 0 ||
      XGBoosterCreate(&matrix, 1, &booster) != 0)
    library_fault(err);
  else if (set_parameters(booster, base_score, config, err) == 0 &&
           rounds(booster, matrix, target, count, config, gradient, err) == 0)
    status = export_forest(booster, columns, base_score, forest, err);
  if (status != 0)
    ett_forest_free(forest);
  if (booster)
    XGBoosterFree(booster);
  if (matrix)
    XGDMatrixFree(matrix);
  free(gradient);
  return status;
}

char *ett_boost_configuration(const ett_boost_config *config, size_t *length,
                              ett_err *err) {
  DMatrixHandle matrix = NULL;
  BoosterHandle booster = NULL;
  const float one = 1;
  const char *text;
  char *copy = NULL;
  bst_ulong n;
  XGBRegisterLogCallback(silent);
  if (XGDMatrixCreateFromMat(&one, 1, 1, NAN, &matrix) != 0 ||
      XGBoosterCreate(&matrix, 1, &booster) != 0)
    library_fault(err);
  else if (set_parameters(booster, 0.5, config, err) == 0) {
    if (XGBoosterSaveJsonConfig(booster, &n, &text) != 0)
      library_fault(err);
    else if (!(copy = malloc(n + 1)))
      ett_err_set(err, ETT_ERR_MEMORY, "no memory for %zu bytes", (size_t)n + 1);
    else {
      memcpy(copy, text, n);
      copy[n] = 0;
      *length = n;
    }
  }
  if (booster)
    XGBoosterFree(booster);
  if (matrix)
    XGDMatrixFree(matrix);
  return copy;
}
