#include "trace/query/group.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/large.h"

static const char *const key_names[] = {
    [ETT_KEY_FILE] = "file",
    [ETT_KEY_RANK] = "rank",
    [ETT_KEY_DEVICE] = "device",
    [ETT_KEY_STREAM] = "stream",
    [ETT_KEY_TRACK] = "track",
    [ETT_KEY_PID] = "pid",
    [ETT_KEY_TID] = "tid",
    [ETT_KEY_PROCESS] = "process",
    [ETT_KEY_THREAD] = "thread",
    [ETT_KEY_NAME] = "name",
    [ETT_KEY_CATEGORY] = "category",
    [ETT_KEY_CLASS] = "class",
    [ETT_KEY_PH] = "ph",
    [ETT_KEY_CORRELATION] = "correlation",
    [ETT_KEY_TS] = "ts",
    [ETT_KEY_DUR] = "dur",
    [ETT_KEY_END] = "end",
    [ETT_KEY_ROW] = "row",
};

int ett_key_find(const char *name) {
  for (size_t i = 0; i < sizeof key_names / sizeof *key_names; i++)
    if (strcmp(key_names[i], name) == 0)
      return (int)i;
  return -1;
}

const char *ett_key_name(ett_key_kind kind) {
  return key_names[kind];
}

static ett_key_value integer(int64_t v) {
  return (ett_key_value){.type = ETT_ARG_INTEGER, .value.integer = v};
}

static ett_key_value text(uint32_t id) {
  if (id == ETT_STRING_NONE)
    return (ett_key_value){.type = ETT_ARG_NONE};
  return (ett_key_value){.type = ETT_ARG_TEXT, .value.text = id};
}

static ett_key_value identity(int64_t v, uint8_t type) {
  if (type == ETT_ID_INTEGER)
    return integer(v);
  if (type == ETT_ID_TEXT)
    return text((uint32_t)v);
  return (ett_key_value){.type = ETT_ARG_NONE};
}

ett_key_value ett_key_of(const ett_trace *t, ett_key key, uint32_t row) {
  const ett_trace_block *b = &t->blocks[row >> 16];
  uint32_t i = row & 0xFFFF;
  const ett_track *w = &t->tracks[b->track[i]];
  const ett_key_value missing = {.type = ETT_ARG_NONE};
  switch (key.kind) {
  case ETT_KEY_FILE:
    return integer((int64_t)b->file + 1);
  case ETT_KEY_RANK:
    return t->files[b->file].has_rank ? integer(t->files[b->file].rank) : missing;
  case ETT_KEY_DEVICE:
    return b->device[i] < 0 ? missing : integer(b->device[i]);
  case ETT_KEY_STREAM:
    return b->stream[i] < 0 ? missing : integer(b->stream[i]);
  case ETT_KEY_TRACK:
    return integer((int64_t)b->track[i] + 1);
  case ETT_KEY_PID:
    return identity(w->pid, w->pid_type);
  case ETT_KEY_TID:
    return identity(w->tid, w->tid_type);
  case ETT_KEY_PROCESS:
    return text(w->process);
  case ETT_KEY_THREAD:
    return text(w->thread);
  case ETT_KEY_NAME:
    return text(b->name[i]);
  case ETT_KEY_CATEGORY:
    return text(t->categories[b->category[i]]);
  case ETT_KEY_CLASS:
    return integer(t->category_class[b->category[i]]);
  case ETT_KEY_PH:
    return integer(b->ph[i] & 0x7F);
  case ETT_KEY_CORRELATION:
    return b->correlation[i] < 0 ? missing : integer(b->correlation[i]);
  case ETT_KEY_TS:
    return integer(b->ts[i]);
  case ETT_KEY_DUR:
    return integer(b->dur[i]);
  case ETT_KEY_END:
    return integer(b->ts[i] + b->dur[i]);
  case ETT_KEY_ROW:
    return integer(row);
  case ETT_KEY_ARG: {
    const ett_trace_arg *a = ett_trace_arg_at(t, key.arg, row);
    return a ? *a : missing;
  }
  }
  return missing;
}

/* Exact: a double does not hold every integer. NaN comes last. */
static int compare_mixed(int64_t a, double b) {
  if (isnan(b) || b >= 0x1p63)
    return -1;
  if (b < -0x1p63)
    return 1;
  const int64_t whole = (int64_t)b;
  const double rest = b - (double)whole;
  if (a != whole)
    return a < whole ? -1 : 1;
  return rest > 0 ? -1 : rest < 0;
}

