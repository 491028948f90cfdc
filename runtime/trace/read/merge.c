/* Merges the parts step by step; each step returns 0, or -1 with *err. Steps: path, kind,
 * rank and clock of the files; strings, categories, tracks; rows; warnings; pairs of
 * begin and end events; one time axis. */
#include "trace/read/merge.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "base/large.h"
#include "io/utf8.h"
#include "trace/read/walk.h"
#include "trace/table/pairs.h"

/* Where the rows and args of a part lie in the trace. */
typedef struct part_place {
  uint32_t block, blocks; /* its first block and their number */
  uint32_t *args;         /* index of its first arg of each column */
  uint64_t rows;
  bool pairs; /* some of its rows are begin or end events */
} part_place;

typedef struct merge {
  ett_trace *t;
  ett_load *load;
  const ett_sources *sources;
  uint32_t **string_map;   /* per lexicon; NULL: identity */
  uint16_t **category_map; /* per lexicon */
  uint32_t **part_tracks;  /* per part: tracks of the trace */
  uint32_t category_capacity, warning_capacity;
  uint16_t no_category;
  uint16_t *line_category; /* per track: category of rows without one */
  int32_t *line_device;    /* per track: device of its rows, or -1 */
  uint8_t *zero_bad;       /* per file: its rows at ts 0 are invalid */
  part_place *places;      /* per part */
  ett_err *err;
} merge;

static int no_memory(const merge *m) {
  return ett_err_set(m->err, ETT_ERR_MEMORY, "out of memory");
}

/* ---- files ---- */

__attribute__((format(printf, 7, 8))) static int
merge_warn(merge *m, uint32_t file, const char *code, uint64_t count, int has_offset,
           uint64_t offset, const char *format, ...) {
  ett_trace *t = m->t;
  char text[256];
  if (ett_grow(&t->warnings, t->warning_count, &m->warning_capacity, 16,
               sizeof *t->warnings))
    return no_memory(m);
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  ett_trace_warning *w = &t->warnings[t->warning_count];
  *w = (ett_trace_warning){file, has_offset, offset, count, code, strdup(text)};
  if (!w->message)
    return no_memory(m);
  t->warning_count++;
  return 0;
}

/* An integer member of an object's JSON text: returns 1 if present. */
static int member_integer(const char *object, const char *key, int64_t *value) {
  ett_walk w = {.rest = slice_of(object)};
  slice name, v;
  while (ett_walk_next(&w, &name, &v)) {
    const bool quoted = *v.at == '"';
    char *end;
    if (!slice_is(name, key))
      continue;
    *value = strtoll(v.at + quoted, &end, 10);
    return end != v.at + quoted && (!quoted || *end == '"');
  }
  return 0;
}

static int describe_file(merge *m, uint32_t i, ett_trace_part *first, uint32_t parts) {
  ett_trace_file *f = &m->t->files[i];
  const ett_source *s = &m->sources->items[i];
  f->path = strdup(s->path);
  if (!f->path)
    return no_memory(m);
  f->kind = parts && first->kind != ETT_TRACE_AUTO ? first->kind : s->kind;
  f->bytes = s->bytes;
  f->uncompressed_bytes = m->load->files[i].uncompressed_bytes;
  f->rank_source = "unknown";
  uint32_t n = 0;
  for (uint32_t k = 0; k < parts; k++)
    n += first[k].member_count;
  f->members = malloc((n ? n : 1) * sizeof *f->members);
  if (!f->members)
    return no_memory(m);
  for (uint32_t k = 0; k < parts; k++) {
    for (uint32_t j = 0; j < first[k].member_count; j++)
      f->members[f->member_count++] = first[k].members[j];
    first[k].member_count = 0;
  }
  for (uint32_t k = 0; k < f->member_count; k++) {
    const ett_member *x = &f->members[k];
    if (strcmp(x->key, "distributedInfo") == 0) {
      if (member_integer(x->value, "rank", &f->rank)) {
        f->has_rank = true;
        f->rank_source = "distributedInfo";
      }
      f->has_world = member_integer(x->value, "world_size", &f->world_size);
    } else if (strcmp(x->key, "baseTimeNanoseconds") == 0) {
      f->base_ns = strtoll(x->value + (x->value[0] == '"'), NULL, 10);
    }
  }
  const char *source = f->has_rank ? NULL : ett_rank_of_path(s->path, &f->rank);
  if (source) {
    f->has_rank = true;
    f->rank_source = source;
  }
  return 0;
}

#define HOUR 3600

