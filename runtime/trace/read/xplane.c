/* XPlane protobufs: XSpace of tsl/profiler/protobuf/xplane.proto, with its field numbers.
 *
 * Unknown fields are skipped; a file that ends early gives the planes and lines before
 * its end. Times: a line's timestamp_ns is absolute, an event's offset_ps counts from it.
 * The args of an event are its stats and those of its metadata. */
#include "trace/read/load.h"
#include "trace/read/xplane_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct xplane {
  ett_trace_part *part;
  const uint8_t *start;
  const char *const *args;
  uint32_t arg_count;
  int32_t long_name; /* column of the arg "long_name", or -1 */
  int64_t base_ns, ticks_per_second;
} xplane;

static void damaged(xplane *x, const uint8_t *at) {
  ett_part_damage(x->part, ETT_DAMAGE_BAD_MESSAGE, (uint64_t)(at - x->start));
}

static uint32_t intern(xplane *x, slice s) {
  return ett_part_intern(x->part, (const char *)s.at, (size_t)(s.end - s.at),
                         s.at > x->start ? (uint64_t)(s.at - x->start) : 0);
}

/* Stores one stat as an arg of the row appended next. */
static int take_stat(xplane *x, const plane *p, slice s, ett_row *row) {
  field f;
  const stat_name *name = NULL;
  ett_trace_arg arg = {.row = ett_part_next(x->part), .type = ETT_ARG_NONE};
  slice text = {0};
  while (next(&s, &f) > 0) {
    switch (f.number) {
    case 1:
      name = ett_plane_stat(p, (int64_t)f.value);
      break;
    case 2:
      arg.type = ETT_ARG_FLOAT;
      memcpy(&arg.value.number, &f.value, 8);
      break;
    case 3:
    case 4:
      arg.type = ETT_ARG_INTEGER;
      arg.value.integer = (int64_t)f.value;
      if (f.number == 3 && f.value > (uint64_t)INT64_MAX) {
        arg.type = ETT_ARG_FLOAT;
        arg.value.number = (double)f.value;
      }
      break;
    case 5:
    case 6:
      arg.type = ETT_ARG_TEXT;
      text = f.bytes;
      break;
    case 7: {
      const stat_name *to = ett_plane_stat(p, (int64_t)f.value);
      if (to) {
        arg.type = ETT_ARG_TEXT;
        text = to->name;
      }
      break;
    }
    default:
      break;
    }
  }
  if (!name || arg.type == ETT_ARG_NONE)
    return 0;
  if (name->correlation && arg.type == ETT_ARG_INTEGER)
    row->correlation = arg.value.integer;
  if (name->arg < 0)
    return 0;
  if (arg.type == ETT_ARG_TEXT) {
    arg.value.text = intern(x, text);
    if (arg.value.text == ETT_STRING_NONE)
      return -1;
  }
  return ett_part_arg(x->part, (uint32_t)name->arg, arg);
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
  field f;
  while (next(&s, &f) > 0) {
    if (f.number == 2 && f.wire == 2)
      name = f.bytes;
    if (f.number == 4 && f.wire == 2)
      display = f.bytes;
  }
  m->name = intern(x, display.at < display.end ? display : name);
  m->long_name = intern(x, name);
  return m->name == ETT_STRING_NONE || m->long_name == ETT_STRING_NONE ? -1 : 0;
}

