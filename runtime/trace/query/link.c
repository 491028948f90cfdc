#include "trace/query/link.h"

#include <stdlib.h>
#include <string.h>

#include "base/large.h"

static int hollow(ett_selection *out, size_t count) {
  out->rows = ett_large_alloc((count ? count : 1) * sizeof *out->rows);
  out->count = count;
  if (!out->rows)
    return -1;
  memset(out->rows, 0xFF, count * sizeof *out->rows);
  return 0;
}

typedef struct entry {
  uint64_t bits;
  uint32_t file, row; /* row ETT_TRACE_NONE: empty slot */
} entry;

static int key_bits(const ett_trace *t, ett_key key, uint32_t row, uint64_t *bits) {
  ett_key_value v = ett_key_of(t, key, row);
  if (v.type == ETT_ARG_NONE)
    return 0;
  if (v.type == ETT_ARG_TEXT) /* not an integer that occurs */
    *bits = UINT64_C(0xA3C59AC2) << 32 | v.value.text;
  else
    memcpy(bits, &v.value, 8);
  return 1;
}

static size_t place(uint64_t bits, uint32_t file, size_t mask) {
  uint64_t h = (bits ^ (uint64_t)file << 48) * 0x9E3779B97F4A7C15u;
  return (size_t)(h ^ (h >> 31)) & mask;
}

/* A searched key without a row yet. */
#define PENDING (ETT_TRACE_NONE - 1)

/* The slot of a row's key, or the empty slot for it, with the key; NULL without a key. */
static inline entry *slot_of(entry *table, size_t mask, const ett_trace *t, ett_key key,
                             uint32_t row) {
  uint64_t bits;
  if (row == ETT_TRACE_NONE || !key_bits(t, key, row, &bits))
    return NULL;
  const uint32_t file = t->blocks[row >> 16].file;
  size_t p = place(bits, file, mask);
  while (table[p].row != ETT_TRACE_NONE &&
         (table[p].bits != bits || table[p].file != file))
    p = (p + 1) & mask;
  table[p].bits = bits;
  table[p].file = file;
  return &table[p];
}

/* The table holds the keys of the smaller side, so that matching a few rows against all
 * launches of a trace stays in cache. */
int ett_link_match(ett_selection *out, const ett_trace *t, const ett_selection *s,
                   const ett_selection *r, ett_key key) {
  const int by_wanted = s->count < r->count;
  size_t size = 16;
  while (size < (by_wanted ? s->count : r->count) * 2)
    size *= 2;
  entry *table = malloc(size * sizeof *table);
  *out = (ett_selection){0};
  if (!table || hollow(out, s->count)) {
    free(table);
    return -1;
  }
  memset(table, 0xFF, size * sizeof *table);
  for (size_t i = 0; by_wanted && i < s->count; i++) {
    entry *e = slot_of(table, size - 1, t, key, s->rows[i]);
    if (e)
      e->row = PENDING;
  }
  for (size_t i = 0; i < r->count; i++) {
    entry *e = slot_of(table, size - 1, t, key, r->rows[i]);
    if (e && e->row == (by_wanted ? PENDING : ETT_TRACE_NONE))
      e->row = r->rows[i];
  }
  for (size_t i = 0; i < s->count; i++) {
    const entry *e = slot_of(table, size - 1, t, key, s->rows[i]);
    if (e && e->row < PENDING && e->row != s->rows[i])
      out->rows[i] = e->row;
  }
  free(table);
  return 0;
}

int ett_link_having(ett_selection *out, const ett_trace *t, const ett_selection *s,
                    const ett_selection *r, ett_key key) {
  if (ett_link_match(out, t, s, r, key))
    return -1;
  size_t n = 0;
  for (size_t i = 0; i < s->count; i++)
    if (out->rows[i] != ETT_TRACE_NONE)
      out->rows[n++] = s->rows[i];
  out->count = n;
  return 0;
}

typedef struct item {
  uint32_t track, row;
  int64_t ts, end;
  size_t index;
} item;

/* Outer before inner: by track, then start, then longer first. */
static int by_start(const void *a, const void *b) {
  const item *x = a, *y = b;
  if (x->track != y->track)
    return x->track < y->track ? -1 : 1;
  if (x->ts != y->ts)
    return x->ts < y->ts ? -1 : 1;
  if (x->end != y->end)
    return x->end > y->end ? -1 : 1;
  return x->row < y->row ? -1 : x->row > y->row;
}

