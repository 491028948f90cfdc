/* Training of trees through the XGBoost C API. The only user of the library. */
#ifndef ETT_REGRESS_BOOST_H
#define ETT_REGRESS_BOOST_H

#include <stdbool.h>
#include <stddef.h>

#include "regress/serve/forest.h"

#define ETT_BOOST_PARAMETERS 40

typedef struct {
  const char *name, *value;
} ett_boost_parameter;

typedef struct {
  int rounds;
  /* Replaces the library's objective by the relative error of exp(prediction), smoothed
   * like a pseudo-Huber loss at delta. For targets that are logarithms of a time. */
  bool relative;
  double delta;
  int parameters; /* passed to the library unchanged; nthread is always 1 */
  ett_boost_parameter parameter[ETT_BOOST_PARAMETERS];
} ett_boost_config;

/* Trains on rows by columns features (row-major, NaN is missing) and targets. base_score
 * is passed to the library. Equal inputs give equal trees. Returns 0 or -1. */
int ett_boost_train(const float *features, const float *target, size_t rows, int columns,
                    double base_score, const ett_boost_config *config, ett_forest *forest,
                    ett_err *err);

/* Reads a model of XGBoosterSaveModelToBuffer (format "ubj"). Each tree is stored in
 * breadth-first order, so that siblings are adjacent. Returns 0 or -1 with *forest empty.
 */
int ett_forest_from_ubj(const char *model, size_t length, uint32_t features,
                        double base_score, ett_forest *forest, ett_err *err);

/* The library's configuration with the parameters (JSON, XGBoosterSaveJsonConfig), to be
 * freed by the caller. It names every parameter that the library reads. NULL on errors.
 */
char *ett_boost_configuration(const ett_boost_config *config, size_t *length,
                              ett_err *err);

/* "1.7.4" */
void ett_boost_version(char out[32]);

#endif
