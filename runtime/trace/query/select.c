#include "trace/query/select.h"

#include <stdlib.h>
#include <string.h>

#include "base/large.h"
#include "io/number.h"

void ett_selection_free(ett_selection *s) {
  free(s->rows);
  s->rows = NULL;
  s->count = 0;
}

static int listed(const int64_t *list, size_t n, int64_t x) {
  for (size_t i = 0; i < n; i++)
    if (list[i] == x)
      return 1;
  return 0;
}

static int arg_passes(const ett_trace *t, const ett_arg_test *a, uint32_t row) {
  const ett_trace_arg *arg = ett_trace_arg_at(t, a->arg, row);
  if (!arg)
    return 0;
  if (a->any)
    return 1;
  double x, y;
  if (a->value.type == ETT_ARG_TEXT)
    return arg->type == ETT_ARG_TEXT && arg->value.text == a->value.value.text;
  if (arg->type == ETT_ARG_INTEGER && a->value.type == ETT_ARG_INTEGER)
    return arg->value.integer == a->value.value.integer;
  return ett_arg_number(t, arg, &x) && ett_arg_number(t, &a->value, &y) && x == y;
}

static inline int passes(const ett_trace *t, const ett_filter *f,
                         const ett_trace_block *b, uint32_t i, uint32_t row) {
  if (f->category && !f->category[b->category[i]])
    return 0;
  if (f->track && !f->track[b->track[i]])
    return 0;
  if ((b->ph[i] & ETT_PH_INVALID) && (!f->keep_invalid || (b->ph[i] & 0x7F) == 'E'))
    return 0;
  if (f->ph && !f->ph[b->ph[i] & 0x7F])
    return 0;
  if (f->name && !f->name[b->name[i]])
    return 0;
  if (f->not_name && f->not_name[b->name[i]])
    return 0;
  if (f->devices && !listed(f->devices, f->device_count, b->device[i]))
    return 0;
  if (f->streams && !listed(f->streams, f->stream_count, b->stream[i]))
    return 0;
  int64_t ts = b->ts[i], dur = b->dur[i];
  if (f->has_min_dur && dur < f->min_dur)
    return 0;
  if (f->has_starts_in && (ts < f->starts_from || ts >= f->starts_to))
    return 0;
  if (f->has_window && !(ts < f->window_to &&
                         (dur > 0 ? ts + dur > f->window_from : ts >= f->window_from)))
    return 0;
  for (size_t k = 0; k < f->arg_count; k++)
    if (!arg_passes(t, &f->args[k], row))
      return 0;
  return 1;
}

static int push(ett_selection *s, size_t *capacity, uint32_t row) {
  if (s->count == *capacity) {
    size_t n = *capacity ? *capacity * 2 : 1024;
    uint32_t *grown = realloc(s->rows, n * sizeof *grown);
    if (!grown)
      return -1;
    s->rows = grown;
    *capacity = n;
  }
  s->rows[s->count++] = row;
  return 0;
}

/* Rows of the classes of the filter's categories, merged in order. */
static int select_classes(ett_selection *out, ett_trace *t, const ett_filter *f,
                          const uint8_t *files) {
  struct {
    const uint32_t *at, *end;
  } lists[ETT_CLASS_COUNT];
  size_t n = 0, most = 0;
  uint8_t wanted[ETT_CLASS_COUNT] = {0};
  for (uint32_t i = 0; i < t->category_count; i++)
    wanted[t->category_class[i]] |= f->category[i];
  if (ett_trace_index_classes(t, wanted))
    return -1;
  for (int c = 0; c < ETT_CLASS_COUNT; c++) {
    if (!wanted[c] || !t->class_counts[c])
      continue;
    lists[n].at = t->class_rows[c];
    lists[n++].end = t->class_rows[c] + t->class_counts[c];
    most += t->class_counts[c];
  }
  if (!(out->rows = ett_large_alloc((most ? most : 1) * sizeof *out->rows)))
    return -1;
  while (n) {
    size_t best = 0;
    for (size_t k = 1; k < n; k++)
      if (*lists[k].at < *lists[best].at)
        best = k;
    uint32_t row = *lists[best].at++;
    if (lists[best].at == lists[best].end)
      lists[best] = lists[--n];
    const ett_trace_block *b = &t->blocks[row >> 16];
    if (files[b->file] && passes(t, f, b, row & 0xFFFF, row))
      out->rows[out->count++] = row;
  }
  return 0;
}

