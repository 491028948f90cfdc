#include "ledger/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

enum { BOXES_A_CALL = 4096 }; /* boxes between two calls of progress */

typedef struct box {
  double bound;
  size_t serial;                                    /* ties: older box first */
  double low[ETT_SEARCH_MAX], high[ETT_SEARCH_MAX]; /* indices of a list, or values */
} box;

typedef struct search {
  const ett_tape *tape;
  double *inputs;
  const ett_variable *variables;
  size_t count;
  const ett_search_options *options;
  ett_search_result *result;
  double *outputs, *scratch;
  ett_interval *ranges, *output_ranges, *range_scratch;
  box *heap;
  size_t size, serial;
  uint32_t capacity;
} search;

static double value_of(const ett_variable *v, double at) {
  return v->domain == ETT_DOMAIN_LIST ? v->values[(size_t)at] : at;
}

static bool single(const search *s, const box *b, size_t i) {
  if (s->variables[i].domain == ETT_DOMAIN_REAL)
    return b->high[i] <= b->low[i] * (1 + s->options->tolerance);
  return b->high[i] <= b->low[i];
}

/* Narrows a variable to values >= low and <= high; false when none is left. */
static bool narrow(const ett_variable *v, double *at_low, double *at_high, double low,
                   double high) {
  if (v->domain == ETT_DOMAIN_LIST) {
    while (*at_low <= *at_high && value_of(v, *at_low) < low)
      ++*at_low;
    while (*at_high >= *at_low && value_of(v, *at_high) > high)
      --*at_high;
  } else {
    bool whole = v->domain == ETT_DOMAIN_INTEGER;
    if (low > *at_low)
      *at_low = whole ? ceil(low) : low;
    if (high < *at_high)
      *at_high = whole ? floor(high) : high;
  }
  return *at_low <= *at_high;
}

/* A factor is at most limit / (minimum of the others). For equality it is at least limit
 * / (maximum of the others). */
static bool contract(const search *s, box *b) {
  double limit = s->options->product_limit;
  if (limit <= 0)
    return true;
  double least = 1, most = 1, slack = 1e-12 * limit;
  for (size_t i = 0; i < s->count; i++)
    if (s->variables[i].factor) {
      least *= value_of(&s->variables[i], b->low[i]);
      most *= value_of(&s->variables[i], b->high[i]);
    }
  if (least > limit + slack || (s->options->product_equal && most < limit - slack))
    return false;
  for (size_t i = 0; i < s->count; i++) {
    const ett_variable *v = &s->variables[i];
    if (!v->factor)
      continue;
    double low = value_of(v, b->low[i]), high = value_of(v, b->high[i]);
    double cap = limit / (least / low) * (1 + 1e-12);
    double floor_at = s->options->product_equal ? limit / (most / high) * (1 - 1e-12) : 0;
    if (!narrow(v, &b->low[i], &b->high[i], floor_at, cap))
      return false;
    least = least / low * value_of(v, b->low[i]);
    most = most / high * value_of(v, b->high[i]);
  }
  return true;
}

/* Lower bound of the objective in the box; false when no point of it is feasible. */
static bool bound_box(const search *s, box *b) {
  for (size_t i = 0; i < s->count; i++)
    s->ranges[s->variables[i].input] = (ett_interval){
        value_of(&s->variables[i], b->low[i]), value_of(&s->variables[i], b->high[i])};
  ett_tape_bound(s->tape, s->ranges, s->output_ranges, s->range_scratch);
  for (size_t j = 1; j < ett_tape_outputs(s->tape); j++)
    if (s->output_ranges[j].low == 0 && s->output_ranges[j].high == 0)
      return false;
  b->bound = s->output_ranges[0].low;
  return true;
}

/* Only points below this value are accepted. */
static double to_beat(const search *s) {
  if (s->result->found)
    return s->result->best;
  return s->options->cut ? s->options->cutoff : INFINITY;
}

static void try_point(search *s, const double *at) {
  double product = 1;
  for (size_t i = 0; i < s->count; i++) {
    double value = value_of(&s->variables[i], at[i]);
    s->inputs[s->variables[i].input] = value;
    if (s->variables[i].factor)
      product *= value;
  }
  double limit = s->options->product_limit;
  if (limit > 0 && (product > limit * (1 + 1e-12) ||
                    (s->options->product_equal && product < limit * (1 - 1e-12))))
    return;
  s->result->evaluations++;
  ett_tape_evaluate(s->tape, s->inputs, s->outputs, s->scratch);
  for (size_t j = 1; j < ett_tape_outputs(s->tape); j++)
    if (s->outputs[j] == 0)
      return;
  double value = s->outputs[0];
  if (!(value < to_beat(s)))
    return;
  s->result->found = true;
  s->result->best = value;
  for (size_t i = 0; i < s->count; i++)
    s->result->point[i] = value_of(&s->variables[i], at[i]);
}

