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

/* The rows to test, in pieces that threads share. A piece is the rows of a block, or
 * 65536 rows of `from`. Each piece has a place in `rows` for all of its rows. */
typedef struct selecting {
  const ett_trace *t;
  const ett_filter *f;
  const ett_selection *from;
  const uint8_t *files, *wanted; /* wanted: classes; NULL: all */
  uint32_t *rows;
  size_t *start, *count; /* per piece: its place in rows; the number that passed */
} selecting;

enum { PIECE = 1 << 16 };

static inline void test_row(const selecting *s, uint32_t row, uint32_t **at) {
  const ett_trace_block *b = &s->t->blocks[row >> 16];
  if (s->files[b->file] && passes(s->t, s->f, b, row & 0xFFFF, row))
    *(*at)++ = row;
}

/* The rows of the wanted classes in a block, in order. */
static void select_classes(const selecting *s, uint32_t block, uint32_t **at) {
  const uint32_t *from[ETT_CLASS_COUNT], *end[ETT_CLASS_COUNT];
  const uint32_t *starts = s->t->class_starts + (size_t)block * ETT_CLASS_COUNT;
  size_t n = 0;
  for (int c = 0; c < ETT_CLASS_COUNT; c++) {
    if (!s->wanted[c] || starts[c] == starts[ETT_CLASS_COUNT + c])
      continue;
    from[n] = s->t->class_rows[c] + starts[c];
    end[n++] = s->t->class_rows[c] + starts[ETT_CLASS_COUNT + c];
  }
  while (n) {
    size_t best = 0;
    for (size_t k = 1; k < n; k++)
      if (*from[k] < *from[best])
        best = k;
    test_row(s, *from[best]++, at);
    if (from[best] == end[best]) {
      from[best] = from[--n];
      end[best] = end[n];
    }
  }
}

static void select_piece(void *context, uint32_t i) {
  const selecting *s = context;
  uint32_t *first = s->rows + s->start[i], *at = first;
  if (s->from) {
    for (size_t k = s->start[i]; k < s->start[i + 1]; k++)
      if (s->from->rows[k] != ETT_TRACE_NONE)
        test_row(s, s->from->rows[k], &at);
  } else if (s->files[s->t->blocks[i].file]) {
    if (s->wanted)
      select_classes(s, i, &at);
    for (uint32_t k = 0; !s->wanted && k < s->t->blocks[i].count; k++)
      test_row(s, i << 16 | k, &at);
  }
  s->count[i] = (size_t)(at - first);
}

static void fill_starts(const selecting *s, uint32_t pieces) {
  for (uint32_t i = 0; i < pieces; i++) {
    size_t rows = 0;
    if (s->from) {
      rows = s->from->count - s->start[i];
      rows = rows < PIECE ? rows : PIECE;
    } else {
      const uint32_t *starts = s->t->class_starts + (size_t)i * ETT_CLASS_COUNT;
      for (int c = 0; c < ETT_CLASS_COUNT; c++)
        if (!s->wanted || s->wanted[c])
          rows += starts[ETT_CLASS_COUNT + c] - starts[c];
    }
    s->start[i + 1] = s->start[i] + rows;
  }
}

/* Tests the rows of all pieces and moves those that passed together. */
static int select_all(ett_selection *out, selecting *s, uint32_t pieces) {
  s->rows = ett_large_alloc((s->start[pieces] + 1) * sizeof *s->rows);
  if (!s->rows)
    return -1;
  /* reading an arg changes its hint in t: one thread */
  ett_workers_run(s->f->arg_count ? NULL : s->t->workers, pieces, select_piece, s, NULL);
  for (uint32_t i = 0; i < pieces; i++) {
    memmove(s->rows + out->count, s->rows + s->start[i], s->count[i] * sizeof *s->rows);
    out->count += s->count[i];
  }
  out->rows = s->rows;
  if (s->start[pieces] > PIECE && out->count < s->start[pieces] / 2) {
    uint32_t *less = realloc(out->rows, (out->count + 1) * sizeof *less);
    out->rows = less ? less : out->rows;
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
  uint8_t wanted[ETT_CLASS_COUNT] = {0}, *files = files_of(t, f);
  const uint32_t pieces =
      from ? (uint32_t)((from->count + PIECE - 1) / PIECE) : t->block_count;
  size_t *start = calloc(2 * ((size_t)pieces + 1), sizeof *start);
  int status = files && start ? 0 : -1;
  selecting s = {.t = t, .f = f, .from = from, .files = files, .start = start};
  *out = (ett_selection){0};
  if (!from && f->category && !status) {
    for (uint32_t i = 0; i < t->category_count; i++)
      wanted[t->category_class[i]] |= f->category[i];
    status = ett_trace_index_classes(t, wanted);
    s.wanted = wanted;
  }
  if (!status) {
    s.count = start + pieces + 1;
    fill_starts(&s, pieces);
    status = select_all(out, &s, pieces);
  }
  free(start);
  free(files);
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
      k = key == ETT_SORT_TS ? ts : key == ETT_SORT_END ? ts + dur : dur;
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
  __int128_t n = 0;
  for (size_t i = 0; i < s->count; i++)
    if (s->rows[i] != ETT_TRACE_NONE)
      n += ETT_ROW(t, dur, s->rows[i]);
  return ett_ticks_within(n);
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
  if (ett_intervals_make(out, s->count))
    return -1;
  for (size_t i = 0; i < s->count; i++) {
    uint32_t row = s->rows[i];
    if (row == ETT_TRACE_NONE || (ETT_ROW(t, ph, row) & ETT_PH_INVALID))
      continue;
    int64_t ts = ETT_ROW(t, ts, row);
    out->items[out->count++] = (ett_interval){ts, ts + ETT_ROW(t, dur, row)};
  }
  return ett_intervals_unite(out);
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
