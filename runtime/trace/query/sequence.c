#include "trace/query/sequence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/large.h"

#include "trace/query/bulk.h"

size_t ett_sequence_bytes(size_t count, bool with_own) {
  const ett_sequence *s = NULL;
  return count *
         (2 * sizeof *s->starts + (with_own ? sizeof *s->own : 0) + sizeof *s->sorts);
}

void ett_sequence_place(ett_sequence *s, void *memory, size_t count, bool with_own) {
  s->count = count;
  s->starts = memory;
  s->ends = s->starts + count;
  s->own = with_own ? (double *)(void *)(s->ends + count) : NULL;
  s->sorts = (uint32_t *)(void *)(s->ends + (with_own ? 2 : 1) * count);
}

void ett_sequence_fill(ett_sequence *s, const ett_trace *t, const ett_selection *rows,
                       uint32_t arg, double scale) {
  for (size_t i = 0; i < rows->count; i++) {
    const int64_t ts = ETT_ROW(t, ts, rows->rows[i]),
                  dur = ETT_ROW(t, dur, rows->rows[i]);
    s->starts[i] = ts;
    s->ends[i] = ts + dur;
    if (!s->own)
      continue;
    const ett_trace_arg *a = ett_trace_arg_at(t, arg, rows->rows[i]);
    double value;
    s->own[i] = a && ett_arg_number(t, a, &value) ? value * scale : (double)dur;
  }
}

void ett_sequence_sizes(const ett_sequence *s, const uint32_t *homes, size_t *sizes) {
  for (size_t i = 0; i < s->count; i++)
    if (homes[s->sorts[i]])
      sizes[homes[s->sorts[i]] - 1]++;
}

void ett_sequence_split(const ett_sequence *s, const uint32_t *homes,
                        ett_sequence *parts) {
  for (size_t i = 0; i < s->count; i++) {
    const uint32_t home = homes[s->sorts[i]];
    if (!home)
      continue;
    ett_sequence *p = &parts[home - 1];
    const size_t n = p->count++;
    p->starts[n] = s->starts[i];
    p->ends[n] = s->ends[i];
    p->sorts[n] = s->sorts[i];
    if (s->own)
      p->own[n] = s->own[i];
  }
}

double ett_sequence_sum(const ett_sequence *s, const uint8_t *keep, bool positive,
                        size_t *count) {
  double sum = 0;
  size_t n = 0;
  for (size_t i = 0; i < s->count; i++) {
    if ((keep && !keep[s->sorts[i]]) || (positive && s->ends[i] <= s->starts[i]))
      continue;
    sum += ett_sequence_own(s, i);
    n++;
  }
  *count = n;
  return sum;
}

int ett_sequence_intervals(ett_intervals *out, const ett_sequence *s,
                           const uint8_t *keep) {
  if (ett_intervals_make(out, s->count))
    return -1;
  for (size_t i = 0; i < s->count; i++)
    if (!keep || keep[s->sorts[i]])
      out->items[out->count++] = (ett_interval){s->starts[i], s->ends[i]};
  return ett_intervals_unite(out);
}

static double at_share(const double *sorted, size_t n, double share) {
  const size_t at = (size_t)floor(share * (double)n);
  return sorted[at < n ? at : n - 1];
}

/* Collects the values of each group in its own range, in order; ends[g] is the end of the
 * range. */
static void gather(double *values, size_t *ends, const ett_sequence *const *lists,
                   const uint32_t *const *homes, size_t count) {
  for (size_t k = 0; k < count; k++)
    for (size_t i = 0; i < lists[k]->count; i++) {
      const uint32_t home = homes[k][lists[k]->sorts[i]];
      if (home)
        values[ends[home - 1]++] = ett_sequence_own(lists[k], i);
    }
}

int ett_sequence_spreads(ett_spread *out, size_t groups, const ett_sequence *const *lists,
                         const uint32_t *const *homes, size_t count) {
  size_t *ends = calloc(groups + 1, sizeof *ends), all = 0, most = 0;
  if (!ends)
    return -1;
  for (size_t k = 0; k < count; k++)
    ett_sequence_sizes(lists[k], homes[k], ends);
  for (size_t g = 0; g < groups; g++) {
    const size_t n = out[g].count = ends[g];
    ends[g] = all;
    all += n;
    most = n > most ? n : most;
  }
  double *values = malloc((all + most + 1) * sizeof *values);
  if (!values) {
    free(ends);
    return -1;
  }
  gather(values, ends, lists, homes, count);
  for (size_t g = 0; g < groups; g++) {
    const size_t n = out[g].count;
    double *mine = values + ends[g] - n;
    if (!n)
      continue;
    ett_sort_numbers(mine, values + all, n);
    out[g].total = 0;
    for (size_t i = 0; i < n; i++)
      out[g].total += mine[i];
    out[g].min = mine[0];
    out[g].p50 = at_share(mine, n, 0.5);
    out[g].p95 = at_share(mine, n, 0.95);
    out[g].max = mine[n - 1];
  }
  free(ends);
  free(values);
  return 0;
}