/* Whether each file has a track that passes; rows of other files are skipped. NULL if
 * memory runs out. */
static uint8_t *files_of(const ett_trace *t, const ett_filter *f) {
  uint8_t *files = malloc((size_t)t->file_count + 1);
  if (!files)
    return NULL;
  memset(files, !f->track, (size_t)t->file_count + 1);
  for (uint32_t i = 0; f->track && i < t->track_count; i++)
    files[t->tracks[i].file] |= f->track[i];
  return files;
}

int ett_select(ett_selection *out, ett_trace *t, const ett_selection *from,
               const ett_filter *f) {
  size_t capacity = 0;
  int status = 0;
  *out = (ett_selection){0};
  uint8_t *files = files_of(t, f);
  if (!files)
    return -1;
  if (from) {
    for (size_t i = 0; i < from->count && !status; i++) {
      const uint32_t row = from->rows[i];
      if (row == ETT_TRACE_NONE)
        continue;
      const ett_trace_block *b = &t->blocks[row >> 16];
      if (files[b->file] && passes(t, f, b, row & 0xFFFF, row))
        status = push(out, &capacity, row);
    }
  } else if (f->category) {
    status = select_classes(out, t, f, files);
  } else {
    for (uint32_t b = 0; b < t->block_count && !status; b++) {
      const ett_trace_block *k = &t->blocks[b];
      for (uint32_t i = 0; files[k->file] && i < k->count && !status; i++)
        if (passes(t, f, k, i, b << 16 | i))
          status = push(out, &capacity, b << 16 | i);
    }
  }
  free(files);
  if (status)
    ett_selection_free(out);
  return status;
}

