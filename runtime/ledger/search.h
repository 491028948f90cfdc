/* search.h - global minimum of a tape's output over a box, by branch and bound.
 *
 * Variables are lists of values, integer ranges or real ranges (all positive). Interval
 * arithmetic gives each box of variables a proven lower bound. The search drops a box
 * whose bound is not below the best value less the gap. It splits the remaining boxes at
 * the middle of their widest variable (geometric mean of a range), lowest bound first.
 * With gap 0 and no real variable the result is the exact optimum of the tape's values;
 * otherwise the optimum is at least `bound`. The search is deterministic; ties go to the
 * point found first. Searches on different threads are independent. */
#ifndef ETT_LEDGER_SEARCH_H
#define ETT_LEDGER_SEARCH_H

#include <stdbool.h>

#include "ledger/tape.h"

enum { ETT_SEARCH_MAX = 12 }; /* variables */

typedef enum ett_domain {
  ETT_DOMAIN_LIST,    /* values[0..count), ascending */
  ETT_DOMAIN_INTEGER, /* low .. high */
  ETT_DOMAIN_REAL,    /* [low, high] */
} ett_domain;

typedef struct ett_variable {
  ett_domain domain;
  size_t input; /* of the tape */
  double low, high;
  const double *values;
  size_t count;
  bool factor; /* counts for the product limit */
} ett_variable;

typedef struct ett_search_result {
  bool found;  /* a feasible point below the cutoff */
  bool proven; /* best - bound <= gap |best|, or no such point exists */
  double best, bound;
  double point[ETT_SEARCH_MAX];
  size_t boxes, evaluations;
} ett_search_result;

typedef struct ett_search_options {
  double gap; /* relative; stop when the best is proven within it */
  bool cut;   /* search only for values below the cutoff */
  double cutoff;
  size_t boxes;         /* maximum number of boxes examined */
  double product_limit; /* product of the factors <= this; 0: no limit */
  bool product_equal;   /* product == product_limit */
  double tolerance;     /* relative width at which a real range counts as a point */
  /* Called regularly with the result so far; a nonzero return value ends the search with
   * an error. May be NULL. */
  int (*progress)(void *context, const ett_search_result *so_far);
  void *context;
} ett_search_options;

/* Minimises output 0 of the tape; every other output is a check and must be nonzero.
 * inputs are the tape's inputs; those of the variables are overwritten. 0, or -1 and
 * *err. */
int ett_search_run(const ett_tape *tape, double *inputs, const ett_variable *variables,
                   size_t count, const ett_search_options *options,
                   ett_search_result *result, ett_err *err);

#endif