static double middle(const ett_variable *v, double low, double high) {
  if (v->domain == ETT_DOMAIN_LIST)
    return floor((low + high) / 2);
  double m = sqrt(low * high);
  if (v->domain == ETT_DOMAIN_INTEGER)
    m = floor(m);
  return m < low ? low : m > high ? high : m;
}

/* Tries the middle of the box. Then raises each factor in turn up to the product's limit,
 * because optima lie near the limit. */
static void try_points(search *s, const box *b) {
  double at[ETT_SEARCH_MAX], product = 1;
  for (size_t i = 0; i < s->count; i++) {
    at[i] = middle(&s->variables[i], b->low[i], b->high[i]);
    if (s->variables[i].factor)
      product *= value_of(&s->variables[i], at[i]);
  }
  try_point(s, at);
  if (s->options->product_limit <= 0)
    return;
  for (size_t i = 0; i < s->count; i++) {
    const ett_variable *v = &s->variables[i];
    if (!v->factor)
      continue;
    double kept = at[i], low = b->low[i], high = b->high[i];
    double others = product / value_of(v, kept);
    if (narrow(v, &low, &high, 0, s->options->product_limit / others * (1 + 1e-12)) &&
        high != kept) {
      at[i] = high;
      try_point(s, at);
    }
    at[i] = kept;
  }
}

static bool before(const box *a, const box *b) {
  return a->bound < b->bound || (a->bound == b->bound && a->serial < b->serial);
}

static int push(search *s, const box *b, ett_err *err) {
  if (ett_grow(&s->heap, (uint32_t)s->size, &s->capacity, 256, sizeof *s->heap) != 0)
    return ett_err_set(err, ETT_ERR_MEMORY,
                       "not enough memory for more than %zu boxes of a search", s->size);
  size_t at = s->size++;
  for (; at > 0 && before(b, &s->heap[(at - 1) / 2]); at = (at - 1) / 2)
    s->heap[at] = s->heap[(at - 1) / 2];
  s->heap[at] = *b;
  return 0;
}

static box pop(search *s) {
  box top = s->heap[0], last = s->heap[--s->size];
  size_t at = 0;
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= s->size)
      break;
    if (child + 1 < s->size && before(&s->heap[child + 1], &s->heap[child]))
      child++;
    if (!before(&s->heap[child], &last))
      break;
    s->heap[at] = s->heap[child];
    at = child;
  }
  if (s->size > 0)
    s->heap[at] = last;
  return top;
}

/* A box is split only if its bound is below this value. */
static double threshold(const search *s) {
  double best = to_beat(s);
  return isinf(best) ? best : best - s->options->gap * fabs(best);
}

/* Bounds a new box and keeps it if it may hold a better point. */
static int consider(search *s, box *b, ett_err *err) {
  if (!contract(s, b) || !bound_box(s, b))
    return 0;
  s->result->boxes++;
  if (b->bound >= threshold(s))
    return 0;
  try_points(s, b);
  for (size_t i = 0; i < s->count; i++)
    if (!single(s, b, i)) {
      b->serial = s->serial++;
      return b->bound < threshold(s) ? push(s, b, err) : 0;
    }
  return 0; /* a single point: tried */
}

static double width(const search *s, const box *b, size_t i) {
  const ett_variable *v = &s->variables[i];
  return single(s, b, i) ? -1 : value_of(v, b->high[i]) / value_of(v, b->low[i]);
}

static int split(search *s, const box *b, ett_err *err) {
  size_t widest = 0;
  for (size_t i = 1; i < s->count; i++)
    if (width(s, b, i) > width(s, b, widest))
      widest = i;
  const ett_variable *v = &s->variables[widest];
  double m = middle(v, b->low[widest], b->high[widest]);
  box left = *b, right = *b;
  left.high[widest] = m;
  right.low[widest] = v->domain == ETT_DOMAIN_REAL ? m : m + 1;
  return consider(s, &left, err) != 0 || consider(s, &right, err) != 0 ? -1 : 0;
}