static int by_row(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* A sorted copy without holes and duplicates. */
static int ordered(ett_selection *out, const ett_selection *s) {
  out->rows = ett_large_alloc((s->count ? s->count : 1) * sizeof *out->rows);
  out->count = 0;
  if (!out->rows)
    return -1;
  int sorted = 1;
  for (size_t i = 0; i < s->count; i++) {
    if (s->rows[i] == ETT_TRACE_NONE)
      continue;
    if (out->count && out->rows[out->count - 1] >= s->rows[i])
      sorted = 0;
    out->rows[out->count++] = s->rows[i];
  }
  if (!sorted) {
    qsort(out->rows, out->count, sizeof *out->rows, by_row);
    size_t n = 0;
    for (size_t i = 0; i < out->count; i++)
      if (!n || out->rows[n - 1] != out->rows[i])
        out->rows[n++] = out->rows[i];
    out->count = n;
  }
  return 0;
}

int ett_selection_combine(ett_selection *out, const ett_selection *a,
                          const ett_selection *b, ett_rows_op op) {
  ett_selection x = {0}, y = {0};
  *out = (ett_selection){0};
  int status = -1;
  if (ordered(&x, a) || ordered(&y, b))
    goto done;
  out->rows = ett_large_alloc((x.count + y.count + 1) * sizeof *out->rows);
  if (!out->rows)
    goto done;
  size_t i = 0, k = 0;
  while (i < x.count || k < y.count) {
    int in_x = k == y.count || (i < x.count && x.rows[i] <= y.rows[k]);
    int in_y = i == x.count || (k < y.count && y.rows[k] <= x.rows[i]);
    uint32_t row = in_x ? x.rows[i] : y.rows[k];
    i += in_x;
    k += in_y;
    if (op == ETT_ROWS_OR || (op == ETT_ROWS_AND ? in_x && in_y : in_x && !in_y))
      out->rows[out->count++] = row;
  }
  status = 0;
done:
  ett_selection_free(&x);
  ett_selection_free(&y);
  return status;
}

typedef struct keyed {
  int64_t key;
  uint32_t row;
} keyed;

static int by_key(const void *a, const void *b) {
  const keyed *x = a, *y = b;
  if (x->key != y->key)
    return x->key < y->key ? -1 : 1;
  return x->row < y->row ? -1 : x->row > y->row;
}

int ett_selection_sort(ett_selection *s, const ett_trace *t, ett_sort_key key) {
  keyed *all = ett_large_alloc((s->count ? s->count : 1) * sizeof *all);
  if (!all)
    return -1;
  int sorted = 1;
  for (size_t i = 0; i < s->count; i++) {
    uint32_t row = s->rows[i];
    int64_t k = INT64_MAX;
    if (row != ETT_TRACE_NONE) {
      int64_t ts = ETT_ROW(t, ts, row), dur = ETT_ROW(t, dur, row);
      k = key == ETT_SORT_TS    ? ts
          : key == ETT_SORT_END ? ts + dur
          : key == ETT_SORT_DUR ? dur
                                : 0;
    }
    all[i] = (keyed){k, row};
    if (i && by_key(&all[i - 1], &all[i]) > 0)
      sorted = 0;
  }
  if (!sorted) {
    qsort(all, s->count, sizeof *all, by_key);
    for (size_t i = 0; i < s->count; i++)
      s->rows[i] = all[i].row;
  }
  free(all);
  return 0;
}

int64_t ett_selection_total(const ett_selection *s, const ett_trace *t) {
  uint64_t n = 0;
  for (size_t i = 0; i < s->count; i++)
    if (s->rows[i] != ETT_TRACE_NONE)
      n += (uint64_t)ETT_ROW(t, dur, s->rows[i]);
  return (int64_t)n;
}

int ett_selection_span(const ett_selection *s, const ett_trace *t, int64_t *from,
                       int64_t *to) {
  int any = 0;
  for (size_t i = 0; i < s->count; i++) {
    uint32_t row = s->rows[i];
    if (row == ETT_TRACE_NONE)
      continue;
    int64_t ts = ETT_ROW(t, ts, row), end = ts + ETT_ROW(t, dur, row);
    if (!any || ts < *from)
      *from = ts;
    if (!any || end > *to)
      *to = end;
    any = 1;
  }
  return any;
}

int ett_selection_intervals(ett_intervals *out, const ett_selection *s,
                            const ett_trace *t) {
  ett_interval *items = ett_large_alloc((s->count ? s->count : 1) * sizeof *items);
  if (!items)
    return -1;
  size_t n = 0;
  for (size_t i = 0; i < s->count; i++) {
    uint32_t row = s->rows[i];
    if (row == ETT_TRACE_NONE || (ETT_ROW(t, ph, row) & ETT_PH_INVALID))
      continue;
    int64_t ts = ETT_ROW(t, ts, row);
    items[n++] = (ett_interval){ts, ts + ETT_ROW(t, dur, row)};
  }
  int status = ett_intervals_unite(out, items, n);
  free(items);
  return status;
}

int ett_arg_number(const ett_trace *t, const ett_trace_arg *arg, double *value) {
  switch (arg->type) {
  case ETT_ARG_INTEGER:
    *value = (double)arg->value.integer;
    return 1;
  case ETT_ARG_FLOAT:
    *value = arg->value.number;
    return 1;
  case ETT_ARG_TEXT: {
    const ett_string *text = &t->strings->items[arg->value.text];
    const ett_number n = ett_number_parse(text->text, text->length);
    *value = n.number;
    return n.kind != ETT_NUMBER_NONE;
  }
  default:
    return 0;
  }
}