/* Rows at ts 0 of a file are invalid if its other rows are hours later. */
static int zero_is_damage(const merge *m, uint32_t file) {
  int64_t least = INT64_MAX;
  const ett_trace *t = m->t;
  for (uint32_t b = 0; b < t->block_count; b++)
    if (t->blocks[b].file == file)
      for (uint32_t i = 0; i < t->blocks[b].count; i++)
        if (t->blocks[b].ts[i] > 0 && t->blocks[b].ts[i] < least)
          least = t->blocks[b].ts[i];
  return least != INT64_MAX && least / t->ticks_per_second >= HOUR;
}

static int warn_of_file(merge *m, uint32_t i, ett_trace_part *first, uint32_t parts) {
  const ett_source *s = &m->sources->items[i];
  const ett_load_file *f = &m->load->files[i];
  if (s->ignored)
    return merge_warn(m, i, "ignored_file", 1, 0, 0, "ignored: %s", s->ignored);
  if (f->failed)
    return merge_warn(m, i, "unreadable_file", 1, 0, 0, "%s", f->err.message);
  if (!ett_load_saw_events(m->load, i))
    return merge_warn(m, i, "ignored_file", 1, 0, 0, "ignored: it has no traceEvents");
  if (f->fault[0] && merge_warn(m, i, "bad_compression", 1, 1, f->uncompressed_bytes,
                                "%s; the data before it was read", f->fault))
    return -1;
  for (int d = 0; d < ETT_DAMAGE_COUNT; d++) {
    uint64_t count = 0, offset = UINT64_MAX;
    for (uint32_t k = 0; k < parts; k++) {
      count += first[k].damage[d].count;
      if (first[k].damage[d].count && first[k].damage[d].offset < offset)
        offset = first[k].damage[d].offset;
    }
    if (!count)
      continue;
    if (d == ETT_DAMAGE_ZERO_TS && !(m->zero_bad[i] = (uint8_t)zero_is_damage(m, i)))
      continue;
    if (merge_warn(m, i, ett_trace_damage_name(d), count, 1, offset, "%s",
                   ett_trace_damage_text(d)))
      return -1;
  }
  const ett_trace_file *t = &m->t->files[i];
  if (t->event_count == 0 && merge_warn(m, i, "no_events", 1, 0, 0, "it holds no events"))
    return -1;
  if (!t->has_rank &&
      merge_warn(
          m, i, "unknown_rank", 1, 0, 0,
          "neither distributedInfo nor the name of the file or its folder has its rank"))
    return -1;
  for (uint32_t k = 0; k < i; k++)
    if (t->has_rank && m->t->files[k].has_rank && m->t->files[k].rank == t->rank &&
        m->t->files[k].event_count)
      return merge_warn(m, i, "duplicate_rank", 1, 0, 0,
                        "rank %lld is also the rank of %s", (long long)t->rank,
                        m->t->files[k].path);
  return 0;
}

typedef int file_step(merge *m, uint32_t i, ett_trace_part *first, uint32_t parts);

/* Runs the step for each file with its parts (none for an ignored file). */
static int each_file(merge *m, file_step *step) {
  ett_load *l = m->load;
  uint32_t from = 0;
  for (uint32_t i = 0; i < m->sources->count; i++) {
    uint32_t to = from;
    while (to < l->part_count && l->parts[to].file == i && !m->sources->items[i].ignored)
      to++;
    if (step(m, i, &l->parts[from], to - from))
      return -1;
    from = to;
  }
  return 0;
}

/* ---- strings and categories ---- */

typedef struct seen {
  uint64_t first;
  uint32_t lexicon, id;
} seen;