static int check_variables(const search *s, ett_err *err) {
  if (s->count == 0 || s->count > ETT_SEARCH_MAX)
    return ett_err_set(err, ETT_ERR_LIMIT, "a search takes 1 to %d variables, got %zu",
                       ETT_SEARCH_MAX, s->count);
  for (size_t i = 0; i < s->count; i++) {
    const ett_variable *v = &s->variables[i];
    if (v->input >= ett_tape_inputs(s->tape))
      return ett_err_set(err, ETT_ERR_INTERNAL, "variable %zu is not an input", i + 1);
    double low = v->low, high = v->high;
    if (v->domain == ETT_DOMAIN_LIST) {
      if (v->count == 0)
        return ett_err_set(err, ETT_ERR_ARGUMENT, "variable %zu has no values", i + 1);
      for (size_t k = 1; k < v->count; k++)
        if (!(v->values[k] > v->values[k - 1]))
          return ett_err_set(err, ETT_ERR_ARGUMENT,
                             "the values of variable %zu must ascend", i + 1);
      low = v->values[0];
      high = v->values[v->count - 1];
    }
    if (!(low > 0) || !(high >= low) || !isfinite(high))
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "variable %zu must range over positive numbers, got %g to %g",
                         i + 1, low, high);
  }
  return 0;
}

/* Reports the progress; the caller may end the search. */
static int report(search *s, ett_err *err) {
  ett_search_result so_far = *s->result;
  so_far.bound = s->heap[0].bound;
  if (s->options->progress(s->options->context, &so_far) == 0)
    return 0;
  return ett_err_set(err, ETT_ERR_ARGUMENT, "the search was ended");
}

static int explore(search *s, ett_err *err) {
  box whole = {0};
  size_t told = 0;
  for (size_t i = 0; i < s->count; i++) {
    const ett_variable *v = &s->variables[i];
    whole.low[i] = v->domain == ETT_DOMAIN_LIST ? 0 : v->low;
    whole.high[i] = v->domain == ETT_DOMAIN_LIST ? (double)(v->count - 1) : v->high;
    if (v->domain == ETT_DOMAIN_INTEGER) {
      whole.low[i] = ceil(v->low);
      whole.high[i] = floor(v->high);
      if (whole.low[i] > whole.high[i])
        return 0;
    }
  }
  if (consider(s, &whole, err) != 0)
    return -1;
  while (s->size > 0 && s->heap[0].bound < threshold(s)) {
    if (s->result->boxes >= s->options->boxes)
      return 0;
    if (s->options->progress && s->result->boxes - told >= BOXES_A_CALL) {
      told = s->result->boxes;
      if (report(s, err) != 0)
        return -1;
    }
    box b = pop(s);
    if (split(s, &b, err) != 0)
      return -1;
  }
  return 0;
}

int ett_search_run(const ett_tape *tape, double *inputs, const ett_variable *variables,
                   size_t count, const ett_search_options *options,
                   ett_search_result *result, ett_err *err) {
  *result = (ett_search_result){.best = INFINITY, .bound = -INFINITY};
  size_t registers = ett_tape_registers(tape), in = ett_tape_inputs(tape),
         out = ett_tape_outputs(tape);
  search s = {.tape = tape,
              .inputs = inputs,
              .variables = variables,
              .count = count,
              .options = options,
              .result = result};
  if (out == 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "a search needs an objective");
  if (check_variables(&s, err) != 0)
    return -1;
  int status = -1;
  s.outputs = malloc((out + registers) * sizeof(double));
  s.ranges = malloc((in + out + registers) * sizeof(ett_interval));
  if (!s.outputs || !s.ranges) {
    ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a search");
  } else {
    s.scratch = s.outputs + out;
    s.output_ranges = s.ranges + in;
    s.range_scratch = s.output_ranges + out;
    for (size_t i = 0; i < in; i++)
      s.ranges[i] = (ett_interval){inputs[i], inputs[i]};
    status = explore(&s, err);
    double open = s.size > 0 ? s.heap[0].bound : INFINITY;
    result->proven = open >= threshold(&s);
    result->bound = open > threshold(&s) ? threshold(&s) : open;
    if (result->proven && result->found && options->gap == 0)
      result->bound = result->best;
  }
  free(s.outputs);
  free(s.ranges);
  free(s.heap);
  return status;
}
