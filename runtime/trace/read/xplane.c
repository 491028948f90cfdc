/* XPlane protobufs: XSpace of tsl/profiler/protobuf/xplane.proto, with its field numbers.
 *
 * Unknown fields are skipped; a file that ends early gives the planes and lines before
 * its end. Times: an event's offset_ps counts from its line's timestamp_ns, which counts
 * from the start of the session where that start is recorded.
 * The args of an event are its stats and those of its metadata. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/grow.h"
#include "trace/read/wire.h"

typedef struct xplane {
  const ett_reading *r;
  int32_t long_name; /* column of the arg "long_name", or -1 */
  int64_t base_ns;
} xplane;

/* A plane's tables of stats and events begin with their id. */
typedef struct stat_name {
  int64_t id;
  slice name;
  int32_t arg; /* requested column, or -1 */
  bool correlation;
} stat_name;

typedef struct event_name {
  int64_t id;
  slice body;
  uint32_t name, long_name; /* string ids, created at their first use */
} event_name;

typedef struct plane {
  stat_name *stats;
  event_name *events;
  uint32_t stat_count, stat_capacity, event_count, event_capacity;
} plane;

static int by_id(const void *a, const void *b) {
  const int64_t *x = a, *y = b;
  return *x < *y ? -1 : *x > *y;
}

/* The entry of an id in a sorted table, or NULL. Most ids are the entries' numbers. */
static inline void *entry_of(void *table, uint32_t count, size_t size, int64_t id) {
  if (id > 0 && (uint64_t)id <= count) {
    char *guess = (char *)table + (size_t)(id - 1) * size;
    if (by_id(guess, &id) == 0)
      return guess;
  }
  return count ? bsearch(&id, table, count, size, by_id) : NULL;
}

static stat_name *stat_of(const plane *p, int64_t id) {
  return entry_of(p->stats, p->stat_count, sizeof *p->stats, id);
}

/* Adds an entry of the plane's stat_metadata (field 5) or event_metadata, unless it is
 * damaged. 0, or -1 if memory runs out. */
static int add_name(const xplane *x, plane *p, const field *entry) {
  slice s = entry->bytes;
  event_name n = {0, {s.at, s.at}, ETT_STRING_NONE, ETT_STRING_NONE};
  if (READ_WANTED(&s, {1, 0, &n.id}, {2, 2, &n.body}))
    return 0;
  if (entry->number == 4) {
    if (ett_grow(&p->events, p->event_count, &p->event_capacity, 64, sizeof n))
      return -1;
    p->events[p->event_count++] = n;
    return 0;
  }
  stat_name stat = {.id = n.id, .name = {n.body.at, n.body.at}, .arg = -1};
  READ_WANTED(&n.body, {2, 2, &stat.name});
  for (uint32_t i = 0; i < x->r->arg_count; i++)
    if (slice_is(stat.name, x->r->args[i]))
      stat.arg = (int32_t)i;
  stat.correlation = slice_is(stat.name, "correlation_id");
  if (ett_grow(&p->stats, p->stat_count, &p->stat_capacity, 64, sizeof stat))
    return -1;
  p->stats[p->stat_count++] = stat;
  return 0;
}

/* Stores one stat as an arg of the row appended next. */
static int take_stat(xplane *x, const plane *p, slice s, ett_row *row) {
  static const uint8_t kinds[] = {
      [2] = DOUBLE, [3] = UNSIGNED, [4] = SIGNED, [5] = TEXT, [6] = TEXT};
  field f;
  const stat_name *name = NULL, *to;
  ett_trace_arg arg = {.row = ett_part_next(x->r->part), .type = ETT_ARG_NONE};
  slice text = {0};
  while (next(&s, &f) > 0) {
    if (f.number == 1) {
      name = stat_of(p, (int64_t)f.value);
    } else if (f.number == 7 && (to = stat_of(p, (int64_t)f.value))) {
      arg.type = ETT_ARG_TEXT;
      text = to->name;
    } else {
      take_value(&f, kinds, sizeof kinds, &arg, &text);
    }
  }
  if (!name || arg.type == ETT_ARG_NONE)
    return 0;
  if (name->correlation && arg.type == ETT_ARG_INTEGER)
    row->correlation = arg.value.integer;
  if (name->arg < 0)
    return 0;
  if (arg.type == ETT_ARG_TEXT) {
    arg.value.text = ett_reading_intern(x->r, text);
    if (arg.value.text == ETT_STRING_NONE)
      return -1;
  }
  return ett_part_arg(x->r->part, (uint32_t)name->arg, arg);
}

static int take_stats(xplane *x, const plane *p, slice s, uint32_t number, ett_row *row) {
  field f;
  while (next(&s, &f) > 0)
    if (f.number == number && f.wire == 2 && take_stat(x, p, f.bytes, row))
      return -1;
  return 0;
}