static item *items_of(const ett_trace *t, const ett_selection *s, size_t *count) {
  item *all = ett_large_alloc((s->count ? s->count : 1) * sizeof *all);
  *count = 0;
  if (!all)
    return NULL;
  int sorted = 1;
  for (size_t i = 0; i < s->count; i++) {
    uint32_t row = s->rows[i];
    if (row == ETT_TRACE_NONE)
      continue;
    int64_t ts = ETT_ROW(t, ts, row);
    all[*count] = (item){ETT_ROW(t, track, row), row, ts, ts + ETT_ROW(t, dur, row), i};
    if (*count && by_start(&all[*count - 1], &all[*count]) > 0)
      sorted = 0;
    ++*count;
  }
  if (!sorted)
    qsort(all, *count, sizeof *all, by_start);
  return all;
}

static int sweep(ett_selection *out, const ett_trace *t, const ett_selection *s,
                 const ett_selection *r, int enclosing) {
  *out = (ett_selection){0};
  size_t n, m, used = 0, next = 0;
  item *rows = items_of(t, s, &n), *outer = items_of(t, r, &m);
  item *stack = malloc((m + 1) * sizeof *stack);
  int status = -1;
  if (!rows || !outer || !stack || hollow(out, s->count))
    goto done;
  uint32_t track = ETT_TRACE_NONE;
  for (size_t i = 0; i < n; i++) {
    const item *q = &rows[i];
    if (q->track != track) {
      used = 0;
      track = q->track;
    }
    for (; next < m && (outer[next].track < track ||
                        (outer[next].track == track && outer[next].ts <= q->ts));
         next++) {
      if (outer[next].track < track)
        continue;
      while (enclosing && used && stack[used - 1].end < outer[next].ts)
        used--;
      stack[used++] = outer[next];
    }
    if (enclosing)
      while (used && stack[used - 1].end < q->ts)
        used--;
    for (size_t k = used; k > 0; k--) {
      if (stack[k - 1].row == q->row || (enclosing && stack[k - 1].end < q->end))
        continue;
      out->rows[q->index] = stack[k - 1].row;
      break;
    }
  }
  status = 0;
done:
  free(rows);
  free(outer);
  free(stack);
  if (status)
    ett_selection_free(out);
  return status;
}

int ett_link_enclosing(ett_selection *out, const ett_trace *t, const ett_selection *s,
                       const ett_selection *r) {
  return sweep(out, t, s, r, 1);
}

int ett_link_preceding(ett_selection *out, const ett_trace *t, const ett_selection *s,
                       const ett_selection *r) {
  return sweep(out, t, s, r, 0);
}

int ett_link_nest(ett_selection *out, uint32_t *parents, const ett_trace *t,
                  const ett_selection *s, int64_t slack) {
  size_t n, used = 0;
  item *rows = items_of(t, s, &n);
  uint32_t *stack = ett_large_alloc((n + 1) * sizeof *stack);
  *out = (ett_selection){0};
  const int status = rows && stack ? hollow(out, n) : -1;
  for (size_t i = 0; !status && i < n; i++) {
    const item *q = &rows[i];
    int64_t least;
    if (__builtin_sub_overflow(q->end, slack, &least))
      least = INT64_MIN;
    if (i && rows[i - 1].track != q->track)
      used = 0;
    while (used && (rows[stack[used - 1] - 1].end <= q->ts ||
                    rows[stack[used - 1] - 1].end < least))
      used--;
    out->rows[i] = q->row;
    parents[i] = used ? stack[used - 1] : 0;
    stack[used++] = (uint32_t)i + 1;
  }
  free(rows);
  free(stack);
  return status;
}

typedef struct hull {
  uint32_t home;
  ett_interval interval;
} hull;

static int by_home(const void *a, const void *b) {
  const hull *x = a, *y = b;
  return x->home < y->home ? -1 : x->home > y->home;
}

static void extend(ett_interval *hull, int64_t from, int64_t to) {
  hull->from = from < hull->from ? from : hull->from;
  hull->to = to > hull->to ? to : hull->to;
}

