#include "trace/read/open.h"

#include <stdlib.h>
#include <string.h>

#include "trace/read/merge.h"

static size_t count_memory(const ett_trace *t) {
  size_t n = ett_strings_bytes(t->strings) + t->track_count * sizeof *t->tracks;
  for (uint32_t b = 0; b < t->block_count; b++)
    n += (size_t)t->blocks[b].count * ETT_TRACE_EVENT_BYTES;
  for (uint32_t a = 0; a < t->arg_count; a++)
    n += t->arg_lengths[a] * sizeof **t->args;
  return n;
}

static int build(ett_merge *m, const ett_trace_options *o) {
  ett_trace *t = m->t;
  uint32_t files = m->sources->count;
  m->part_tracks = calloc(m->load->part_count + 1, sizeof *m->part_tracks);
  m->zero_bad = calloc(files + 1, 1);
  t->files = calloc(files, sizeof *t->files);
  t->strings = calloc(1, sizeof *t->strings);
  t->arg_names = calloc(o->arg_count ? o->arg_count : 1, sizeof *t->arg_names);
  if (!m->part_tracks || !m->zero_bad || !t->files || !t->strings || !t->arg_names)
    return ett_merge_memory(m);
  t->file_count = files;
  for (; t->arg_count < o->arg_count; t->arg_count++)
    if (!(t->arg_names[t->arg_count] = strdup(o->args[t->arg_count])))
      return ett_merge_memory(m);
  if (ett_merge_describe(m) || ett_merge_strings(m) || ett_merge_categories(m) ||
      ett_merge_tracks(m) || ett_merge_rows(m) || ett_merge_warnings(m) ||
      ett_merge_pairs(m) || ett_merge_times(m))
    return -1;
  t->memory_bytes = count_memory(t);
  return 0;
}

static void free_merge(ett_merge *m) {
  for (uint32_t i = 0; i < m->load->lexicon_count; i++) {
    if (m->string_map)
      free(m->string_map[i]);
    if (m->category_map)
      free(m->category_map[i]);
  }
  for (uint32_t i = 0; m->part_tracks && i < m->load->part_count; i++)
    free(m->part_tracks[i]);
  free(m->string_map);
  free(m->category_map);
  free(m->part_tracks);
  free(m->line_category);
  free(m->line_device);
  free(m->zero_bad);
}

/* Nothing could be read at all: the first reason. */
static int nothing_read(const ett_merge *m, ett_err *err) {
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
    ett_merge m = {.load = &load, .sources = &sources, .err = err};
    if (nothing_read(&m, err) == 0) {
      m.t = t = calloc(1, sizeof *t);
      if (!t) {
        ett_merge_memory(&m);
      } else {
        t->ticks_per_second = ticks;
        if (build(&m, options)) {
          ett_trace_free(t);
          t = NULL;
        }
      }
      free_merge(&m);
    }
    ett_load_free(&load);
  }
  ett_sources_free(&sources);
  return t;
}