static int take_event(xplane *x, plane *p, slice s, int64_t line_ps, uint32_t track) {
  const uint8_t *at = s.at;
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
  x->part->seen++;
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
    damaged(x, at);
    return 0;
  }
  if (!timed)
    return 0;
  if (row.dur < 0) {
    ett_part_damage(x->part, ETT_DAMAGE_NEGATIVE_DUR, (uint64_t)(at - x->start));
    row.ph |= ETT_PH_INVALID;
  } else if (row.dur > ETT_TRACE_LONGEST_S * 1000000000000) {
    ett_part_damage(x->part, ETT_DAMAGE_LONG_DUR, (uint64_t)(at - x->start));
    row.ph |= ETT_PH_INVALID;
  }
  if (__builtin_add_overflow(row.ts, line_ps, &row.ts)) {
    ett_part_damage(x->part, ETT_DAMAGE_INTEGER_OVERFLOW, (uint64_t)(at - x->start));
    row.ph |= ETT_PH_INVALID;
  }
  if (x->ticks_per_second == 1000000000) {
    row.ts = row.ts / 1000;
    row.dur = row.dur / 1000;
  }
  event_name *m = ett_plane_event(p, id);
  if (m) {
    if (m->name == ETT_STRING_NONE && resolve(x, m))
      return -1;
    row.name = m->name;
    if (x->long_name >= 0) {
      ett_trace_arg arg = {.row = ett_part_next(x->part), .type = ETT_ARG_TEXT};
      arg.value.text = m->long_name;
      if (ett_part_arg(x->part, (uint32_t)x->long_name, arg))
        return -1;
    }
    if (take_stats(x, p, m->body, 5, &row))
      return -1;
  } else {
    char text[32];
    int n = snprintf(text, sizeof text, "event %" PRId64, id);
    row.name = ett_part_intern(x->part, text, (size_t)n, 0);
    if (row.name == ETT_STRING_NONE)
      return -1;
  }
  if (take_stats(x, p, whole, 4, &row))
    return -1;
  return ett_part_append(x->part, &row);
}

static int take_line(xplane *x, plane *p, slice s, int64_t pid, uint32_t process) {
  field f;
  slice scan = s, name = {s.at, s.at}, display = {s.at, s.at};
  int64_t tid = 0, timestamp = 0;
  while (next(&scan, &f) > 0) {
    if (f.number == 1 && f.wire == 0)
      tid = (int64_t)f.value;
    if (f.number == 3 && f.wire == 0)
      timestamp = (int64_t)f.value;
    if (f.number == 2 && f.wire == 2)
      name = f.bytes;
    if (f.number == 11 && f.wire == 2)
      display = f.bytes;
  }
  uint32_t track = ett_part_track(x->part, pid, ETT_ID_INTEGER, tid, ETT_ID_INTEGER);
  uint32_t thread = intern(x, display.at < display.end ? display : name);
  if (track == ETT_TRACE_NONE || thread == ETT_STRING_NONE)
    return -1;
  x->part->tracks[track].thread = thread;
  x->part->tracks[track].process = process;
  int64_t ps;
  if (__builtin_sub_overflow(timestamp, x->base_ns, &ps) ||
      __builtin_mul_overflow(ps, 1000, &ps))
    ps = INT64_MAX;
  int status;
  while ((status = next(&s, &f)) > 0)
    if (f.number == 4 && f.wire == 2 && take_event(x, p, f.bytes, ps, track))
      return -1;
  if (status < 0)
    damaged(x, s.at);
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
    if (f.number == 4 && ett_plane_add_event(&p, f.bytes))
      goto done;
    if (f.number == 5 && ett_plane_add_stat(&p, f.bytes, x->args, x->arg_count))
      goto done;
  }
  if (status < 0)
    damaged(x, scan.at);
  ett_plane_sort(&p);
  process = intern(x, name);
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

int ett_xplane_parse(const void *bytes, size_t size, ett_trace_part *part,
                     const char *const *args, uint32_t arg_count,
                     int64_t ticks_per_second, ett_err *err) {
  slice s = {bytes, (const uint8_t *)bytes + size};
  xplane x = {.part = part,
              .start = bytes,
              .args = args,
              .arg_count = arg_count,
              .long_name = -1,
              .ticks_per_second = ticks_per_second};
  for (uint32_t i = 0; i < arg_count; i++)
    if (strcmp(args[i], "long_name") == 0)
      x.long_name = (int32_t)i;
  x.base_ns = earliest(s);
  char text[32];
  int n = snprintf(text, sizeof text, "%" PRId64, x.base_ns);
  field f;
  int status;
  int64_t number = 0;
  if (ett_part_member(part, "baseTimeNanoseconds", 19, text, (size_t)n))
    goto memory;
  while ((status = next(&s, &f)) > 0) {
    if (f.wire != 2)
      continue;
    if (f.number == 1 && take_plane(&x, f.bytes, ++number))
      goto memory;
    if (f.number == 4 && ett_part_member(part, "hostname", 8, (const char *)f.bytes.at,
                                         (size_t)(f.bytes.end - f.bytes.at)))
      goto memory;
  }
  if (status < 0)
    damaged(&x, s.at);
  return 0;
memory:
  return ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
}
