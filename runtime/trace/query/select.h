/* select.h - selecting, sorting and summing rows of a trace. */
#ifndef ETT_TRACE_SELECT_H
#define ETT_TRACE_SELECT_H

#include "trace/query/interval.h"
#include "trace/table/part.h"
#include "trace/table/trace.h"

/* Row numbers. Matched selections have ETT_TRACE_NONE for missing matches. */
typedef struct ett_selection {
  uint32_t *rows;
  size_t count;
} ett_selection;

void ett_selection_free(ett_selection *s);

typedef struct ett_arg_test {
  uint32_t arg;
  bool any; /* only require that the row has the arg */
  ett_trace_arg value;
} ett_arg_test;

/* A row passes if it satisfies all fields that are set. The arrays have one byte per
 * number. */
typedef struct ett_filter {
  const uint8_t *category, *track, *name, *not_name, *ph;
  const int64_t *devices, *streams;
  size_t device_count, stream_count; /* used when the list is not NULL */
  bool has_window, has_starts_in, keep_invalid, has_min_dur;
  int64_t window_from, window_to, starts_from, starts_to, min_dur;
  const ett_arg_test *args;
  size_t arg_count;
} ett_filter;

/* Rows of the trace, or of a selection (from is not NULL), that pass. 0 or -1. A filter
 * on categories visits only rows of their classes. */
int ett_select(ett_selection *out, ett_trace *t, const ett_selection *from,
               const ett_filter *f);

/* Union, intersection, difference; sorted by row, without holes. */
typedef enum ett_rows_op { ETT_ROWS_OR, ETT_ROWS_AND, ETT_ROWS_WITHOUT } ett_rows_op;
int ett_selection_combine(ett_selection *out, const ett_selection *a,
                          const ett_selection *b, ett_rows_op op);

typedef enum ett_sort_key { ETT_SORT_TS, ETT_SORT_END, ETT_SORT_DUR } ett_sort_key;
/* Sorts in place, ties by row; holes last. 0 or -1. */
int ett_selection_sort(ett_selection *s, const ett_trace *t, ett_sort_key key);

/* A sum of ticks, or the nearest number that 64 bits hold. */
static inline int64_t ett_ticks_within(__int128_t sum) {
  return sum > INT64_MAX ? INT64_MAX : sum < INT64_MIN ? INT64_MIN : (int64_t)sum;
}

/* Sum of durations, as ett_ticks_within; first start and last end (0 without rows). */
int64_t ett_selection_total(const ett_selection *s, const ett_trace *t);
int ett_selection_span(const ett_selection *s, const ett_trace *t, int64_t *from,
                       int64_t *to);

/* The rows' intervals, merged. */
int ett_selection_intervals(ett_intervals *out, const ett_selection *s,
                            const ett_trace *t);

/* Numeric value of an arg: an integer, a float, or a text that is a number. Returns 1 if
 * it is numeric. */
int ett_arg_number(const ett_trace *t, const ett_trace_arg *arg, double *value);

#define ETT_ROW(t, column, row) ((t)->blocks[(row) >> 16].column[(row)&0xFFFF])

#endif
