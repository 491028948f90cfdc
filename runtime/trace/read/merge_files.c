/* Files of a trace: what each is, and what was found about it. */
#include "trace/read/merge.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ett_merge_memory(ett_merge *m) {
  return ett_err_set(m->err, ETT_ERR_MEMORY, "out of memory");
}

int ett_merge_warn(ett_merge *m, uint32_t file, const char *code, uint64_t count,
                   int has_offset, uint64_t offset, const char *format, ...) {
  ett_trace *t = m->t;
  if (t->warning_count == m->warning_capacity) {
    uint32_t n = m->warning_capacity ? m->warning_capacity * 2 : 16;
    ett_trace_warning *grown = realloc(t->warnings, n * sizeof *grown);
    if (!grown)
      return ett_merge_memory(m);
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
    return ett_merge_memory(m);
  t->warning_count++;
  return 0;
}

/* An integer member of the JSON text of an object: 1 when it is there. */
static int member_integer(const char *object, const char *key, int64_t *value) {
  size_t n = strlen(key);
  int depth = 0;
  for (const char *p = object; *p; p++) {
    if (*p == '{' || *p == '[') {
      depth++;
    } else if (*p == '}' || *p == ']') {
      depth--;
    } else if (*p == '"') {
      const char *start = p + 1;
      for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1])
          p++;
      if (!*p)
        return 0;
      if (depth != 1 || (size_t)(p - start) != n || memcmp(start, key, n) != 0)
        continue;
      const char *q = p + 1;
      while (isspace((unsigned char)*q))
        q++;
      if (*q != ':')
        continue;
      q++;
      while (isspace((unsigned char)*q))
        q++;
      bool quoted = *q == '"';
      char *end;
      long long v = strtoll(q + quoted, &end, 10);
      if (end == q + quoted || (quoted && *end != '"'))
        return 0;
      *value = v;
      return 1;
    }
  }
  return 0;
}

static int describe_file(ett_merge *m, uint32_t i, ett_trace_part *first,
                         uint32_t parts) {
  ett_trace_file *f = &m->t->files[i];
  const ett_source *s = &m->sources->items[i];
  f->path = strdup(s->path);
  if (!f->path)
    return ett_merge_memory(m);
  f->kind = s->kind;
  f->bytes = s->bytes;
  f->uncompressed_bytes = m->load->files[i].uncompressed_bytes;
  f->rank_source = "unknown";
  uint32_t n = 0;
  for (uint32_t k = 0; k < parts; k++)
    n += first[k].member_count;
  f->members = malloc((n ? n : 1) * sizeof *f->members);
  if (!f->members)
    return ett_merge_memory(m);
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
  if (!f->has_rank && ett_rank_of_name(s->path, &f->rank)) {
    f->has_rank = true;
    f->rank_source = "file name";
  }
  return 0;
}

static int warn_of_file(ett_merge *m, uint32_t i, ett_trace_part *first, uint32_t parts) {
  const ett_source *s = &m->sources->items[i];
  const ett_load_file *f = &m->load->files[i];
  if (s->ignored)
    return ett_merge_warn(m, i, "ignored_file", 1, 0, 0, "left out: %s", s->ignored);
  if (f->failed)
    return ett_merge_warn(m, i, "unreadable_file", 1, 0, 0, "%s", f->err.message);
  bool saw = false;
  for (uint32_t k = 0; k < parts; k++)
    saw |= first[k].saw_events;
  if (!saw)
    return ett_merge_warn(m, i, "ignored_file", 1, 0, 0,
                          "left out: it has no traceEvents");
  if (f->fault[0] && ett_merge_warn(m, i, "bad_compression", 1, 1, f->uncompressed_bytes,
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
    if (d == ETT_DAMAGE_ZERO_TS &&
        !(m->zero_bad[i] = (uint8_t)ett_merge_zero_is_damage(m, i)))
      continue;
    if (ett_merge_warn(m, i, ett_trace_damage_name(d), count, 1, offset, "%s",
                       ett_trace_damage_text(d)))
      return -1;
  }
  const ett_trace_file *t = &m->t->files[i];
  if (t->event_count == 0 &&
      ett_merge_warn(m, i, "no_events", 1, 0, 0, "it holds no events"))
    return -1;
  if (!t->has_rank &&
      ett_merge_warn(m, i, "unknown_rank", 1, 0, 0,
                     "neither distributedInfo nor the file name tells its rank"))
    return -1;
  for (uint32_t k = 0; k < i; k++)
    if (t->has_rank && m->t->files[k].has_rank && m->t->files[k].rank == t->rank &&
        m->t->files[k].event_count)
      return ett_merge_warn(m, i, "duplicate_rank", 1, 0, 0,
                            "rank %lld is also that of %s", (long long)t->rank,
                            m->t->files[k].path);
  return 0;
}

typedef int file_step(ett_merge *m, uint32_t i, ett_trace_part *first, uint32_t parts);

/* Does the step for each file with the parts that were read of it (none when left out).
 */
static int each_file(ett_merge *m, file_step *step) {
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

int ett_merge_describe(ett_merge *m) {
  return each_file(m, describe_file);
}

int ett_merge_warnings(ett_merge *m) {
  return each_file(m, warn_of_file);
}
