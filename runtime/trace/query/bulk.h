/* bulk.h - sums over rows for metrics.
 *
 * Rows and calls are arrays of n row numbers; calls[i] is the launch of rows[i], or
 * ETT_TRACE_NONE. Times are in ticks. */
#ifndef ETT_TRACE_BULK_H
#define ETT_TRACE_BULK_H

#include "trace/query/interval.h"
#include "trace/table/trace.h"

/* Percentiles are the value at position floor(p n), counted from 0, of the sorted delays.
 */
typedef struct ett_launch_stats {
  size_t rows;       /* number of rows with a launch; all fields below refer to these */
  size_t launched;   /* number of their launches; the launch of a CUDA graph has many rows
                        and lasts from the first start to the last end */
  size_t short_rows; /* launches shorter than their call */
  double delay_sum, call_sum;
  int64_t delay_p50, delay_p95, delay_max; /* start on the device - start of the call */
  int64_t queue_most; /* maximum number of launches whose rows have not ended; launches
                         that end before their call starts (skewed clocks) do not count */
  double queue_mean;  /* time average of that number; NAN if no time passed */
  double queue_ticks; /* that time: from the first launch to the last end */
} ett_launch_stats;

/* 0, or -1 when memory ran out. */
int ett_launch_stats_of(ett_launch_stats *out, const ett_trace *t, const uint32_t *rows,
                        const uint32_t *calls, size_t n);

/* Idle ticks by cause. A gap is attributed to the first row that starts at its end or
 * later; of rows that start together, to the one that was launched first. host: the row
 * was launched at or after the gap's start; device: before it; unknown: its launch was
 * not recorded. */
typedef struct ett_idle_causes {
  int64_t host, device, unknown;
} ett_idle_causes;

/* rows must be sorted by start. */
void ett_idle_causes_of(ett_idle_causes *out, const ett_trace *t, const uint32_t *rows,
                        const uint32_t *calls, size_t n, const ett_intervals *gaps);

/* Sum over the rows that have the arg of min(cap, value) x duration, and of duration. */
void ett_arg_weighted(const ett_trace *t, const uint32_t *rows, size_t n, uint32_t arg,
                      double cap, double *weighted, double *ticks);

/* The sum of the arg over the rows that run at a time, at most cap, summed over the ticks
 * from `from` to `to`. 0, or -1 when memory ran out. */
int ett_arg_covered(const ett_trace *t, const uint32_t *rows, size_t n, uint32_t arg,
                    double cap, int64_t from, int64_t to, double *covered);

/* Sorts numbers without NaN; spare has count entries. */
void ett_sort_numbers(double *numbers, double *spare, size_t count);

#endif