int ett_link_hulls(ett_intervals *out, size_t *count, const ett_trace *t,
                   const ett_selection *s, const ett_selection *homes) {
  size_t pairs = 0, n = 0;
  for (size_t i = 0; i < s->count; i++)
    pairs += s->rows[i] != ETT_TRACE_NONE && homes->rows[i] != ETT_TRACE_NONE;
  hull *all = ett_large_alloc((pairs + 1) * sizeof *all);
  if (!all || ett_intervals_make(out, pairs)) {
    free(all);
    return -1;
  }
  for (size_t i = 0; i < s->count; i++) {
    const uint32_t row = s->rows[i];
    if (row == ETT_TRACE_NONE || homes->rows[i] == ETT_TRACE_NONE)
      continue;
    const int64_t ts = ETT_ROW(t, ts, row);
    all[n++] = (hull){homes->rows[i], {ts, ts + ETT_ROW(t, dur, row)}};
  }
  qsort(all, n, sizeof *all, by_home);
  for (size_t i = 0; i < n; i++) {
    const ett_interval own = all[i].interval;
    if (i == 0 || all[i].home != all[i - 1].home) {
      out->items[out->count++] = own;
      continue;
    }
    extend(&out->items[out->count - 1], own.from, own.to);
  }
  free(all);
  *count = out->count;
  return ett_intervals_unite(out);
}

static int by_name(const void *a, const void *b) {
  const ett_named_hull *x = a, *y = b;
  return x->name < y->name ? -1 : x->name > y->name;
}

/* The state of ett_link_named_hulls: host rows and ranges by start, and the places of the
 * open ranges. Also the last host row that found a range of each name. */
typedef struct named {
  item *rows, *outer;
  size_t *stack, *seen;
} named;

static void free_named(named *w) {
  free(w->rows);
  free(w->outer);
  free(w->stack);
  free(w->seen);
}

/* Extends hulls by the row of s that belongs to host row number i. */
static void add_to_open(ett_named_hull *out, const named *w, size_t used, size_t i,
                        const ett_trace *t, const ett_selection *s) {
  const item *q = &w->rows[i];
  const uint32_t row = s->rows[q->index];
  const int64_t ts = ETT_ROW(t, ts, row);
  for (size_t k = used; k > 0; k--) {
    const item *range = &w->outer[w->stack[k - 1]];
    size_t *seen = &w->seen[ETT_ROW(t, name, range->row)];
    if (range->row == q->row || range->end < q->end || *seen == i + 1)
      continue;
    *seen = i + 1;
    extend(&out[w->stack[k - 1]].interval, ts, ts + ETT_ROW(t, dur, row));
  }
}

int ett_link_named_hulls(ett_named_hull *out, size_t *count, const ett_trace *t,
                         const ett_selection *s, const ett_selection *homes,
                         const ett_selection *ranges) {
  size_t n, m, used = 0, next = 0, kept = 0;
  named w = {.rows = items_of(t, homes, &n),
             .outer = items_of(t, ranges, &m),
             .stack = malloc((ranges->count + 1) * sizeof *w.stack),
             .seen = calloc((size_t)t->strings->count + 1, sizeof *w.seen)};
  *count = 0;
  if (!w.rows || !w.outer || !w.stack || !w.seen) {
    free_named(&w);
    return -1;
  }
  for (size_t j = 0; j < m; j++)
    out[j] = (ett_named_hull){ETT_ROW(t, name, w.outer[j].row), {INT64_MAX, INT64_MIN}};
  for (size_t i = 0; i < n; i++) {
    const item *q = &w.rows[i];
    if (i > 0 && q->track != w.rows[i - 1].track)
      used = 0;
    for (; next < m && (w.outer[next].track < q->track ||
                        (w.outer[next].track == q->track && w.outer[next].ts <= q->ts));
         next++) {
      if (w.outer[next].track < q->track)
        continue;
      while (used && w.outer[w.stack[used - 1]].end < w.outer[next].ts)
        used--;
      w.stack[used++] = next;
    }
    add_to_open(out, &w, used, i, t, s);
  }
  for (size_t j = 0; j < m; j++)
    if (out[j].interval.from <= out[j].interval.to)
      out[kept++] = out[j];
  free_named(&w);
  if (kept > 0)
    qsort(out, kept, sizeof *out, by_name);
  *count = kept;
  return 0;
}