/* Name of an event's metadata: its display name, else its name. */
static int resolve(xplane *x, event_name *m) {
  slice s = m->body, name = {s.at, s.at}, display = {s.at, s.at};
  READ_WANTED(&s, {2, 2, &name}, {4, 2, &display});
  m->name = ett_reading_intern(x->r, display.at < display.end ? display : name);
  m->long_name = ett_reading_intern(x->r, name);
  return m->name == ETT_STRING_NONE || m->long_name == ETT_STRING_NONE ? -1 : 0;
}

static int64_t floor_ns(int64_t ps) {
  return ps / 1000 - (ps % 1000 < 0);
}

static int take_event(xplane *x, plane *p, slice s, int64_t line_ps, uint32_t track) {
  const char *at = s.at;
  slice whole = s;
  field f;
  int status;
  int64_t id = 0;
  ett_row row = {.correlation = -1,
                 .track = track,
                 .stream = -1,
                 .device = -1,
                 .category = ETT_CATEGORY_NONE,
                 .ph = 'X'};
  bool timed = true;
  x->r->part->seen++;
  while ((status = next(&s, &f)) > 0) {
    if (f.wire != 0)
      continue;
    if (f.number == 1)
      id = (int64_t)f.value;
    if (f.number == 2)
      row.ts = (int64_t)f.value;
    if (f.number == 3)
      row.dur = (int64_t)f.value;
    if (f.number == 5)
      timed = false; /* a number of occurrences, not an interval */
  }
  if (status < 0) {
    ett_reading_damage(x->r, ETT_DAMAGE_BAD_MESSAGE, at);
    return 0;
  }
  if (!timed)
    return 0;
  if (row.dur < 0)
    ett_reading_spoil(x->r, &row, ETT_DAMAGE_NEGATIVE_DUR, at);
  else if (row.dur > ETT_TRACE_LONGEST_S * 1000000000000)
    ett_reading_spoil(x->r, &row, ETT_DAMAGE_LONG_DUR, at);
  if (__builtin_add_overflow(row.ts, line_ps, &row.ts))
    ett_reading_spoil(x->r, &row, ETT_DAMAGE_INTEGER_OVERFLOW, at);
  if (x->r->ticks_per_second == 1000000000) {
    int64_t end;
    if (__builtin_add_overflow(row.ts, row.dur, &end))
      end = row.ts;
    row.ts = floor_ns(row.ts); /* both ends, so that neighbours still touch */
    row.dur = floor_ns(end) - row.ts;
  }
  event_name *m = entry_of(p->events, p->event_count, sizeof *p->events, id);
  if (m) {
    if (m->name == ETT_STRING_NONE && resolve(x, m))
      return -1;
    row.name = m->name;
    if (x->long_name >= 0) {
      ett_trace_arg arg = {.row = ett_part_next(x->r->part), .type = ETT_ARG_TEXT};
      arg.value.text = m->long_name;
      if (ett_part_arg(x->r->part, (uint32_t)x->long_name, arg))
        return -1;
    }
    if (take_stats(x, p, m->body, 5, &row))
      return -1;
  } else {
    char text[32];
    int n = snprintf(text, sizeof text, "event %" PRId64, id);
    row.name = ett_part_intern(x->r->part, text, (size_t)n, 0);
    if (row.name == ETT_STRING_NONE)
      return -1;
  }
  if (take_stats(x, p, whole, 4, &row))
    return -1;
  return ett_part_append(x->r->part, &row);
}

static int take_line(xplane *x, plane *p, slice s, int64_t pid, uint32_t process) {
  field f;
  slice scan = s, name = {s.at, s.at}, display = {s.at, s.at};
  int64_t tid = 0, timestamp = 0;
  READ_WANTED(&scan, {1, 0, &tid}, {3, 0, &timestamp}, {2, 2, &name}, {11, 2, &display});
  uint32_t track = ett_part_track(x->r->part, pid, ETT_ID_INTEGER, tid, ETT_ID_INTEGER);
  uint32_t thread = ett_reading_intern(x->r, display.at < display.end ? display : name);
  if (track == ETT_TRACE_NONE || thread == ETT_STRING_NONE)
    return -1;
  x->r->part->tracks[track].thread = thread;
  x->r->part->tracks[track].process = process;
  int64_t ps;
  if (__builtin_sub_overflow(timestamp, x->base_ns, &ps) ||
      __builtin_mul_overflow(ps, 1000, &ps))
    ps = INT64_MAX;
  int status;
  while ((status = next(&s, &f)) > 0)
    if (f.number == 4 && f.wire == 2 && take_event(x, p, f.bytes, ps, track))
      return -1;
  if (status < 0)
    ett_reading_damage(x->r, ETT_DAMAGE_BAD_MESSAGE, s.at);
  return 0;
}

