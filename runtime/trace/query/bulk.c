#include "trace/query/bulk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/query/select.h"

#define DIGIT_BITS 11
#define DIGITS (1u << DIGIT_BITS)

/* Radix sort, least significant digit first; constant digits are skipped. spare has n
 * entries. */
static void sort_ticks(int64_t *values, int64_t *spare, size_t n) {
  const uint64_t flip = (uint64_t)1 << 63; /* sorts negative values first */
  int64_t *from = values, *to = spare;
  for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
    size_t counts[DIGITS] = {0}, at = 0;
    for (size_t i = 0; i < n; i++)
      counts[((uint64_t)from[i] ^ flip) >> shift & (DIGITS - 1)]++;
    if (counts[((uint64_t)from[0] ^ flip) >> shift & (DIGITS - 1)] == n)
      continue;
    for (size_t d = 0; d < DIGITS; d++) {
      const size_t count = counts[d];
      counts[d] = at;
      at += count;
    }
    for (size_t i = 0; i < n; i++)
      to[counts[((uint64_t)from[i] ^ flip) >> shift & (DIGITS - 1)]++] = from[i];
    int64_t *swap = from;
    from = to;
    to = swap;
  }
  if (from != values)
    memcpy(values, from, n * sizeof *values);
}

/* A launch increases the queue length, an end decreases it; at equal ticks ends come
 * first. */
static void walk_queue(ett_launch_stats *out, const int64_t *launches,
                       const int64_t *ends, size_t n) {
  size_t i = 0, k = 0;
  int64_t depth = 0, most = 0, last = launches[0];
  double weighted = 0;
  while (k < n) {
    const int is_end = i == n || ends[k] <= launches[i];
    const int64_t at = is_end ? ends[k++] : launches[i++];
    weighted += (double)depth * (double)(at - last);
    last = at;
    depth += is_end ? -1 : 1;
    if (depth > most)
      most = depth;
  }
  const int64_t from = launches[0] < ends[0] ? launches[0] : ends[0];
  out->queue_most = most;
  out->queue_ticks = (double)(last - from);
  out->queue_mean = last > from ? weighted / out->queue_ticks : NAN;
}

/* The interval of one launch call: of the rows of keys[*k] and of the following keys with
 * the same call. A CUDA graph has one call for many rows. Moves *k to the next call. */
static void span_of_launch(const ett_trace *t, const uint32_t *rows, const int64_t *keys,
                           size_t count, size_t *k, int64_t *from, int64_t *to) {
  const int64_t call = keys[*k] >> 32;
  for (*from = INT64_MAX, *to = INT64_MIN; *k < count && keys[*k] >> 32 == call; (*k)++) {
    const uint32_t row = rows[(uint32_t)keys[*k]];
    const int64_t ts = ETT_ROW(t, ts, row), end = ts + ETT_ROW(t, dur, row);
    *from = ts < *from ? ts : *from;
    *to = end > *to ? end : *to;
  }
}

int ett_launch_stats_of(ett_launch_stats *out, const ett_trace *t, const uint32_t *rows,
                        const uint32_t *calls, size_t n) {
  *out = (ett_launch_stats){.queue_mean = NAN};
  if (n == 0)
    return 0;
  int64_t *delays = malloc(5 * n * sizeof *delays);
  if (!delays)
    return -1;
  int64_t *launches = delays + n, *ends = launches + n, *spare = ends + n;
  int64_t *keys = spare + n; /* call and place in rows */
  for (size_t i = 0; i < n; i++)
    if (rows[i] != ETT_TRACE_NONE && calls[i] != ETT_TRACE_NONE)
      keys[out->rows++] = (int64_t)((uint64_t)calls[i] << 32 | i);
  if (out->rows > 0)
    sort_ticks(keys, spare, out->rows);
  size_t m = 0;
  for (size_t k = 0; k < out->rows; m++) {
    const uint32_t first = calls[(uint32_t)keys[k]];
    const int64_t call = ETT_ROW(t, ts, first), call_dur = ETT_ROW(t, dur, first);
    int64_t from, to;
    span_of_launch(t, rows, keys, out->rows, &k, &from, &to);
    delays[m] = from - call;
    launches[m] = call;
    ends[m] = to > call ? to : call; /* it was never in the queue */
    out->delay_sum += (double)(from - call);
    out->call_sum += (double)call_dur;
    out->short_rows += to - from < call_dur;
  }
  out->launched = m;
  if (m > 0) {
    sort_ticks(delays, spare, m);
    sort_ticks(launches, spare, m);
    sort_ticks(ends, spare, m);
    out->delay_p50 = delays[m / 2];
    const size_t p95 = (size_t)floor(0.95 * (double)m);
    out->delay_p95 = delays[p95 < m ? p95 : m - 1];
    out->delay_max = delays[m - 1];
    walk_queue(out, launches, ends, m);
  }
  free(delays);
  return 0;
}