static int compare_numbers(const ett_key_value *a, const ett_key_value *b) {
  const int x = a->type == ETT_ARG_INTEGER, y = b->type == ETT_ARG_INTEGER;
  if (x && y)
    return a->value.integer < b->value.integer ? -1 : a->value.integer > b->value.integer;
  if (x)
    return compare_mixed(a->value.integer, b->value.number);
  if (y)
    return -compare_mixed(b->value.integer, a->value.number);
  const double p = a->value.number, q = b->value.number;
  return p < q ? -1 : p > q ? 1 : (isnan(p) != 0) - (isnan(q) != 0);
}

/* Missing values first, then numbers, then texts bytewise. */
static int compare_values(const ett_trace *t, const ett_key_value *a,
                          const ett_key_value *b) {
  int x = a->type == ETT_ARG_NONE ? 0 : a->type == ETT_ARG_TEXT ? 2 : 1;
  int y = b->type == ETT_ARG_NONE ? 0 : b->type == ETT_ARG_TEXT ? 2 : 1;
  if (x != y)
    return x - y;
  if (x == 2) {
    if (a->value.text == b->value.text)
      return 0;
    return strcmp(t->strings->items[a->value.text].text,
                  t->strings->items[b->value.text].text);
  }
  return x == 0 ? 0 : compare_numbers(a, b);
}

/* A previous group and a value: the key of a new group. */
struct pair {
  uint32_t group, type;
  uint64_t bits;
};

void ett_groups_free(ett_groups *g) {
  free(g->values);
  free(g->begin);
  free(g->rows);
  memset(g, 0, sizeof *g);
}

typedef struct order {
  const ett_trace *t;
  const ett_key_value *values;
  uint32_t keys;
} order;

static int by_values(const void *a, const void *b, void *context) {
  const order *o = context;
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  for (uint32_t k = 0; k < o->keys; k++) {
    int c = compare_values(o->t, &o->values[(size_t)x * o->keys + k],
                           &o->values[(size_t)y * o->keys + k]);
    if (c)
      return c;
  }
  return x < y ? -1 : x > y;
}

/* The part of a key's value in a row that distinguishes it from other values; *at is the
 * index of an arg in its column, or a nearby hint. */
static inline struct pair value_of(const ett_trace *t, const ett_key *key, uint32_t row,
                                   uint32_t *at) {
  ett_key_value other;
  const ett_key_value *v = &other;
  if (key->kind != ETT_KEY_ARG) {
    other = ett_key_of(t, *key, row);
  } else {
    const ett_trace_arg *items = t->args[key->arg];
    if (*at + 1 < t->arg_lengths[key->arg] && items[*at + 1].row == row) {
      v = &items[++*at];
    } else if ((v = ett_trace_arg_at(t, key->arg, row))) {
      *at = (uint32_t)(v - items);
    } else {
      return (struct pair){.type = ETT_ARG_NONE};
    }
  }
  struct pair p = {.type = v->type};
  if (p.type == ETT_ARG_TEXT)
    p.bits = v->value.text;
  else if (p.type != ETT_ARG_NONE)
    p.bits = (uint64_t)v->value.integer; /* or the bits of a float */
  return p;
}

int64_t ett_group_numbers(uint32_t *group, const ett_trace *t, const ett_selection *s,
                          const ett_key *keys, uint32_t key_count, bool holes) {
  uint32_t groups = 1;
  for (uint32_t k = 0; k < key_count; k++) {
    ett_strings pairs = {0}; /* numbers them densely, one key at a time */
    bool failed = false;
    /* The last pair of each group; values often repeat. */
    struct recent {
      struct pair pair;
      uint32_t number; /* from 1 */
    } recent[64] = {0};
    uint32_t at = 0;
    for (size_t i = 0; i < s->count && !failed; i++) {
      struct pair p = {.type = ETT_ARG_NONE};
      if (s->rows[i] != ETT_TRACE_NONE)
        p = value_of(t, &keys[k], s->rows[i], &at);
      else if (!holes)
        continue;
      p.group = group[i];
      struct recent *r = &recent[p.group % (sizeof recent / sizeof *recent)];
      if (!r->number || r->pair.bits != p.bits || r->pair.group != p.group ||
          r->pair.type != p.type) {
        r->pair = p;
        r->number = ett_strings_put(&pairs, (const char *)&p, sizeof p, 0, NULL) + 1;
        failed = r->number == 0;
      }
      group[i] = r->number - 1;
    }
    groups = pairs.count;
    ett_strings_free(&pairs);
    if (failed)
      return -1;
  }
  return groups;
}

