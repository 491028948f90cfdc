#include "trace/query/interval.h"

#include <stdlib.h>
#include <string.h>

#include "base/large.h"

void ett_intervals_free(ett_intervals *s) {
  free(s->items);
  s->items = NULL;
  s->count = 0;
}

int ett_intervals_make(ett_intervals *out, size_t most) {
  out->count = 0;
  out->items = NULL;
  if (most > SIZE_MAX / sizeof *out->items)
    return -1;
  out->items = ett_large_alloc((most ? most : 1) * sizeof *out->items);
  return out->items ? 0 : -1;
}

/* Shrinks the memory to its used size. */
static int done(ett_intervals *out) {
  ett_interval *fitted =
      realloc(out->items, (out->count ? out->count : 1) * sizeof *fitted);
  if (fitted)
    out->items = fitted;
  return 0;
}

static void put(ett_intervals *out, int64_t from, int64_t to) {
  if (from >= to)
    return;
  ett_interval *last = out->count ? &out->items[out->count - 1] : NULL;
  if (last && from <= last->to) {
    if (to > last->to)
      last->to = to;
  } else {
    out->items[out->count++] = (ett_interval){from, to};
  }
}

/* The length of the run at items: as many of the n as are sorted by their start. */
static size_t run_length(const ett_interval *items, size_t n) {
  size_t i = 1;
  while (i < n && items[i - 1].from <= items[i].from)
    i++;
  return i;
}

/* Merges two runs, of which the first has m intervals, at its place; spare has m entries.
 */
static void merge_runs(ett_interval *items, size_t m, size_t n, ett_interval *spare) {
  size_t i = 0, k = m;
  if (items[m - 1].from <= items[m].from)
    return;
  memcpy(spare, items, m * sizeof *items);
  for (size_t at = 0; i < m; at++)
    items[at] = k < n && items[k].from < spare[i].from ? items[k++] : spare[i++];
}

/* Sorts by start: merges neighbouring runs, of which recorded events have few. */
static int sort_by_from(ett_interval *items, size_t n) {
  size_t count = 0;
  for (size_t at = 0; at < n; count++)
    at += run_length(items + at, n - at);
  if (count < 2)
    return 0;
  size_t *ends = ett_large_alloc(count * sizeof *ends);
  ett_interval *spare = ett_large_alloc(n * sizeof *spare);
  if (!ends || !spare) {
    free(ends);
    free(spare);
    return -1;
  }
  for (size_t i = 0, at = 0; i < count; i++)
    ends[i] = at += run_length(items + at, n - at);
  for (; count > 1; count = (count + 1) / 2)
    for (size_t i = 0, from = 0; i < count; i += 2) {
      const size_t end = ends[i + 1 < count ? i + 1 : i];
      if (end > ends[i])
        merge_runs(items + from, ends[i] - from, end - from, spare);
      ends[i / 2] = from = end;
    }
  free(ends);
  free(spare);
  return 0;
}

int ett_intervals_unite(ett_intervals *s) {
  const size_t n = s->count;
  if (sort_by_from(s->items, n))
    return -1;
  s->count = 0;
  for (size_t i = 0; i < n; i++)
    put(s, s->items[i].from, s->items[i].to);
  return done(s);
}

int ett_intervals_union(ett_intervals *out, const ett_intervals *a,
                        const ett_intervals *b) {
  if (ett_intervals_make(out, a->count + b->count))
    return -1;
  size_t i = 0, k = 0;
  while (i < a->count || k < b->count) {
    const ett_interval *x =
        k == b->count || (i < a->count && a->items[i].from <= b->items[k].from)
            ? &a->items[i++]
            : &b->items[k++];
    put(out, x->from, x->to);
  }
  return done(out);
}

int ett_intervals_intersect(ett_intervals *out, const ett_intervals *a,
                            const ett_intervals *b) {
  if (ett_intervals_make(out, a->count + b->count))
    return -1;
  for (size_t i = 0, k = 0; i < a->count && k < b->count;) {
    const ett_interval x = a->items[i], y = b->items[k];
    put(out, x.from > y.from ? x.from : y.from, x.to < y.to ? x.to : y.to);
    if (x.to < y.to)
      i++;
    else
      k++;
  }
  return done(out);
}

int ett_intervals_subtract(ett_intervals *out, const ett_intervals *a,
                           const ett_intervals *b) {
  if (ett_intervals_make(out, a->count + b->count))
    return -1;
  size_t k = 0;
  for (size_t i = 0; i < a->count; i++) {
    int64_t from = a->items[i].from, to = a->items[i].to;
    while (k < b->count && b->items[k].to <= from)
      k++;
    for (size_t j = k; j < b->count && b->items[j].from < to; j++) {
      put(out, from, b->items[j].from);
      if (b->items[j].to > from)
        from = b->items[j].to;
    }
    put(out, from, to);
  }
  return done(out);
}

/* The first interval that ends after x. */
static size_t ending_behind(const ett_intervals *a, int64_t x) {
  size_t low = 0, high = a->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (a->items[middle].to <= x)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

int ett_intervals_clip(ett_intervals *out, const ett_intervals *a, int64_t from,
                       int64_t to) {
  ett_interval window = {from, to};
  ett_intervals w = {&window, from < to};
  return ett_intervals_intersect(out, a, &w);
}

int ett_intervals_gaps(ett_intervals *out, const ett_intervals *a, int64_t from,
                       int64_t to) {
  ett_interval window = {from, to};
  ett_intervals w = {&window, from < to};
  return ett_intervals_subtract(out, &w, a);
}

int ett_intervals_longer(ett_intervals *out, const ett_intervals *a, int64_t least) {
  if (ett_intervals_make(out, a->count))
    return -1;
  for (size_t i = 0; i < a->count; i++) {
    uint64_t length = (uint64_t)a->items[i].to - (uint64_t)a->items[i].from;
    if (least < 0 || length > (uint64_t)least)
      put(out, a->items[i].from, a->items[i].to);
  }
  return done(out);
}

int64_t ett_intervals_measure(const ett_intervals *a) {
  uint64_t n = 0; /* wraps if the true sum exceeds 64 bits */
  for (size_t i = 0; i < a->count; i++)
    n += (uint64_t)a->items[i].to - (uint64_t)a->items[i].from;
  return (int64_t)n;
}

int64_t ett_intervals_measure_in(const ett_intervals *a, int64_t from, int64_t to) {
  uint64_t n = 0;
  for (size_t i = ending_behind(a, from); i < a->count && a->items[i].from < to; i++) {
    int64_t x = a->items[i].from > from ? a->items[i].from : from;
    int64_t y = a->items[i].to < to ? a->items[i].to : to;
    if (x < y)
      n += (uint64_t)y - (uint64_t)x;
  }
  return (int64_t)n;
}

int64_t ett_intervals_measure_both(const ett_intervals *a, const ett_intervals *b) {
  const ett_intervals *few = a->count < b->count ? a : b, *many = few == a ? b : a;
  uint64_t n = 0;
  for (size_t i = 0; i < few->count; i++)
    n += (uint64_t)ett_intervals_measure_in(many, few->items[i].from, few->items[i].to);
  return (int64_t)n;
}