void ett_idle_causes_of(ett_idle_causes *out, const ett_trace *t, const uint32_t *rows,
                        const uint32_t *calls, size_t n, const ett_intervals *gaps) {
  *out = (ett_idle_causes){0, 0, 0};
  size_t i = 0;
  for (size_t g = 0; g < gaps->count; g++) {
    const int64_t from = gaps->items[g].from, to = gaps->items[g].to;
    while (i < n && (rows[i] == ETT_TRACE_NONE || ETT_ROW(t, ts, rows[i]) < to))
      i++;
    int64_t launch = INT64_MAX; /* of the rows that start together */
    for (size_t k = i; k < n && rows[k] != ETT_TRACE_NONE &&
                       ETT_ROW(t, ts, rows[k]) == ETT_ROW(t, ts, rows[i]);
         k++)
      if (calls[k] != ETT_TRACE_NONE && ETT_ROW(t, ts, calls[k]) < launch)
        launch = ETT_ROW(t, ts, calls[k]);
    if (launch == INT64_MAX)
      out->unknown += to - from;
    else if (launch >= from)
      out->host += to - from;
    else
      out->device += to - from;
  }
}

/* The number in a row's arg. Selections are almost always in row order, so that the next
 * entry is close to the last one, *at. */
static int number_of(const ett_trace *t, uint32_t arg, uint32_t row, uint32_t *at,
                     double *value) {
  const ett_trace_arg *args = t->args[arg];
  const uint32_t length = t->arg_lengths[arg];
  if (row == ETT_TRACE_NONE)
    return 0;
  for (uint32_t step = 0; step < 64 && *at < length && args[*at].row < row; step++)
    (*at)++;
  if (*at == length || args[*at].row != row) {
    const ett_trace_arg *found = ett_trace_arg_at(t, arg, row);
    if (!found)
      return 0;
    *at = (uint32_t)(found - args);
  }
  return ett_arg_number(t, &args[*at], value);
}

void ett_arg_weighted(const ett_trace *t, const uint32_t *rows, size_t n, uint32_t arg,
                      double cap, double *weighted, double *ticks) {
  uint32_t at = 0;
  *weighted = *ticks = 0;
  for (size_t i = 0; i < n; i++) {
    double value;
    if (!number_of(t, arg, rows[i], &at, &value))
      continue;
    const double dur = (double)ETT_ROW(t, dur, rows[i]);
    *weighted += (value < cap ? value : cap) * dur;
    *ticks += dur;
  }
}

/* A value that begins or ends. */
typedef struct change {
  int64_t at;
  double by;
} change;

static int by_time(const void *a, const void *b) {
  const change *x = a, *y = b;
  return x->at != y->at ? (x->at < y->at ? -1 : 1) : (x->by > y->by) - (x->by < y->by);
}

int ett_arg_covered(const ett_trace *t, const uint32_t *rows, size_t n, uint32_t arg,
                    double cap, int64_t from, int64_t to, double *covered) {
  *covered = 0;
  if (n == 0)
    return 0;
  change *changes = malloc(2 * n * sizeof *changes);
  if (!changes)
    return -1;
  uint32_t at = 0;
  size_t count = 0;
  for (size_t i = 0; i < n; i++) {
    double value;
    if (!number_of(t, arg, rows[i], &at, &value))
      continue;
    int64_t start = ETT_ROW(t, ts, rows[i]), end = start + ETT_ROW(t, dur, rows[i]);
    start = start > from ? start : from;
    end = end < to ? end : to;
    value = value < cap ? value : cap; /* bounds the rounding of the sum */
    if (start < end && value > 0) {
      changes[count++] = (change){start, value};
      changes[count++] = (change){end, -value};
    }
  }
  qsort(changes, count, sizeof *changes, by_time);
  double sum = 0;
  for (size_t i = 0; i + 1 < count; i++) {
    sum += changes[i].by;
    const double value = sum < cap ? sum : cap;
    *covered += value * (double)(changes[i + 1].at - changes[i].at);
  }
  free(changes);
  return 0;
}

/* Bits of a double, mapped so that they sort as integers in the order of the numbers. */
static int64_t ordered(int64_t bits) {
  return bits < 0 ? bits ^ INT64_MAX : bits;
}

void ett_sort_numbers(double *numbers, double *spare, size_t count) {
  if (!count)
    return;
  int64_t *bits = (int64_t *)(void *)spare, *room = (int64_t *)(void *)numbers;
  memcpy(bits, numbers, count * sizeof *bits);
  for (size_t i = 0; i < count; i++)
    bits[i] = ordered(bits[i]);
  sort_ticks(bits, room, count);
  for (size_t i = 0; i < count; i++)
    bits[i] = ordered(bits[i]);
  memcpy(numbers, bits, count * sizeof *bits);
}