/* Fills the groups' values, in order, and counts their rows: counts[i + 1] is the end of
 * group i. place[g] becomes the new index of group g. */
static void order_groups(ett_groups *out, uint32_t groups, ett_key_value *values,
                         uint32_t *place, uint32_t *permutation, const ett_trace *t) {
  const uint32_t keys = out->key_count;
  for (uint32_t g = 0; g < groups; g++)
    permutation[g] = g;
  order o = {t, values, keys};
  if (groups)
    qsort_r(permutation, groups, sizeof *permutation, by_values, &o);
  for (uint32_t i = 0; i < groups; i++) {
    out->begin[i + 1] = out->begin[i] + place[permutation[i]];
    memcpy(&out->values[(size_t)i * keys], &values[(size_t)permutation[i] * keys],
           keys * sizeof *values);
  }
  for (uint32_t i = 0; i < groups; i++)
    place[permutation[i]] = i;
  out->count = groups;
}

int ett_group(ett_groups *out, const ett_trace *t, const ett_selection *s,
              const ett_key *keys, uint32_t key_count) {
  memset(out, 0, sizeof *out);
  out->key_count = key_count;
  int status = -1;
  size_t rows = s->count ? s->count : 1, present = 0;
  uint32_t *group = calloc(rows, sizeof *group), *place = NULL, *permutation = NULL;
  ett_key_value *values = NULL;
  int64_t found = group ? ett_group_numbers(group, t, s, keys, key_count, false) : -1;
  if (found < 0)
    goto done;
  size_t groups = (size_t)found;
  out->begin = calloc(groups + 1, sizeof *out->begin);
  out->rows = ett_large_alloc(rows * sizeof *out->rows);
  values = malloc((groups * key_count + 1) * sizeof *values);
  out->values = malloc((groups * key_count + 1) * sizeof *values);
  permutation = malloc((groups + 1) * sizeof *permutation);
  place = calloc(groups + 1, sizeof *place); /* first the number of rows */
  if (!out->begin || !out->rows || !values || !out->values || !permutation || !place)
    goto done;
  for (size_t i = 0; i < s->count; i++) {
    if (s->rows[i] == ETT_TRACE_NONE)
      continue;
    present++;
    if (place[group[i]]++)
      continue; /* values already set */
    for (uint32_t k = 0; k < key_count; k++)
      values[(size_t)group[i] * key_count + k] = ett_key_of(t, keys[k], s->rows[i]);
  }
  order_groups(out, present ? (uint32_t)groups : 0, values, place, permutation, t);
  size_t *next = out->begin;
  for (size_t i = 0; i < s->count; i++)
    if (s->rows[i] != ETT_TRACE_NONE)
      out->rows[next[place[group[i]]]++] = s->rows[i];
  for (uint32_t i = out->count; i > 0; i--)
    next[i] = next[i - 1];
  next[0] = 0;
  status = 0;
done:
  free(group);
  free(place);
  free(permutation);
  free(values);
  if (status)
    ett_groups_free(out);
  return status;
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

void ett_stats_of(ett_stats *out, const ett_trace *t, const uint32_t *rows, size_t count,
                  int64_t *scratch, int sort) {
  memset(out, 0, sizeof *out);
  size_t n = 0;
  int64_t least = INT64_MAX, most = INT64_MIN;
  __int128_t total = 0;
  for (size_t i = 0; i < count; i++) {
    if (rows[i] == ETT_TRACE_NONE)
      continue;
    int64_t dur = scratch[n++] = ETT_ROW(t, dur, rows[i]);
    total += dur;
    if (dur < least)
      least = dur;
    if (dur > most)
      most = dur;
  }
  out->count = (int64_t)n;
  if (!n)
    return;
  out->total = ett_ticks_within(total);
  out->min = least;
  out->max = most;
  out->mean = (double)total / (double)n;
  double sum = 0;
  for (size_t i = 0; i < n; i++) {
    double d = (double)scratch[i] - out->mean;
    sum += d * d;
  }
  out->std = sqrt(sum / (double)n);
  if (sort)
    qsort(scratch, n, sizeof *scratch, by_value);
}

int64_t ett_percentile(const int64_t *sorted, size_t count, double percent) {
  if (!count)
    return 0;
  double place = ceil(percent * (double)count / 100.0); /* exact for whole percents */
  size_t i = place < 1 ? 0 : (size_t)place - 1;
  return sorted[i < count ? i : count - 1];
}
