/* Names of a trace: one string table, its categories, its tracks. */
#include "io/utf8.h"
#include "trace/read/merge.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

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

/* Stray bytes of a text that is not UTF-8 become '?'; lengths stay. */
static void heal_text(ett_string *s) {
  char *text = (char *)(uintptr_t)s->text;
  for (size_t i = 0; i < s->length; i++) {
    i += ett_utf8_valid_prefix(text + i, s->length - i);
    if (i < s->length)
      text[i] = '?';
  }
}

int ett_merge_strings(ett_merge *m) {
  ett_load *l = m->load;
  ett_strings *out = m->t->strings;
  m->string_map = calloc(l->lexicon_count, sizeof *m->string_map);
  if (!m->string_map)
    return ett_merge_memory(m);
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
  }
  if (filled == 1) {
    *out = l->lexicons[last].strings;
    memset(&l->lexicons[last].strings, 0, sizeof *out);
  } else if (filled > 1) {
    seen *all = malloc(total * sizeof *all);
    if (!all)
      return ett_merge_memory(m);
    size_t n = 0;
    for (uint32_t i = 0; i < l->lexicon_count; i++) {
      const ett_strings *s = &l->lexicons[i].strings;
      for (uint32_t k = 0; k < s->count; k++)
        all[n++] = (seen){s->items[k].first, i, k};
      if (s->count && !(m->string_map[i] = malloc(s->count * sizeof **m->string_map))) {
        free(all);
        return ett_merge_memory(m);
      }
    }
    qsort(all, n, sizeof *all, by_first);
    for (size_t k = 0; k < n; k++) {
      const ett_string *s = &l->lexicons[all[k].lexicon].strings.items[all[k].id];
      uint32_t id = ett_strings_put(out, s->text, s->length, s->first, NULL);
      if (id == ETT_STRING_NONE) {
        free(all);
        return ett_merge_memory(m);
      }
      m->string_map[all[k].lexicon][all[k].id] = id;
    }
    free(all);
  }
  if (dirty)
    for (uint32_t i = 0; i < out->count; i++)
      heal_text(&out->items[i]);
  return 0;
}

uint32_t ett_merge_text(const ett_merge *m, const ett_lexicon *l, uint32_t id) {
  if (id == ETT_STRING_NONE)
    return id;
  const uint32_t *map = m->string_map[l - m->load->lexicons];
  return map ? map[id] : id;
}

/* Number of a category of the trace, made if new; ETT_CATEGORY_NONE without memory. */
static uint16_t category(ett_merge *m, const char *text, size_t length,
                         ett_trace_class class) {
  ett_trace *t = m->t;
  uint32_t id = ett_strings_put(t->strings, text, length, UINT64_MAX, NULL);
  if (id == ETT_STRING_NONE)
    return ETT_CATEGORY_NONE;
  for (uint32_t i = 0; i < t->category_count; i++)
    if (t->categories[i] == id && t->category_class[i] == class)
      return (uint16_t)i;
  if (t->category_count == ETT_CATEGORY_NONE)
    return ETT_CATEGORY_NONE;
  if (t->category_count == m->category_capacity) {
    uint32_t n = m->category_capacity ? m->category_capacity * 2 : 64;
    uint32_t *ids = realloc(t->categories, n * sizeof *ids);
    if (!ids)
      return ETT_CATEGORY_NONE;
    t->categories = ids;
    uint8_t *classes = realloc(t->category_class, n);
    if (!classes)
      return ETT_CATEGORY_NONE;
    t->category_class = classes;
    m->category_capacity = n;
  }
  t->categories[t->category_count] = id;
  t->category_class[t->category_count] = (uint8_t) class;
  return (uint16_t)t->category_count++;
}

