#include "trace/read/open.h"

#include <string.h>

#include "trace/read/merge.h"

/* Whether a file gave damage and no row: a different format with the same beginning. */
static bool gave_nothing(const ett_load *l, uint32_t file, bool xplane) {
  uint64_t hurt = 0;
  for (uint32_t k = 0; k < l->part_count; k++) {
    const ett_trace_part *p = &l->parts[k];
    if (p->file != file)
      continue;
    if (p->block_count || (xplane && p->damage[ETT_DAMAGE_TRUNCATED].count))
      return false; /* data before the truncation may hold no row */
    hurt +=
        p->damage[ETT_DAMAGE_BAD_EVENT].count + p->damage[ETT_DAMAGE_BAD_MESSAGE].count;
  }
  return hurt > 0;
}

/* -1 with the first reason if no file could be read. */
static int check_read(ett_load *l, const ett_sources *s, ett_err *err) {
  int bad = -1;
  for (uint32_t i = 0; i < s->count; i++)
    if (!s->items[i].ignored && !l->files[i].failed &&
        gave_nothing(l, i, s->items[i].kind == ETT_TRACE_XPLANE)) {
      l->files[i].failed = 1;
      ett_err_set(&l->files[i].err, ETT_ERR_FORMAT, "none of its events can be read");
    }
  for (uint32_t i = 0; i < s->count; i++) {
    if (s->items[i].ignored)
      continue;
    if (!l->files[i].failed && ett_load_saw_events(l, i))
      return 0;
    if (bad < 0)
      bad = (int)i;
  }
  if (bad < 0)
    return -1;
  const ett_load_file *f = &l->files[bad];
  const char *why = f->failed     ? f->err.message
                    : f->fault[0] ? f->fault
                                  : "it has no traceEvents";
  return ett_err_set(err, f->failed ? f->err.code : ETT_ERR_FORMAT,
                     "'%s' is not a trace: %s%s", s->items[bad].path, why,
                     s->count > 1 ? "; no other file there is a trace" : "");
}

/* Moves the files to be read to the front, so that file numbers have no gaps. */
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

/* Picoseconds if all files are TPU traces or XPlane, else nanoseconds. */
static int64_t ticks_of(const ett_sources *s) {
  for (uint32_t i = 0; i < s->count; i++)
    if (!s->items[i].ignored && s->items[i].kind != ETT_TRACE_TPU_JSON &&
        s->items[i].kind != ETT_TRACE_XPLANE)
      return 1000000000;
  return 1000000000000;
}

ett_trace *ett_trace_open(const char *path, const ett_trace_options *options,
                          ett_err *err) {
  ett_sources sources;
  ett_load load = {0};
  ett_trace *t = NULL;
  if (ett_sources_find(&sources, path, options->mode, err))
    return NULL;
  order_sources(&sources);
  int64_t ticks = ticks_of(&sources);
  if (ett_load_run(&load, &sources, options, ticks, err) == 0) {
    if (check_read(&load, &sources, err) == 0)
      t = ett_merge(&load, &sources, options, ticks, err);
    ett_load_free(&load);
  }
  ett_sources_free(&sources);
  return t;
}
