/* From parts to one trace: one string table, one set of tracks, one time axis. */
#include "trace/load.h"
#include "trace/members.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BLOCK_BYTES ((size_t)ETT_TRACE_BLOCK * ETT_TRACE_EVENT_BYTES)
#define HOUR 3600

typedef struct merge {
  ett_trace *t;
  ett_load *load;
  const ett_sources *sources;
  uint32_t **string_map;   /* per lexicon; NULL: same numbers */
  uint16_t **category_map; /* per lexicon */
  uint32_t track_capacity, category_capacity, warning_capacity;
  uint16_t no_category;
  uint16_t *line_category; /* per track: what rows without a category get */
  int32_t *line_device;    /* per track: device of its rows, or -1 */
  ett_err *err;
} merge;

static int memory(merge *m) {
  return ett_err_set(m->err, ETT_ERR_MEMORY, "out of memory");
}

/* ---- warnings ---- */

static int warn(merge *m, uint32_t file, const char *code, uint64_t count, int has_offset,
                uint64_t offset, const char *format, ...) {
  ett_trace *t = m->t;
  if (t->warning_count == m->warning_capacity) {
    uint32_t n = m->warning_capacity ? m->warning_capacity * 2 : 16;
    ett_trace_warning *grown = realloc(t->warnings, n * sizeof *grown);
    if (!grown)
      return memory(m);
    t->warnings = grown;
    m->warning_capacity = n;
  }
  char text[256];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  ett_trace_warning *w = &t->warnings[t->warning_count];
  *w = (ett_trace_warning){file, has_offset, offset, count, code, strdup(text)};
  if (!w->message)
    return memory(m);
  t->warning_count++;
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

/* Stray bytes of a text that is not UTF-8 become '?'; lengths stay. */
static void heal_text(ett_string *s) {
  unsigned char *p = (unsigned char *)(uintptr_t)s->text, *end = p + s->length;
  while (p < end) {
    unsigned n = *p < 0x80 ? 0 : *p >= 0xF0 ? 3 : *p >= 0xE0 ? 2 : *p >= 0xC2 ? 1 : 9;
    if (n == 9 || (size_t)(end - p) <= n) {
      if (*p >= 0x80)
        *p = '?';
      p++;
      continue;
    }
    unsigned good = 1;
    for (unsigned i = 1; i <= n; i++)
      good &= (p[i] & 0xC0) == 0x80;
    if (n == 2) /* overlong forms and surrogates */
      good &= !(p[0] == 0xE0 && p[1] < 0xA0) && !(p[0] == 0xED && p[1] > 0x9F);
    if (n == 3)
      good &= p[0] <= 0xF4 && !(p[0] == 0xF0 && p[1] < 0x90) &&
              !(p[0] == 0xF4 && p[1] > 0x8F);
    if (good) {
      p += n + 1;
    } else {
      *p++ = '?';
    }
  }
}

static int merge_strings(merge *m) {
  ett_load *l = m->load;
  ett_strings *out = m->t->strings;
  m->string_map = calloc(l->lexicon_count, sizeof *m->string_map);
  if (!m->string_map)
    return memory(m);
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
      return memory(m);
    size_t n = 0;
    for (uint32_t i = 0; i < l->lexicon_count; i++) {
      const ett_strings *s = &l->lexicons[i].strings;
      for (uint32_t k = 0; k < s->count; k++)
        all[n++] = (seen){s->items[k].first, i, k};
      if (s->count && !(m->string_map[i] = malloc(s->count * sizeof **m->string_map))) {
        free(all);
        return memory(m);
      }
    }
    qsort(all, n, sizeof *all, by_first);
    for (size_t k = 0; k < n; k++) {
      const ett_string *s = &l->lexicons[all[k].lexicon].strings.items[all[k].id];
      uint32_t id = ett_strings_put(out, s->text, s->length, s->first, NULL);
      if (id == ETT_STRING_NONE) {
        free(all);
        return memory(m);
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

static uint32_t text_of(const merge *m, const ett_lexicon *l, uint32_t id) {
  if (id == ETT_STRING_NONE)
    return id;
  const uint32_t *map = m->string_map[l - m->load->lexicons];
  return map ? map[id] : id;
}

/* Number of a category of the trace, made if new; ETT_CATEGORY_NONE without memory. */
static uint16_t category(merge *m, const char *text, size_t length,
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

static int merge_categories(merge *m) {
  ett_load *l = m->load;
  m->no_category = category(m, "", 0, ETT_CLASS_OTHER);
  m->category_map = calloc(l->lexicon_count, sizeof *m->category_map);
  if (!m->category_map || m->no_category == ETT_CATEGORY_NONE)
    return memory(m);
  for (uint32_t i = 0; i < l->lexicon_count; i++) {
    const ett_lexicon *x = &l->lexicons[i];
    if (!x->categories.count)
      continue;
    m->category_map[i] = malloc(x->categories.count * sizeof **m->category_map);
    if (!m->category_map[i])
      return memory(m);
    for (uint32_t k = 0; k < x->categories.count; k++) {
      uint16_t id = category(m, x->categories.items[k].text,
                             x->categories.items[k].length, x->category_class[k]);
      if (id == ETT_CATEGORY_NONE)
        return memory(m);
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

static int merge_tracks(merge *m, uint32_t **part_maps) {
  ett_load *l = m->load;
  ett_trace *t = m->t;
  for (uint32_t from = 0; from < l->part_count;) {
    uint32_t to = from, file = l->parts[from].file;
    while (to < l->part_count && l->parts[to].file == file)
      to++;
    ett_trace_part all; /* only its track table is used */
    if (ett_part_init(&all, file, 0, NULL))
      return memory(m);
    uint32_t base = t->track_count;
    for (uint32_t i = from; i < to; i++) {
      const ett_trace_part *p = &l->parts[i];
      if (!p->track_count)
        continue;
      part_maps[i] = malloc(p->track_count * sizeof **part_maps);
      if (!part_maps[i])
        goto out;
      for (uint32_t k = 0; k < p->track_count; k++) {
        const ett_track *x = &p->tracks[k];
        int64_t pid = x->pid, tid = x->tid;
        if (x->pid_type == ETT_ID_TEXT)
          pid = text_of(m, p->lexicon, (uint32_t)pid);
        if (x->tid_type == ETT_ID_TEXT)
          tid = text_of(m, p->lexicon, (uint32_t)tid);
        uint32_t id = ett_part_track(&all, pid, x->pid_type, tid, x->tid_type);
        if (id == ETT_TRACE_NONE)
          goto out;
        ett_track *y = &all.tracks[id];
        y->events += x->events;
        if (x->process != ETT_STRING_NONE)
          y->process = text_of(m, p->lexicon, x->process);
        if (x->thread != ETT_STRING_NONE)
          y->thread = text_of(m, p->lexicon, x->thread);
        part_maps[i][k] = base + id;
      }
    }
    for (uint32_t k = 0, n = all.track_count; k < n; k++) {
      const ett_track x = all.tracks[k];
      if (x.process != ETT_STRING_NONE)
        continue;
      uint32_t owner = ett_part_track(&all, x.pid, x.pid_type, 0, ETT_ID_NONE);
      if (owner == ETT_TRACE_NONE)
        goto out;
      all.tracks[k].process = all.tracks[owner].process;
    }
    if (all.track_count) {
      ett_track *grown =
          realloc(t->tracks, ((size_t)base + all.track_count) * sizeof *grown);
      if (!grown)
        goto out;
      t->tracks = grown;
      memcpy(t->tracks + base, all.tracks, all.track_count * sizeof *grown);
      t->track_count = base + all.track_count;
    }
    ett_part_free(&all);
    from = to;
    continue;
  out:
    ett_part_free(&all);
    return memory(m);
  }
  uint32_t n = t->track_count ? t->track_count : 1;
  m->line_category = malloc(n * sizeof *m->line_category);
  m->line_device = malloc(n * sizeof *m->line_device);
  if (!m->line_category || !m->line_device)
    return memory(m);
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
      return memory(m);
  }
  return 0;
}

/* ---- rows ---- */

/* Joins begin and end events of a file into complete ones: a stack per track. */
static int join_pairs(merge *m, uint32_t file) {
  ett_trace *t = m->t;
  struct open {
    uint32_t row, below;
  } *stack = NULL;
  uint32_t used = 0, capacity = 0;
  uint64_t unmatched = 0;
  uint32_t *top = malloc((t->track_count ? t->track_count : 1) * sizeof *top);
  if (!top)
    return memory(m);
  memset(top, 0xFF, t->track_count * sizeof *top);
  for (uint32_t b = 0; b < t->block_count; b++) {
    ett_trace_block *k = &t->blocks[b];
    if (k->file != file)
      continue;
    for (uint32_t i = 0; i < k->count; i++) {
      uint32_t track = k->track[i];
      if (k->ph[i] == 'B') {
        if (used == capacity) {
          uint32_t n = capacity ? capacity * 2 : 256;
          struct open *grown = realloc(stack, n * sizeof *grown);
          if (!grown) {
            free(stack);
            free(top);
            return memory(m);
          }
          stack = grown;
          capacity = n;
        }
        stack[used] = (struct open){b << 16 | i, top[track]};
        top[track] = used++;
      } else if (k->ph[i] == 'E') {
        k->ph[i] |= ETT_PH_INVALID;
        if (top[track] == UINT32_MAX) {
          unmatched++;
          continue;
        }
        struct open o = stack[top[track]];
        top[track] = o.below;
        ett_trace_block *from = &t->blocks[o.row >> 16];
        uint32_t f = o.row & 0xFFFF;
        int64_t dur;
        if (__builtin_sub_overflow(k->ts[i], from->ts[f], &dur) || dur < 0) {
          unmatched++;
          continue;
        }
        from->dur[f] = dur;
        from->ph[f] = 'X';
      }
    }
  }
  for (uint32_t i = 0; i < used; i++) {
    ett_trace_block *k = &t->blocks[stack[i].row >> 16];
    if (k->ph[stack[i].row & 0xFFFF] == 'B') {
      k->ph[stack[i].row & 0xFFFF] |= ETT_PH_INVALID;
      unmatched++;
    }
  }
  free(stack);
  free(top);
  if (!unmatched)
    return 0;
  return warn(m, file, ett_trace_damage_name(ETT_DAMAGE_UNMATCHED_BEGIN), unmatched, 0, 0,
              "%s", ett_trace_damage_text(ETT_DAMAGE_UNMATCHED_BEGIN));
}

/* Rows at ts 0 are damage when all others of the file are hours away. */
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

/* Moves the blocks and args of the parts over; maps their numbers. */
static int merge_rows(merge *m, uint32_t **part_maps) {
  ett_load *l = m->load;
  ett_trace *t = m->t;
  size_t blocks = 0;
  for (uint32_t i = 0; i < l->part_count; i++)
    blocks += l->parts[i].block_count;
  if (blocks > 65535)
    return ett_err_set(m->err, ETT_ERR_LIMIT, "more than %u events", 65535u * 65536u);
  t->blocks = malloc((blocks ? blocks : 1) * sizeof *t->blocks);
  t->args = calloc(t->arg_count ? t->arg_count : 1, sizeof *t->args);
  t->arg_lengths = calloc(t->arg_count ? t->arg_count : 1, sizeof *t->arg_lengths);
  t->arg_hints = calloc(t->arg_count ? t->arg_count : 1, sizeof *t->arg_hints);
  if (!t->blocks || !t->args || !t->arg_lengths || !t->arg_hints)
    return memory(m);
  for (uint32_t i = 0; i < l->part_count; i++) {
    ett_trace_part *p = &l->parts[i];
    const uint32_t *track = part_maps[i];
    const uint32_t *string = p->lexicon ? m->string_map[p->lexicon - l->lexicons] : NULL;
    const uint16_t *cat = p->lexicon ? m->category_map[p->lexicon - l->lexicons] : NULL;
    uint32_t shift = t->block_count << 16;
    for (uint32_t b = 0; b < p->block_count; b++) {
      ett_trace_block *k = &p->blocks[b];
      for (uint32_t r = 0; r < k->count; r++) {
        uint32_t w = k->track[r] = track[k->track[r]];
        if (string)
          k->name[r] = string[k->name[r]];
        if (k->category[r] == ETT_CATEGORY_NONE)
          k->category[r] = m->line_category[w];
        else
          k->category[r] = cat[k->category[r]];
        if (m->line_device[w] >= 0) { /* XLA: the process is the device */
          if (k->device[r] < 0)
            k->device[r] = (int16_t)m->line_device[w];
          if (k->stream[r] < 0 && t->tracks[w].tid_type == ETT_ID_INTEGER)
            k->stream[r] = (int32_t)t->tracks[w].tid;
        }
      }
      t->files[p->file].event_count += k->count;
      t->event_count += k->count;
      t->blocks[t->block_count++] = *k;
    }
    p->block_count = 0;
    t->files[p->file].seen_count += p->seen;
    for (uint32_t a = 0; a < t->arg_count; a++) {
      ett_args_column *c = &p->args[a];
      if (!p->args || !c->count)
        continue;
      ett_trace_arg *grown =
          realloc(t->args[a], ((size_t)t->arg_lengths[a] + c->count) * sizeof *grown);
      if (!grown)
        return memory(m);
      t->args[a] = grown;
      grown += t->arg_lengths[a];
      for (uint32_t k = 0; k < c->count; k++) {
        grown[k] = c->items[k];
        grown[k].row += shift;
        if (grown[k].type == ETT_ARG_TEXT)
          grown[k].value.text = text_of(m, p->lexicon, grown[k].value.text);
      }
      t->arg_lengths[a] += c->count;
      free(c->items);
      memset(c, 0, sizeof *c);
    }
  }
  return 0;
}

/* One time axis: every file's base and the first event of all become tick 0. */
static int place_in_time(merge *m, const uint8_t *zero_bad) {
  ett_trace *t = m->t;
  const int64_t per_ns = t->ticks_per_second / 1000000000;
  int64_t base = INT64_MAX;
  for (uint32_t i = 0; i < t->file_count; i++)
    if (t->files[i].event_count && t->files[i].base_ns < base)
      base = t->files[i].base_ns;
  if (base == INT64_MAX)
    base = 0;
  int64_t *shift = calloc(t->file_count ? t->file_count : 1, sizeof *shift);
  if (!shift)
    return memory(m);
  for (uint32_t i = 0; i < t->file_count; i++) {
    int64_t ns;
    if (!t->files[i].event_count)
      continue;
    if (__builtin_sub_overflow(t->files[i].base_ns, base, &ns) ||
        __builtin_mul_overflow(ns, per_ns, &shift[i])) {
      shift[i] = 0;
      if (warn(m, i, "clock_mismatch", 1, 0, 0,
               "its clock has another origin than the others'; its times cannot be "
               "compared with theirs")) {
        free(shift);
        return -1;
      }
    }
  }
  int64_t first = INT64_MAX;
  for (uint32_t b = 0; b < t->block_count; b++) {
    ett_trace_block *k = &t->blocks[b];
    for (uint32_t i = 0; i < k->count; i++) {
      int64_t end;
      if (k->ts[i] == 0 && zero_bad[k->file])
        k->ph[i] |= ETT_PH_INVALID;
      if (__builtin_add_overflow(k->ts[i], shift[k->file], &k->ts[i]) ||
          __builtin_add_overflow(k->ts[i], k->dur[i], &end))
        k->ph[i] |= ETT_PH_INVALID;
      if (!(k->ph[i] & ETT_PH_INVALID) && k->ph[i] == 'X' && k->ts[i] < first)
        first = k->ts[i];
    }
  }
  free(shift);
  if (first == INT64_MAX)
    first = 0;
  int64_t last = INT64_MIN;
  for (uint32_t b = 0; b < t->block_count; b++) {
    ett_trace_block *k = &t->blocks[b];
    for (uint32_t i = 0; i < k->count; i++) {
      int64_t end;
      if (__builtin_sub_overflow(k->ts[i], first, &k->ts[i]) ||
          __builtin_add_overflow(k->ts[i], k->dur[i], &end)) {
        k->ts[i] = 0;
        k->dur[i] = 0;
        k->ph[i] |= ETT_PH_INVALID;
        continue;
      }
      if (k->ph[i] == 'X' && end > last)
        last = end;
    }
  }
  t->start = 0;
  t->stop = last == INT64_MIN ? 0 : last;
  t->origin_ns = base + first / per_ns;
  return 0;
}

/* ---- files ---- */

static int describe_file(merge *m, uint32_t i, ett_trace_part *first, uint32_t parts) {
  ett_trace_file *f = &m->t->files[i];
  const ett_source *s = &m->sources->items[i];
  f->path = strdup(s->path);
  if (!f->path)
    return memory(m);
  f->kind = s->kind;
  f->bytes = s->bytes;
  f->uncompressed_bytes = m->load->files[i].uncompressed_bytes;
  f->rank_source = "unknown";
  uint32_t n = 0;
  for (uint32_t k = 0; k < parts; k++)
    n += first[k].member_count;
  f->members = malloc((n ? n : 1) * sizeof *f->members);
  if (!f->members)
    return memory(m);
  for (uint32_t k = 0; k < parts; k++) {
    for (uint32_t j = 0; j < first[k].member_count; j++)
      f->members[f->member_count++] = first[k].members[j];
    first[k].member_count = 0;
  }
  for (uint32_t k = 0; k < f->member_count; k++) {
    const ett_member *x = &f->members[k];
    if (strcmp(x->key, "distributedInfo") == 0) {
      if (ett_member_integer(x->value, "rank", &f->rank)) {
        f->has_rank = true;
        f->rank_source = "distributedInfo";
      }
      f->has_world = ett_member_integer(x->value, "world_size", &f->world_size);
    } else if (strcmp(x->key, "baseTimeNanoseconds") == 0) {
      f->base_ns = strtoll(x->value + (x->value[0] == '"'), NULL, 10);
    }
  }
  if (!f->has_rank && ett_rank_of_name(s->path, &f->rank)) {
    f->has_rank = true;
    f->rank_source = "file name";
  }
  return 0;
}

static int warn_of_file(merge *m, uint32_t i, const ett_trace_part *first, uint32_t parts,
                        uint8_t *zero_bad) {
  const ett_source *s = &m->sources->items[i];
  const ett_load_file *f = &m->load->files[i];
  if (s->ignored)
    return warn(m, i, "ignored_file", 1, 0, 0, "left out: %s", s->ignored);
  if (f->failed)
    return warn(m, i, "unreadable_file", 1, 0, 0, "%s", f->err.message);
  bool saw = false;
  for (uint32_t k = 0; k < parts; k++)
    saw |= first[k].saw_events;
  if (!saw)
    return warn(m, i, "ignored_file", 1, 0, 0, "left out: it has no traceEvents");
  if (f->fault[0] && warn(m, i, "bad_compression", 1, 1, f->uncompressed_bytes,
                          "%s; what came before it was read", f->fault))
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
    if (d == ETT_DAMAGE_ZERO_TS && !(zero_bad[i] = (uint8_t)zero_is_damage(m, i)))
      continue;
    if (warn(m, i, ett_trace_damage_name(d), count, 1, offset, "%s",
             ett_trace_damage_text(d)))
      return -1;
  }
  const ett_trace_file *t = &m->t->files[i];
  if (t->event_count == 0 && warn(m, i, "no_events", 1, 0, 0, "it holds no events"))
    return -1;
  if (!t->has_rank && warn(m, i, "unknown_rank", 1, 0, 0,
                           "neither distributedInfo nor the file name tells its rank"))
    return -1;
  for (uint32_t k = 0; k < i; k++)
    if (t->has_rank && m->t->files[k].has_rank && m->t->files[k].rank == t->rank &&
        m->t->files[k].event_count)
      return warn(m, i, "duplicate_rank", 1, 0, 0, "rank %lld is also that of %s",
                  (long long)t->rank, m->t->files[k].path);
  return 0;
}

static int merge_files(merge *m, uint8_t *zero_bad, int describe) {
  ett_load *l = m->load;
  uint32_t from = 0;
  for (uint32_t i = 0; i < m->sources->count; i++) {
    uint32_t to = from;
    while (to < l->part_count && l->parts[to].file == i && !m->sources->items[i].ignored)
      to++;
    if (describe ? describe_file(m, i, &l->parts[from], to - from)
                 : warn_of_file(m, i, &l->parts[from], to - from, zero_bad))
      return -1;
    from = to;
  }
  return 0;
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
  int status = -1;
  uint32_t files = m->sources->count;
  uint32_t **part_maps = calloc(m->load->part_count + 1, sizeof *part_maps);
  uint8_t *zero_bad = calloc(files + 1, 1);
  t->files = calloc(files, sizeof *t->files);
  t->strings = calloc(1, sizeof *t->strings);
  t->arg_names = calloc(o->arg_count ? o->arg_count : 1, sizeof *t->arg_names);
  if (!part_maps || !zero_bad || !t->files || !t->strings || !t->arg_names) {
    memory(m);
    goto done;
  }
  t->file_count = files;
  for (; t->arg_count < o->arg_count; t->arg_count++)
    if (!(t->arg_names[t->arg_count] = strdup(o->args[t->arg_count]))) {
      memory(m);
      goto done;
    }
  if (merge_files(m, zero_bad, 1) || merge_strings(m) || merge_categories(m) ||
      merge_tracks(m, part_maps) || merge_rows(m, part_maps) ||
      merge_files(m, zero_bad, 0))
    goto done;
  for (uint32_t i = 0; i < files; i++) {
    bool pairs = false;
    for (uint32_t b = 0; b < t->block_count && !pairs; b++)
      if (t->blocks[b].file == i)
        for (uint32_t r = 0; r < t->blocks[b].count && !pairs; r++)
          pairs = t->blocks[b].ph[r] == 'B' || t->blocks[b].ph[r] == 'E';
    if (pairs && join_pairs(m, i))
      goto done;
  }
  if (place_in_time(m, zero_bad))
    goto done;
  t->memory_bytes = count_memory(t);
  status = 0;
done:
  for (uint32_t i = 0; part_maps && i < m->load->part_count; i++)
    free(part_maps[i]);
  free(part_maps);
  free(zero_bad);
  return status;
}

/* Nothing could be read at all: the first reason. */
static int nothing_read(const merge *m, ett_err *err) {
  bool folder = m->sources->count > 1;
  for (uint32_t i = 0; i < m->sources->count; i++) {
    const ett_load_file *f = &m->load->files[i];
    if (m->sources->items[i].ignored)
      continue;
    bool saw = false;
    for (uint32_t k = 0; k < m->load->part_count; k++)
      saw |= m->load->parts[k].file == i && m->load->parts[k].saw_events;
    if (!f->failed && saw)
      return 0;
  }
  for (uint32_t i = 0; i < m->sources->count; i++) {
    const ett_load_file *f = &m->load->files[i];
    if (m->sources->items[i].ignored)
      continue;
    const char *why = f->failed     ? f->err.message
                      : f->fault[0] ? f->fault
                                    : "it has no traceEvents";
    ett_err_set(err, f->failed ? f->err.code : ETT_ERR_FORMAT, "'%s' is no trace: %s%s",
                m->sources->items[i].path, why,
                folder ? " (nor is any other file there)" : "");
    return -1;
  }
  return -1;
}

/* What is read comes first, so that file numbers have no holes. */
static void order_sources(ett_sources *s) {
  uint32_t good = 0;
  for (uint32_t i = 0; i < s->count; i++) {
    if (s->items[i].ignored)
      continue;
    ett_source x = s->items[i];
    memmove(&s->items[good + 1], &s->items[good], (i - good) * sizeof x);
    s->items[good++] = x;
  }
}

ett_trace *ett_trace_open(const char *path, const ett_trace_options *options,
                          ett_err *err) {
  ett_sources sources;
  ett_load load = {0};
  if (ett_sources_find(&sources, path, options->mode, err))
    return NULL;
  order_sources(&sources);
  int64_t ticks = 1000000000000;
  for (uint32_t i = 0; i < sources.count; i++)
    if (!sources.items[i].ignored && sources.items[i].kind != ETT_TRACE_TPU_JSON &&
        sources.items[i].kind != ETT_TRACE_XPLANE)
      ticks = 1000000000;
  ett_trace *t = NULL;
  if (ett_load_run(&load, &sources, options, ticks, err) == 0) {
    merge m = {.load = &load, .sources = &sources, .err = err};
    if (nothing_read(&m, err) == 0) {
      t = calloc(1, sizeof *t);
      if (!t) {
        ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
      } else {
        t->ticks_per_second = ticks;
        m.t = t;
        if (build(&m, options)) {
          ett_trace_free(t);
          t = NULL;
        }
      }
      for (uint32_t i = 0; i < load.lexicon_count; i++) {
        if (m.string_map)
          free(m.string_map[i]);
        if (m.category_map)
          free(m.category_map[i]);
      }
      free(m.string_map);
      free(m.category_map);
      free(m.line_category);
      free(m.line_device);
    }
    ett_load_free(&load);
  }
  ett_sources_free(&sources);
  return t;
}

void ett_trace_free(ett_trace *t) {
  if (!t)
    return;
  for (uint32_t i = 0; i < t->file_count; i++) {
    free(t->files[i].path);
    for (uint32_t k = 0; k < t->files[i].member_count; k++) {
      free(t->files[i].members[k].key);
      free(t->files[i].members[k].value);
    }
    free(t->files[i].members);
  }
  free(t->files);
  for (uint32_t i = 0; i < t->block_count; i++)
    munmap(t->blocks[i].memory, BLOCK_BYTES);
  free(t->blocks);
  if (t->strings)
    ett_strings_free(t->strings);
  free(t->strings);
  free(t->categories);
  free(t->category_class);
  free(t->tracks);
  for (uint32_t i = 0; i < t->arg_count; i++) {
    free((void *)(uintptr_t)t->arg_names[i]);
    if (t->args)
      free(t->args[i]);
  }
  free(t->arg_names);
  free(t->args);
  free(t->arg_lengths);
  free(t->arg_hints);
  for (int c = 0; t->class_rows && c < ETT_CLASS_COUNT; c++)
    free(t->class_rows[c]);
  free(t->class_rows);
  free(t->class_counts);
  for (uint32_t i = 0; i < t->warning_count; i++)
    free(t->warnings[i].message);
  free(t->warnings);
  free(t);
}

int ett_trace_arg_find(const ett_trace *t, const char *name) {
  for (uint32_t i = 0; i < t->arg_count; i++)
    if (strcmp(t->arg_names[i], name) == 0)
      return (int)i;
  return -1;
}

const ett_trace_arg *ett_trace_arg_at(const ett_trace *t, uint32_t arg, uint32_t row) {
  const ett_trace_arg *items = t->args[arg];
  uint32_t n = t->arg_lengths[arg], low = t->arg_hints[arg], high = n;
  if (low < n && items[low].row <= row) {
    uint32_t step = 1; /* ahead of the hint: widening steps, then bisection */
    while (low + step < n && items[low + step].row <= row) {
      low += step;
      step *= 2;
    }
    if (low + step < n)
      high = low + step;
  } else {
    high = low < n ? low : n;
    low = 0;
  }
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (items[middle].row < row)
      low = middle + 1;
    else
      high = middle;
  }
  t->arg_hints[arg] = low;
  return low < n && items[low].row == row ? &items[low] : NULL;
}

int ett_trace_index_classes(ett_trace *t) {
  if (t->class_rows)
    return 0;
  uint32_t counts[ETT_CLASS_COUNT] = {0};
  for (uint32_t b = 0; b < t->block_count; b++)
    for (uint32_t i = 0; i < t->blocks[b].count; i++)
      counts[t->category_class[t->blocks[b].category[i]]]++;
  uint32_t **rows = calloc(ETT_CLASS_COUNT, sizeof *rows);
  t->class_counts = calloc(ETT_CLASS_COUNT, sizeof *t->class_counts);
  bool good = rows && t->class_counts;
  for (int c = 0; good && c < ETT_CLASS_COUNT; c++)
    good = (rows[c] = malloc((counts[c] ? counts[c] : 1) * sizeof **rows)) != NULL;
  if (!good) {
    for (int c = 0; rows && c < ETT_CLASS_COUNT; c++)
      free(rows[c]);
    free(rows);
    free(t->class_counts);
    t->class_counts = NULL;
    return -1;
  }
  for (uint32_t b = 0; b < t->block_count; b++)
    for (uint32_t i = 0; i < t->blocks[b].count; i++) {
      uint8_t c = t->category_class[t->blocks[b].category[i]];
      rows[c][t->class_counts[c]++] = b << 16 | i;
    }
  t->class_rows = rows;
  return 0;
}