int ett_merge_categories(ett_merge *m) {
  ett_load *l = m->load;
  m->no_category = category(m, "", 0, ETT_CLASS_OTHER);
  m->category_map = calloc(l->lexicon_count, sizeof *m->category_map);
  if (!m->category_map || m->no_category == ETT_CATEGORY_NONE)
    return ett_merge_memory(m);
  for (uint32_t i = 0; i < l->lexicon_count; i++) {
    const ett_lexicon *x = &l->lexicons[i];
    if (!x->categories.count)
      continue;
    m->category_map[i] = malloc(x->categories.count * sizeof **m->category_map);
    if (!m->category_map[i])
      return ett_merge_memory(m);
    for (uint32_t k = 0; k < x->categories.count; k++) {
      uint16_t id = category(m, x->categories.items[k].text,
                             x->categories.items[k].length, x->category_class[k]);
      if (id == ETT_CATEGORY_NONE)
        return ett_merge_memory(m);
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

/* XLA writes no categories: a device's line decides. */
static ett_trace_class line_class(const char *process, const char *thread) {
  if (strncmp(process, "/device:", 8) != 0)
    return ETT_CLASS_HOST;
  if (strcmp(thread, "XLA Ops") == 0)
    return ETT_CLASS_KERNEL;
  if (strcmp(thread, "XLA Modules") == 0)
    return ETT_CLASS_DEVICE_MODULE;
  if (strcmp(thread, "Steps") == 0)
    return ETT_CLASS_DEVICE_STEP;
  if (strcmp(thread, "Async XLA Ops") == 0)
    return ETT_CLASS_DEVICE_ASYNC;
  if (strncmp(thread, "Stream #", 8) == 0) {
    const char *what = strchr(thread, '(');
    if (what && strncmp(what, "(Memcpy", 7) == 0 && !strstr(what, "Compute"))
      return ETT_CLASS_MEMCPY;
    if (what && strncmp(what, "(Memset", 7) == 0 && !strstr(what, "Compute"))
      return ETT_CLASS_MEMSET;
    return ETT_CLASS_KERNEL;
  }
  return ETT_CLASS_DEVICE_ANNOTATION;
}

/* Adds the tracks of a part to those of its file, which begin at number base. */
static int add_tracks(ett_merge *m, uint32_t part, ett_trace_part *all, uint32_t base) {
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
      pid = ett_merge_text(m, p->lexicon, (uint32_t)pid);
    if (x->tid_type == ETT_ID_TEXT)
      tid = ett_merge_text(m, p->lexicon, (uint32_t)tid);
    uint32_t id = ett_part_track(all, pid, x->pid_type, tid, x->tid_type);
    if (id == ETT_TRACE_NONE)
      return -1;
    ett_track *y = &all->tracks[id];
    y->events += x->events;
    if (x->process != ETT_STRING_NONE)
      y->process = ett_merge_text(m, p->lexicon, x->process);
    if (x->thread != ETT_STRING_NONE)
      y->thread = ett_merge_text(m, p->lexicon, x->thread);
    m->part_tracks[part][k] = base + id;
  }
  return 0;
}

/* Tracks of one file, whose parts are from ... to; `all` is only used for its table. */
static int file_tracks(ett_merge *m, uint32_t from, uint32_t to, ett_trace_part *all) {
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

/* Device and category that the rows of each line of an XLA trace get. */
static int merge_lines(ett_merge *m) {
  const ett_trace *t = m->t;
  uint32_t n = t->track_count ? t->track_count : 1;
  m->line_category = malloc(n * sizeof *m->line_category);
  m->line_device = malloc(n * sizeof *m->line_device);
  if (!m->line_category || !m->line_device)
    return ett_merge_memory(m);
  for (uint32_t i = 0; i < t->track_count; i++) {
    const ett_track *x = &t->tracks[i];
    ett_trace_kind kind = m->sources->items[x->file].kind;
    m->line_category[i] = m->no_category;
    m->line_device[i] = -1;
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
        category(m, thread, strlen(thread), line_class(process, thread));
    if (m->line_category[i] == ETT_CATEGORY_NONE)
      return ett_merge_memory(m);
  }
  return 0;
}

int ett_merge_tracks(ett_merge *m) {
  const ett_load *l = m->load;
  for (uint32_t from = 0, to; from < l->part_count; from = to) {
    ett_trace_part all;
    for (to = from; to < l->part_count && l->parts[to].file == l->parts[from].file;)
      to++;
    int status = ett_part_init(&all, l->parts[from].file, 0, NULL) ||
                 file_tracks(m, from, to, &all);
    ett_part_free(&all);
    if (status)
      return ett_merge_memory(m);
  }
  return merge_lines(m);
}