static int take_plane(xplane *x, slice s, int64_t number) {
  plane p = {0};
  field f;
  slice scan = s, name = {s.at, s.at};
  int status, result = -1;
  uint32_t process;
  while ((status = next(&scan, &f)) > 0) {
    if (f.wire != 2)
      continue;
    if (f.number == 2)
      name = f.bytes;
    if ((f.number == 4 || f.number == 5) && add_name(x, &p, &f))
      goto done;
  }
  if (status < 0)
    ett_reading_damage(x->r, ETT_DAMAGE_BAD_MESSAGE, scan.at);
  if (p.stat_count)
    qsort(p.stats, p.stat_count, sizeof *p.stats, by_id);
  if (p.event_count)
    qsort(p.events, p.event_count, sizeof *p.events, by_id);
  process = ett_reading_intern(x->r, name);
  if (process == ETT_STRING_NONE)
    goto done;
  scan = s;
  while (next(&scan, &f) > 0)
    if (f.number == 3 && f.wire == 2 && take_line(x, &p, f.bytes, number, process))
      goto done;
  result = 0;
done:
  free(p.stats);
  free(p.events);
  return result;
}

/* The earliest timestamp of a line that has events. */
static int64_t earliest(slice s) {
  int64_t least = INT64_MAX;
  field f, g, h;
  while (next(&s, &f) > 0) {
    if (f.number != 1 || f.wire != 2)
      continue;
    slice p = f.bytes;
    while (next(&p, &g) > 0) {
      if (g.number != 3 || g.wire != 2)
        continue;
      slice l = g.bytes;
      int64_t timestamp = 0;
      bool events = false;
      while (next(&l, &h) > 0) {
        if (h.number == 3 && h.wire == 0)
          timestamp = (int64_t)h.value;
        events |= h.number == 4;
      }
      if (events && timestamp > 0 && timestamp < least)
        least = timestamp;
    }
  }
  return least == INT64_MAX ? 0 : least;
}

/* The stat profile_start_time of a plane, the start of the session in ns; 0 if absent. */
static int64_t start_of(slice plane) {
  field f;
  slice s = plane;
  uint64_t named = ABSENT;
  while (next(&s, &f) > 0) {
    uint64_t id = 0;
    slice body = {f.bytes.at, f.bytes.at}, name = body;
    if (f.number != 5 || f.wire != 2)
      continue;
    READ_WANTED(&f.bytes, {1, 0, &id}, {2, 2, &body});
    READ_WANTED(&body, {2, 2, &name});
    if (slice_is(name, "profile_start_time"))
      named = id;
  }
  while (next(&plane, &f) > 0) {
    uint64_t id = 0, start = 0;
    if (f.number != 6 || f.wire != 2)
      continue;
    READ_WANTED(&f.bytes, {1, 0, &id}, {3, 0, &start}, {4, 0, &start});
    if (id == named && start <= INT64_MAX)
      return (int64_t)start;
  }
  return 0;
}

/* The start of the session in ns, or 0. */
static int64_t session_start(slice s) {
  field f;
  while (next(&s, &f) > 0) {
    if (f.number != 1 || f.wire != 2)
      continue;
    slice scan = f.bytes, name = {scan.at, scan.at};
    READ_WANTED(&scan, {2, 2, &name});
    if (slice_is(name, "Task Environment"))
      return start_of(f.bytes);
  }
  return 0;
}

int ett_xplane_parse(const ett_reading *r) {
  slice s = r->bytes;
  xplane x = {.r = r, .long_name = -1, .base_ns = earliest(s)};
  int64_t base = session_start(s);
  /* A line may begin shortly before the session; its time may be absolute. */
  if (x.base_ns >= ETT_TRACE_EPOCH_NS || __builtin_add_overflow(base, x.base_ns, &base))
    base = x.base_ns;
  for (uint32_t i = 0; i < r->arg_count; i++)
    if (strcmp(r->args[i], "long_name") == 0)
      x.long_name = (int32_t)i;
  field f;
  int status;
  int64_t number = 0;
  if (ett_reading_base(r, base))
    return -1;
  while ((status = next(&s, &f)) > 0) {
    if (f.wire != 2)
      continue;
    if (f.number == 1 && take_plane(&x, f.bytes, ++number))
      return -1;
    if (f.number == 4 && ett_part_member(r->part, "hostname", 8, f.bytes.at,
                                         (size_t)(f.bytes.end - f.bytes.at)))
      return -1;
  }
  if (status < 0)
    ett_reading_damage(r, ETT_DAMAGE_BAD_MESSAGE, s.at);
  return 0;
}