static int by_first(const void *a, const void *b) {
  const seen *x = a, *y = b;
  if (x->first != y->first)
    return x->first < y->first ? -1 : 1;
  if (x->lexicon != y->lexicon)
    return x->lexicon < y->lexicon ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Replaces invalid UTF-8 bytes by '?', without changing the length. */
static void heal_text(ett_string *s) {
  char *text = (char *)(uintptr_t)s->text;
  for (size_t i = 0; i < s->length; i++) {
    i += ett_utf8_valid_prefix(text + i, s->length - i);
    if (i < s->length)
      text[i] = '?';
  }
}

static int merge_strings(merge *m) {
  ett_load *l = m->load;
  ett_strings *out = m->t->strings;
  m->string_map = calloc(l->lexicon_count, sizeof *m->string_map);
  if (!m->string_map)
    return no_memory(m);
  uint32_t filled = 0, last = 0;
  size_t total = 0;
  bool dirty = false;
  for (uint32_t i = 0; i < l->lexicon_count; i++) {
    if (!l->lexicons[i].strings.count)
      continue;
    filled++;
    last = i;
    total += l->lexicons[i].strings.count;
    dirty |= l->lexicons[i].dirty;
    for (uint32_t k = 0; l->lexicons[i].dirty && k < l->lexicons[i].strings.count; k++)
      heal_text(&l->lexicons[i].strings.items[k]);
  }
  if (filled == 1 && !dirty) { /* healed texts may be equal */
    *out = l->lexicons[last].strings;
    memset(&l->lexicons[last].strings, 0, sizeof *out);
  } else if (filled) {
    seen *all = malloc(total * sizeof *all);
    if (!all)
      return no_memory(m);
    size_t n = 0;
    for (uint32_t i = 0; i < l->lexicon_count; i++) {
      const ett_strings *s = &l->lexicons[i].strings;
      for (uint32_t k = 0; k < s->count; k++)
        all[n++] = (seen){s->items[k].first, i, k};
      if (s->count && !(m->string_map[i] = malloc(s->count * sizeof **m->string_map))) {
        free(all);
        return no_memory(m);
      }
    }
    qsort(all, n, sizeof *all, by_first);
    for (size_t k = 0; k < n; k++) {
      const ett_string *s = &l->lexicons[all[k].lexicon].strings.items[all[k].id];
      uint32_t id = ett_strings_put(out, s->text, s->length, s->first, NULL);
      if (id == ETT_STRING_NONE) {
        free(all);
        return no_memory(m);
      }
      m->string_map[all[k].lexicon][all[k].id] = id;
    }
    free(all);
  }
  return 0;
}

static uint32_t merge_text(const merge *m, const ett_lexicon *l, uint32_t id) {
  if (id == ETT_STRING_NONE)
    return id;
  const uint32_t *map = m->string_map[l - m->load->lexicons];
  return map ? map[id] : id;
}

/* The number of a category of the trace, created if new; ETT_CATEGORY_NONE if none is
 * left or memory runs out. */
static uint16_t category(merge *m, const char *text, size_t length,
                         ett_trace_class class) {
  ett_trace *t = m->t;
  uint32_t id = ett_strings_put(t->strings, text, length, UINT64_MAX, NULL);
  if (id == ETT_STRING_NONE)
    return ETT_CATEGORY_NONE;
  for (uint32_t i = 0; i < t->category_count; i++)
    if (t->categories[i] == id && t->category_class[i] == class)
      return (uint16_t)i;
  uint32_t capacity = m->category_capacity;
  if (t->category_count == ETT_CATEGORY_NONE)
    return m->no_category;
  if (ett_grow(&t->categories, t->category_count, &capacity, 64, sizeof *t->categories) ||
      ett_grow(&t->category_class, t->category_count, &m->category_capacity, 64, 1))
    return ETT_CATEGORY_NONE;
  t->categories[t->category_count] = id;
  t->category_class[t->category_count] = (uint8_t) class;
  return (uint16_t)t->category_count++;
}

static int merge_categories(merge *m) {
  ett_load *l = m->load;
  m->no_category = category(m, "", 0, ETT_CLASS_OTHER);
  m->category_map = calloc(l->lexicon_count, sizeof *m->category_map);
  if (!m->category_map || m->no_category == ETT_CATEGORY_NONE)
    return no_memory(m);
  for (uint32_t i = 0; i < l->lexicon_count; i++) {
    const ett_lexicon *x = &l->lexicons[i];
    if (!x->categories.count)
      continue;
    m->category_map[i] = malloc(x->categories.count * sizeof **m->category_map);
    if (!m->category_map[i])
      return no_memory(m);
    for (uint32_t k = 0; k < x->categories.count; k++) {
      heal_text(&x->categories.items[k]);
      uint16_t id = category(m, x->categories.items[k].text,
                             x->categories.items[k].length, x->category_class[k]);
      if (id == ETT_CATEGORY_NONE)
        return no_memory(m);
      m->category_map[i][k] = id;
    }
  }
  return 0;
}

/* ---- tracks ---- */

static int number_behind(const char *text, const char *mark) {
  const char *p = strstr(text, mark);
  if (!p || !isdigit((unsigned char)p[strlen(mark)]))
    return -1;
  long v = strtol(p + strlen(mark), NULL, 10);
  return v >= 0 && v <= INT16_MAX ? (int)v : -1;
}

/* Whether the kernels of a track's process are on lines of streams, as on a GPU. */
static int has_streams(const ett_trace *t, const ett_track *x) {
  for (uint32_t i = 0; i < t->track_count; i++) {
    const ett_track *y = &t->tracks[i];
    if (y->file == x->file && y->pid == x->pid && y->pid_type == x->pid_type &&
        y->thread != ETT_STRING_NONE &&
        strncmp(t->strings->items[y->thread].text, "Stream #", 8) == 0)
      return 1;
  }
  return 0;
}

/* XLA writes no categories; the class follows from the device's line. On a GPU the line
 * of XLA ops repeats the kernels of the streams. */
static ett_trace_class line_class(const ett_trace *t, const ett_track *x,
                                  const char *process, const char *thread) {
  if (strncmp(process, "/device:", 8) != 0)
    return ETT_CLASS_HOST;
  if (strcmp(thread, "XLA Ops") == 0)
    return has_streams(t, x) ? ETT_CLASS_DEVICE_ANNOTATION : ETT_CLASS_KERNEL;
  if (strcmp(thread, "XLA Modules") == 0)
    return ETT_CLASS_DEVICE_MODULE;
  if (strcmp(thread, "Steps") == 0)
    return ETT_CLASS_DEVICE_STEP;
  if (strcmp(thread, "Async XLA Ops") == 0)
    return ETT_CLASS_DEVICE_ASYNC;
  if (strncmp(thread, "Stream #", 8) == 0) {
    const char *what = strchr(thread, '(');
    if (!what || strstr(what, "Compute") || strstr(what, "Kernel")) /* Kernel: ROCm */
      return ETT_CLASS_KERNEL;
    if (strncmp(what, "(Memcpy", 7) == 0)
      return ETT_CLASS_MEMCPY;
    if (strncmp(what, "(Memset", 7) == 0)
      return ETT_CLASS_MEMSET;
    return ETT_CLASS_KERNEL;
  }
  return ETT_CLASS_DEVICE_ANNOTATION;
}

/* Adds the tracks of a part to those of its file, which begin at number base. */
static int add_tracks(merge *m, uint32_t part, ett_trace_part *all, uint32_t base) {
  const ett_trace_part *p = &m->load->parts[part];
  if (!p->track_count)
    return 0;
  m->part_tracks[part] = malloc(p->track_count * sizeof **m->part_tracks);
  if (!m->part_tracks[part])
    return -1;
  for (uint32_t k = 0; k < p->track_count; k++) {
    const ett_track *x = &p->tracks[k];
    int64_t pid = x->pid, tid = x->tid;
    if (x->pid_type == ETT_ID_TEXT)
      pid = merge_text(m, p->lexicon, (uint32_t)pid);
    if (x->tid_type == ETT_ID_TEXT)
      tid = merge_text(m, p->lexicon, (uint32_t)tid);
    uint32_t id = ett_part_track(all, pid, x->pid_type, tid, x->tid_type);
    if (id == ETT_TRACE_NONE)
      return -1;
    ett_track *y = &all->tracks[id];
    y->events += x->events;
    if (x->process != ETT_STRING_NONE)
      y->process = merge_text(m, p->lexicon, x->process);
    if (x->thread != ETT_STRING_NONE)
      y->thread = merge_text(m, p->lexicon, x->thread);
    m->part_tracks[part][k] = base + id;
  }
  return 0;
}

/* Tracks of one file, whose parts are from ... to; `all` is only used for its table. */
static int file_tracks(merge *m, uint32_t from, uint32_t to, ett_trace_part *all) {
  ett_trace *t = m->t;
  uint32_t base = t->track_count;
  for (uint32_t i = from; i < to; i++)
    if (add_tracks(m, i, all, base))
      return -1;
  for (uint32_t k = 0, n = all->track_count; k < n; k++) {
    const ett_track x = all->tracks[k];
    if (x.process != ETT_STRING_NONE)
      continue;
    uint32_t owner = ett_part_track(all, x.pid, x.pid_type, 0, ETT_ID_NONE);
    if (owner == ETT_TRACE_NONE)
      return -1;
    all->tracks[k].process = all->tracks[owner].process;
  }
  if (!all->track_count)
    return 0;
  ett_track *grown =
      realloc(t->tracks, ((size_t)base + all->track_count) * sizeof *grown);
  if (!grown)
    return -1;
  t->tracks = grown;
  memcpy(t->tracks + base, all->tracks, all->track_count * sizeof *grown);
  t->track_count = base + all->track_count;
  return 0;
}

/* Whether a track comes from PyTorch's profiler without Kineto, whose rows have no
 * category. */
static int is_cpu_functions(const ett_trace *t, const ett_track *x) {
  return x->pid_type == ETT_ID_TEXT &&
         strcmp(t->strings->items[x->pid].text, "CPU functions") == 0;
}

/* Sets the category of rows without one. In an XLA trace, sets the device of each line's
 * rows. */
static int merge_lines(merge *m) {
  const ett_trace *t = m->t;
  uint32_t n = t->track_count ? t->track_count : 1;
  m->line_category = malloc(n * sizeof *m->line_category);
  m->line_device = malloc(n * sizeof *m->line_device);
  if (!m->line_category || !m->line_device)
    return no_memory(m);
  for (uint32_t i = 0; i < t->track_count; i++) {
    const ett_track *x = &t->tracks[i];
    ett_trace_kind kind = m->sources->items[x->file].kind;
    m->line_category[i] = m->no_category;
    m->line_device[i] = -1;
    if (is_cpu_functions(t, x) &&
        (m->line_category[i] = category(m, "cpu_op", 6, ETT_CLASS_CPU_OP)) ==
            ETT_CATEGORY_NONE)
      return no_memory(m);
    if (kind != ETT_TRACE_TPU_JSON && kind != ETT_TRACE_XPLANE)
      continue;
    const char *process =
        x->process == ETT_STRING_NONE ? "" : t->strings->items[x->process].text;
    const char *thread =
        x->thread == ETT_STRING_NONE ? "" : t->strings->items[x->thread].text;
    m->line_device[i] = number_behind(process, "TPU:");
    if (m->line_device[i] < 0)
      m->line_device[i] = number_behind(process, "GPU:");
    m->line_category[i] =
        category(m, thread, strlen(thread), line_class(t, x, process, thread));
    if (m->line_category[i] == ETT_CATEGORY_NONE)
      return no_memory(m);
  }
  return 0;
}

static int merge_tracks(merge *m) {
  const ett_load *l = m->load;
  for (uint32_t from = 0, to; from < l->part_count; from = to) {
    ett_trace_part all;
    for (to = from; to < l->part_count && l->parts[to].file == l->parts[from].file;)
      to++;
    int status = ett_part_init(&all, l->parts[from].file, 0, NULL) ||
                 file_tracks(m, from, to, &all);
    ett_part_free(&all);
    if (status)
      return no_memory(m);
  }
  return merge_lines(m);
}

/* ---- rows and times ---- */

/* Joins the begin and end events of a file. */
static int join_pairs(merge *m, uint32_t file) {
  uint64_t unmatched;
  if (ett_pairs_join(m->t, file, &unmatched))
    return no_memory(m);
  if (!unmatched)
    return 0;
  return merge_warn(m, file, ett_trace_damage_name(ETT_DAMAGE_UNMATCHED_BEGIN), unmatched,
                    0, 0, "%s", ett_trace_damage_text(ETT_DAMAGE_UNMATCHED_BEGIN));
}

static int merge_pairs(merge *m) {
  const ett_load *l = m->load;
  bool any = false;
  for (uint32_t i = 0, next; i < l->part_count; i = next) {
    bool pairs = false;
    for (next = i; next < l->part_count && l->parts[next].file == l->parts[i].file;
         next++)
      pairs |= m->places[next].pairs;
    any |= pairs;
    if (pairs && join_pairs(m, l->parts[i].file))
      return -1;
  }
  if (any)
    ett_pairs_join_args(m->t);
  return 0;
}

/* Translates the numbers in the rows of a block; counts its classes. */
static void translate_rows(const merge *m, uint32_t part, uint32_t block) {
  const ett_trace *t = m->t;
  const ett_trace_block k = t->blocks[block];
  const ett_load *l = m->load;
  const ett_trace_part *p = &l->parts[part];
  const uint32_t *track = m->part_tracks[part];
  const uint32_t *string = p->lexicon ? m->string_map[p->lexicon - l->lexicons] : NULL;
  const uint16_t *cat = p->lexicon ? m->category_map[p->lexicon - l->lexicons] : NULL;
  uint32_t counts[ETT_CLASS_COUNT] = {0}; /* apart: other threads write beside */
  bool pairs = false;
  for (uint32_t r = 0; r < k.count; r++) {
    const uint32_t w = k.track[r] = track[k.track[r]];
    if (string)
      k.name[r] = string[k.name[r]];
    const uint16_t c = k.category[r];
    k.category[r] = c == ETT_CATEGORY_NONE ? m->line_category[w] : cat[c];
    counts[t->category_class[k.category[r]]]++;
    pairs |= k.ph[r] == 'B' || (k.ph[r] & 0x7F) == 'E';
    if (m->line_device[w] >= 0) { /* XLA: the process is the device */
      if (k.device[r] < 0)
        k.device[r] = (int16_t)m->line_device[w];
      if (k.stream[r] < 0 && t->tracks[w].tid_type == ETT_ID_INTEGER)
        k.stream[r] = (int32_t)t->tracks[w].tid;
    }
  }
  part_place *place = &m->places[part];
  place->rows += k.count;
  place->pairs |= pairs;
  memcpy(t->class_starts + ((size_t)block + 1) * ETT_CLASS_COUNT, counts, sizeof counts);
}

/* Moves the blocks and args of a part to their places in the trace. */
static void move_part(void *context, uint32_t i) {
  const merge *m = context;
  const ett_trace *t = m->t;
  ett_trace_part *p = &m->load->parts[i];
  const part_place *place = &m->places[i];
  for (uint32_t b = 0; b < place->blocks; b++) {
    t->blocks[place->block + b] = p->blocks[b];
    translate_rows(m, i, place->block + b);
  }
  p->block_count = 0;
  for (uint32_t a = 0; p->args && a < t->arg_count; a++) {
    ett_args_column *c = &p->args[a];
    for (uint32_t k = 0; k < c->count; k++) {
      ett_trace_arg *arg = &t->args[a][place->args[a] + k];
      *arg = c->items[k];
      arg->row += place->block << 16;
      if (arg->type == ETT_ARG_TEXT)
        arg->value.text = merge_text(m, p->lexicon, arg->value.text);
    }
    free(c->items);
    memset(c, 0, sizeof *c);
  }
}

/* Places for the blocks and args of all parts. */
static int make_places(merge *m) {
  const ett_load *l = m->load;
  ett_trace *t = m->t;
  size_t blocks = 0, columns = t->arg_count ? t->arg_count : 1;
  for (uint32_t i = 0; i < l->part_count; i++)
    blocks += l->parts[i].block_count;
  if (blocks > 65535)
    return ett_err_set(m->err, ETT_ERR_LIMIT, "more than %u events", 65535u * 65536u);
  t->blocks = malloc((blocks ? blocks : 1) * sizeof *t->blocks);
  t->args = calloc(columns, sizeof *t->args);
  t->arg_lengths = calloc(columns, sizeof *t->arg_lengths);
  t->arg_hints = calloc(columns, sizeof *t->arg_hints);
  t->class_starts = calloc((blocks + 1) * ETT_CLASS_COUNT, sizeof *t->class_starts);
  m->places = calloc(l->part_count + 1, sizeof *m->places);
  if (!t->blocks || !t->args || !t->arg_lengths || !t->arg_hints || !t->class_starts ||
      !m->places)
    return no_memory(m);
  for (uint32_t i = 0; i < l->part_count; i++) {
    const ett_trace_part *p = &l->parts[i];
    part_place *place = &m->places[i];
    if (!(place->args = calloc(columns, sizeof *place->args)))
      return no_memory(m);
    place->block = t->block_count;
    place->blocks = p->block_count;
    t->block_count += p->block_count;
    for (uint32_t a = 0; p->args && a < t->arg_count; a++) {
      place->args[a] = t->arg_lengths[a];
      t->arg_lengths[a] += p->args[a].count;
    }
  }
  for (uint32_t a = 0; a < t->arg_count; a++)
    if (t->arg_lengths[a] &&
        !(t->args[a] = ett_large_alloc(t->arg_lengths[a] * sizeof *t->args[a])))
      return no_memory(m);
  return 0;
}

/* Moves the blocks and args of the parts to the trace, and translates their numbers. */
static int merge_rows(merge *m) {
  const ett_load *l = m->load;
  ett_trace *t = m->t;
  if (make_places(m)) {
    t->block_count = 0; /* the parts still own the blocks */
    return -1;
  }
  ett_workers_run(m->t->workers, l->part_count, move_part, m, NULL);
  for (uint32_t i = 0; i < l->part_count; i++) {
    const part_place *place = &m->places[i];
    t->files[l->parts[i].file].event_count += place->rows;
    t->files[l->parts[i].file].seen_count += l->parts[i].seen;
    t->event_count += place->rows;
  }
  for (size_t i = ETT_CLASS_COUNT; i < (t->block_count + (size_t)1) * ETT_CLASS_COUNT;
       i++)
    t->class_starts[i] += t->class_starts[i - ETT_CLASS_COUNT];
  return 0;
}

typedef struct times {
  const merge *m;
  int64_t *shift; /* per file: ticks to add */
  int64_t *found; /* per block: its first start, then its last end */
  int64_t first;
} times;

/* Shifts the rows of a block to the common clock; finds the first start. */
static void shift_rows(void *context, uint32_t b) {
  const times *x = context;
  const merge *m = x->m;
  const ett_trace_block k = m->t->blocks[b];
  const int64_t shift = x->shift[k.file];
  const bool zero_bad = m->zero_bad[k.file];
  int64_t first = INT64_MAX;
  for (uint32_t i = 0; i < k.count; i++) {
    int64_t end;
    if (k.ts[i] == 0 && zero_bad)
      k.ph[i] |= ETT_PH_INVALID;
    if (__builtin_add_overflow(k.ts[i], shift, &k.ts[i]) ||
        __builtin_add_overflow(k.ts[i], k.dur[i], &end))
      k.ph[i] |= ETT_PH_INVALID;
    if (!(k.ph[i] & ETT_PH_INVALID) && k.ph[i] == 'X' && k.ts[i] < first)
      first = k.ts[i];
  }
  x->found[b] = first;
}

/* Counts the times of a block from the first start of all; finds the last end. */
static void subtract_first(void *context, uint32_t b) {
  const times *x = context;
  const ett_trace_block k = x->m->t->blocks[b];
  int64_t last = INT64_MIN;
  for (uint32_t i = 0; i < k.count; i++) {
    int64_t end;
    if (__builtin_sub_overflow(k.ts[i], x->first, &k.ts[i]) ||
        __builtin_add_overflow(k.ts[i], k.dur[i], &end)) {
      k.ts[i] = 0;
      k.dur[i] = 0;
      k.ph[i] |= ETT_PH_INVALID;
      continue;
    }
    if (k.ph[i] == 'X' && end > last)
      last = end;
  }
  x->found[b] = last;
}

/* The first event of all becomes tick 0. */
static void align_times(const merge *m, times *x, int64_t base) {
  ett_trace *t = m->t;
  ett_workers_run(m->t->workers, t->block_count, shift_rows, x, NULL);
  x->first = INT64_MAX;
  for (uint32_t b = 0; b < t->block_count; b++)
    x->first = x->found[b] < x->first ? x->found[b] : x->first;
  if (x->first == INT64_MAX)
    x->first = 0;
  ett_workers_run(m->t->workers, t->block_count, subtract_first, x, NULL);
  int64_t last = INT64_MIN;
  for (uint32_t b = 0; b < t->block_count; b++)
    last = x->found[b] > last ? x->found[b] : last;
  t->start = 0;
  t->stop = last == INT64_MIN ? 0 : last;
  const int64_t first_ns = x->first / (t->ticks_per_second / 1000000000);
  if (__builtin_add_overflow(base, first_ns, &t->origin_ns)) /* base is damaged */
    t->origin_ns = 0;
}

/* The start of the first valid row of a file, or with `all` the earliest one, in
 * nanoseconds from its base; INT64_MAX without such a row. */
static int64_t start_of(const merge *m, uint32_t file, bool all) {
  const ett_trace *t = m->t;
  const int64_t per_ns = t->ticks_per_second / 1000000000;
  int64_t least = INT64_MAX;
  for (uint32_t b = 0; b < t->block_count; b++) {
    const ett_trace_block *k = &t->blocks[b];
    for (uint32_t i = 0; k->file == file && i < k->count; i++) {
      if (k->ph[i] & ETT_PH_INVALID || (k->ts[i] == 0 && m->zero_bad[file]))
        continue;
      if (!all)
        return k->ts[i] / per_ns;
      least = k->ts[i] < least ? k->ts[i] : least;
    }
  }
  return least == INT64_MAX ? least : least / per_ns;
}

/* Whether a file's times count from 1970, or from a start of its own. */
typedef enum origin { NO_ROWS, ABSOLUTE, RELATIVE } origin;

static origin origin_of(const merge *m, uint32_t i) {
  const int64_t base = m->t->files[i].base_ns > 0 ? m->t->files[i].base_ns : 0;
  const int64_t start = m->t->files[i].event_count ? start_of(m, i, false) : INT64_MAX;
  if (start == INT64_MAX)
    return NO_ROWS;
  return base >= ETT_TRACE_EPOCH_NS || start >= ETT_TRACE_EPOCH_NS - base ? ABSOLUTE
                                                                          : RELATIVE;
}

/* The earliest base time of the files of an origin, and their earliest start; both
 * INT64_MAX if there is none. */
static void find_first(const merge *m, const origin *origins, origin which, int64_t *base,
                       int64_t *first) {
  *base = *first = INT64_MAX;
  for (uint32_t i = 0; i < m->t->file_count; i++) {
    const int64_t own = m->t->files[i].base_ns;
    int64_t start;
    if (origins[i] != which)
      continue;
    *base = own < *base ? own : *base;
    if (!__builtin_add_overflow(own, start_of(m, i, true), &start))
      *first = start < *first ? start : *first;
  }
}

/* The shift of each file to the earliest base time of all, which is returned in *base. If
 * some files have absolute times, files with times of their own begin with the first of
 * these. */
static int find_shifts(merge *m, int64_t *shift, int64_t *base) {
  const ett_trace *t = m->t;
  const int64_t per_ns = t->ticks_per_second / 1000000000;
  origin *origins = calloc(t->file_count + (size_t)1, sizeof *origins);
  if (!origins)
    return no_memory(m);
  uint32_t counts[3] = {0};
  for (uint32_t i = 0; i < t->file_count; i++)
    counts[origins[i] = origin_of(m, i)]++;
  const bool mixed = counts[ABSOLUTE] && counts[RELATIVE];
  int64_t first = 0, other_base, other_first; /* first: GCC 14 sees no value without 0 */
  find_first(m, origins, RELATIVE, &other_base, &other_first);
  if (counts[ABSOLUTE])
    find_first(m, origins, ABSOLUTE, base, &first);
  else
    *base = counts[RELATIVE] ? other_base : 0;
  int status = 0;
  for (uint32_t i = 0; !status && i < t->file_count; i++) {
    const bool other = mixed && origins[i] == RELATIVE;
    int64_t ns = 0;
    if (origins[i] == NO_ROWS)
      continue;
    if (__builtin_sub_overflow(t->files[i].base_ns, other ? other_first : *base, &ns) ||
        (other && __builtin_add_overflow(ns, first - *base, &ns)) ||
        __builtin_mul_overflow(ns, per_ns, &shift[i]))
      shift[i] = 0;
    else if (!other)
      continue;
    status = merge_warn(m, i, "clock_mismatch", 1, 0, 0,
                        "its clock has another origin than the other files; its times "
                        "cannot be compared with theirs");
  }
  free(origins);
  return status;
}

static int merge_times(merge *m) {
  times x = {.m = m,
             .shift = calloc(m->t->file_count + 1, sizeof *x.shift),
             .found = calloc(m->t->block_count + 1, sizeof *x.found)};
  int64_t base = 0;
  const bool good = x.shift && x.found;
  const int status = good ? find_shifts(m, x.shift, &base) : no_memory(m);
  if (status == 0)
    align_times(m, &x, base);
  free(x.shift);
  free(x.found);
  return status;
}

static size_t count_memory(const ett_trace *t) {
  size_t n = ett_strings_bytes(t->strings) + t->track_count * sizeof *t->tracks;
  for (uint32_t b = 0; b < t->block_count; b++)
    n += (size_t)t->blocks[b].count * ETT_TRACE_EVENT_BYTES;
  for (uint32_t a = 0; a < t->arg_count; a++)
    n += t->arg_lengths[a] * sizeof **t->args;
  return n;
}

static int build(merge *m, const ett_trace_options *o) {
  ett_trace *t = m->t;
  uint32_t files = m->sources->count;
  m->part_tracks = calloc(m->load->part_count + 1, sizeof *m->part_tracks);
  m->zero_bad = calloc(files + 1, 1);
  t->files = calloc(files, sizeof *t->files);
  t->strings = calloc(1, sizeof *t->strings);
  t->arg_names = calloc(o->arg_count ? o->arg_count : 1, sizeof *t->arg_names);
  if (!m->part_tracks || !m->zero_bad || !t->files || !t->strings || !t->arg_names)
    return no_memory(m);
  t->file_count = files;
  for (; t->arg_count < o->arg_count; t->arg_count++)
    if (!(t->arg_names[t->arg_count] = strdup(o->args[t->arg_count])))
      return no_memory(m);
  if (each_file(m, describe_file) || merge_strings(m) || merge_categories(m) ||
      merge_tracks(m) || merge_rows(m) || each_file(m, warn_of_file) || merge_pairs(m) ||
      merge_times(m))
    return -1;
  t->memory_bytes = count_memory(t);
  return 0;
}

static void free_merge(merge *m) {
  for (uint32_t i = 0; i < m->load->lexicon_count; i++) {
    if (m->string_map)
      free(m->string_map[i]);
    if (m->category_map)
      free(m->category_map[i]);
  }
  for (uint32_t i = 0; m->part_tracks && i < m->load->part_count; i++)
    free(m->part_tracks[i]);
  for (uint32_t i = 0; m->places && i < m->load->part_count; i++)
    free(m->places[i].args);
  free(m->places);
  free(m->string_map);
  free(m->category_map);
  free(m->part_tracks);
  free(m->line_category);
  free(m->line_device);
  free(m->zero_bad);
}

ett_trace *ett_merge(ett_load *load, const ett_sources *sources,
                     const ett_trace_options *options, int64_t ticks_per_second,
                     ett_err *err) {
  merge m = {.load = load, .sources = sources, .err = err};
  m.t = calloc(1, sizeof *m.t);
  if (!m.t) {
    no_memory(&m);
    return NULL;
  }
  m.t->ticks_per_second = ticks_per_second;
  m.t->workers = load->workers;
  load->workers = NULL;
  if (build(&m, options)) {
    ett_trace_free(m.t);
    m.t = NULL;
  }
  free_merge(&m);
  return m.t;
}
