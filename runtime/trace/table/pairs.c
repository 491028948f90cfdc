#include "trace/table/pairs.h"

#include <stdlib.h>

#include "base/large.h"
#include "trace/table/part.h"

/* A begin or end event of a file. */
typedef struct mark {
  int64_t ts; /* if its track is read in order of time, else 0 */
  uint32_t track, row;
} mark;

/* The marks of a track. */
typedef struct lane {
  int64_t last;   /* time of the last mark */
  uint32_t top;   /* innermost open begin: its place in the stack, or ETT_TRACE_NONE */
  bool open;      /* the last mark is a begin */
  bool unordered; /* a mark is earlier than the one before it in the file */
  bool nested;    /* an end does not follow its own begin */
} lane;

typedef struct marks {
  ett_trace *t;
  mark *items;
  lane *lanes; /* of all tracks */
  struct open {
    uint32_t row, below;
  } * stack;
  uint32_t count, used;
} marks;

static void see_mark(marks *x, uint32_t row, bool begin) {
  const ett_trace_block *k = &x->t->blocks[row >> 16];
  const uint32_t track = k->track[row & 0xFFFF];
  const int64_t ts = k->ts[row & 0xFFFF];
  lane *l = &x->lanes[track];
  l->unordered |= ts < l->last;
  l->nested |= begin == l->open || (!begin && ts < l->last);
  l->open = begin;
  l->last = ts;
  x->items[x->count++] = (mark){ts, track, row};
}

/* The marks of a file in its order; 0, or -1 if memory runs out. */
static int find_marks(marks *x, uint32_t file) {
  const ett_trace *t = x->t;
  size_t count = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t b = 0; b < t->block_count; b++)
      for (uint32_t i = 0; t->blocks[b].file == file && i < t->blocks[b].count; i++) {
        const uint8_t ph = t->blocks[b].ph[i];
        if (ph == ('E' | ETT_PH_INVALID)) /* its time is not valid: no begin */
          t->blocks[b].correlation[i] = -1;
        if (ph != 'B' && ph != 'E')
          continue;
        if (pass)
          see_mark(x, b << 16 | i, ph == 'B');
        count += !pass;
      }
    if (pass)
      continue;
    x->items = ett_large_alloc((count + 1) * sizeof *x->items);
    x->stack = ett_large_alloc((count + 1) * sizeof *x->stack);
    x->lanes = malloc((t->track_count + (size_t)1) * sizeof *x->lanes);
    if (!x->items || !x->stack || !x->lanes)
      return -1;
    for (uint32_t i = 0; i < t->track_count; i++)
      x->lanes[i] = (lane){.last = INT64_MIN, .top = ETT_TRACE_NONE};
  }
  return 0;
}

static int by_mark(const void *a, const void *b) {
  const mark *x = a, *y = b;
  if (x->track != y->track)
    return x->track < y->track ? -1 : 1;
  if (x->ts != y->ts)
    return x->ts < y->ts ? -1 : 1;
  return x->row < y->row ? -1 : x->row > y->row;
}

/* Events may be in any order of time. Those of a track are joined in order of time,
 * except if each end follows its own begin in the file: then slices of a track may
 * overlap. */
static void order_marks(marks *x) {
  bool sorts = false;
  for (uint32_t i = 0; i < x->count; i++) {
    const lane *l = &x->lanes[x->items[i].track];
    if (!l->unordered || !l->nested)
      x->items[i].ts = 0;
    sorts |= l->unordered && l->nested;
  }
  if (sorts)
    qsort(x->items, x->count, sizeof *x->items, by_mark);
}

/* Joins a begin or end event to its partner; returns 1 if it has none or the duration is
 * not valid. */
static int join_mark(marks *x, const mark *at) {
  ett_trace_block *k = &x->t->blocks[at->row >> 16];
  const uint32_t i = at->row & 0xFFFF;
  lane *l = &x->lanes[at->track];
  if (k->ph[i] == 'B') {
    x->stack[x->used] = (struct open){at->row, l->top};
    l->top = x->used++;
    return 0;
  }
  k->ph[i] |= ETT_PH_INVALID;
  const int64_t correlation = k->correlation[i];
  k->correlation[i] = -1; /* from now on the row of its begin */
  if (l->top == ETT_TRACE_NONE)
    return 1;
  const struct open o = x->stack[l->top];
  l->top = o.below;
  ett_trace_block *from = &x->t->blocks[o.row >> 16];
  const uint32_t f = o.row & 0xFFFF;
  int64_t dur;
  if (__builtin_sub_overflow(k->ts[i], from->ts[f], &dur) || dur < 0)
    return 1;
  from->dur[f] = dur;
  from->ph[f] = 'X';
  if (from->correlation[f] < 0)
    from->correlation[f] = correlation;
  if (from->device[f] < 0)
    from->device[f] = k->device[i];
  if (from->stream[f] < 0)
    from->stream[f] = k->stream[i];
  k->correlation[i] = o.row;
  return 0;
}

int ett_pairs_join(ett_trace *t, uint32_t file, uint64_t *unmatched) {
  marks x = {.t = t};
  *unmatched = 0;
  const int status = find_marks(&x, file);
  if (!status) {
    order_marks(&x);
    for (uint32_t i = 0; i < x.count; i++)
      *unmatched += (uint64_t)join_mark(&x, &x.items[i]);
    for (uint32_t i = 0; i < x.used; i++) {
      ett_trace_block *k = &t->blocks[x.stack[i].row >> 16];
      if (k->ph[x.stack[i].row & 0xFFFF] == 'B') {
        k->ph[x.stack[i].row & 0xFFFF] |= ETT_PH_INVALID;
        ++*unmatched;
      }
    }
  }
  free(x.items);
  free(x.stack);
  free(x.lanes);
  return status;
}

/* Flag in the type of an arg of an end event. */
#define OF_END 0x100u

static int by_row(const void *a, const void *b) {
  const ett_trace_arg *x = a, *y = b;
  if (x->row != y->row)
    return x->row < y->row ? -1 : 1;
  return (int)(x->type & OF_END) - (int)(y->type & OF_END);
}

void ett_pairs_join_args(const ett_trace *t) {
  for (uint32_t a = 0; a < t->arg_count; a++) {
    ett_trace_arg *args = t->args[a];
    uint32_t moved = 0, n = 0;
    for (uint32_t i = 0; i < t->arg_lengths[a]; i++) {
      const ett_trace_block *k = &t->blocks[args[i].row >> 16];
      const uint32_t row = args[i].row & 0xFFFF;
      if ((k->ph[row] & 0x7F) != 'E' || k->correlation[row] < 0)
        continue;
      args[i].row = (uint32_t)k->correlation[row];
      args[i].type |= OF_END;
      moved++;
    }
    if (!moved)
      continue;
    qsort(args, t->arg_lengths[a], sizeof *args, by_row);
    for (uint32_t i = 0; i < t->arg_lengths[a]; i++) {
      n -= n && args[n - 1].row == args[i].row;
      args[n] = args[i];
      args[n++].type &= ~OF_END;
    }
    t->arg_lengths[a] = n;
  }
}
