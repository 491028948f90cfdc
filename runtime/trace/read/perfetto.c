/* Perfetto traces (pftrace): Trace of perfetto/trace/trace.proto, with its field numbers.
 *
 * Read are slices and instants of TrackEvent, descriptors of tracks, interned names and
 * debug annotations, which are the args. Slices begin and end in packets of their own;
 * read/merge.h joins them. Packets of system tracing (ftrace, counters) are skipped.
 * rocprofv3 names a track of a device "COMPUTE AGENT [4] QUEUE [1] (GPU)": the numbers
 * are device and stream. */
#include "trace/read/wire.h"
#include "trace/table/index.h"

/* The key of an interned text of a packet sequence: the field of InternedData and the
 * number; DEFAULT_TRACK: the sequence's default track. */
typedef struct key {
  uint64_t sequence, iid, kind;
} key;

typedef struct interned {
  slice text;
  uint64_t track;
} interned;

typedef struct track {
  uint64_t uuid, parent;
  int64_t pid, tid;
  bool has_pid, has_tid;
  slice name, process;
  uint32_t number; /* number in the part; set at its first row */
  int32_t stream;
  int16_t device;
} track;

typedef struct perfetto {
  const ett_reading *r;
  ett_index texts, tracks; /* interned by key, tracks by uuid */
  slice none;
  int64_t base_ns;
  int64_t tick; /* ticks per nanosecond */
} perfetto;

enum { CATEGORIES = 1, NAMES = 2, ANNOTATIONS = 3, STRINGS = 29, DEFAULT_TRACK = 255 };

static void damaged(perfetto *x, const char *at) {
  ett_reading_damage(x->r, ETT_DAMAGE_BAD_MESSAGE, at);
}

static int put_text(perfetto *x, key of, interned t) {
  int fresh;
  interned *item = ett_index_put(&x->texts, &of, sizeof of, sizeof t, &fresh);
  if (!item)
    return -1;
  *item = t; /* redefined after the sequence was cleared */
  return 0;
}

static interned text_of(const perfetto *x, uint64_t sequence, uint64_t kind,
                        uint64_t iid) {
  const key of = {sequence, iid, kind};
  const interned *t = ett_index_find(&x->texts, &of, sizeof of, sizeof *t);
  return t ? *t : (interned){x->none, 0};
}

/* The track of a uuid, created if new; NULL if memory runs out. */
static track *track_of(perfetto *x, uint64_t uuid) {
  int fresh;
  track *t = ett_index_put(&x->tracks, &uuid, sizeof uuid, sizeof *t, &fresh);
  if (t && fresh)
    *t = (track){.uuid = uuid,
                 .name = x->none,
                 .process = x->none,
                 .number = ETT_TRACE_NONE,
                 .stream = -1,
                 .device = -1};
  return t;
}

/* The number in the next "[n]" of a text from *at on; -1 if there is none. */
static int64_t bracketed(slice text, const char **at) {
  const char *s = *at;
  while (s < text.end && *s != '[')
    s++;
  int64_t value = -1;
  for (s++; s < text.end && *s >= '0' && *s <= '9' && value < 1000000; s++)
    value = (value < 0 ? 0 : value) * 10 + (*s - '0');
  *at = s < text.end ? s : text.end;
  return value;
}

static int take_descriptor(perfetto *x, slice s) {
  field f, g;
  slice scan = s;
  uint64_t uuid = 0;
  while (next(&scan, &f) > 0)
    if (f.number == 1 && f.wire == 0)
      uuid = f.value;
  track *t = track_of(x, uuid);
  if (!t)
    return -1;
  int status;
  while ((status = next(&s, &f)) > 0) {
    if ((f.number == 2 || f.number == 10) && f.wire == 2)
      t->name = f.bytes;
    if (f.number == 5 && f.wire == 0)
      t->parent = f.value;
    if ((f.number != 3 && f.number != 4) || f.wire != 2)
      continue;
    slice inner = f.bytes, said = x->none;
    while (next(&inner, &g) > 0) {
      if (g.number == 1 && g.wire == 0) {
        t->pid = (int64_t)g.value;
        t->has_pid = true;
      }
      if (f.number == 4 && g.number == 2 && g.wire == 0) {
        t->tid = (int64_t)g.value;
        t->has_tid = true;
      }
      if (g.wire == 2 && g.number == (f.number == 3 ? 6 : 5))
        said = g.bytes;
    }
    if (f.number == 3)
      t->process = said;
    else if (said.at < said.end)
      t->name = said;
  }
  if (status < 0)
    damaged(x, s.at);
  const char *at = t->name.at;
  if (memmem(t->name.at, (size_t)(t->name.end - t->name.at), "AGENT", 5)) {
    t->device = (int16_t)bracketed(t->name, &at);
    t->stream = (int32_t)bracketed(t->name, &at);
  }
  return 0;
}

/* The part's track of a Perfetto track: its process and thread, or those of its
 * parents. */
static uint32_t part_track(perfetto *x, track *t) {
  if (t->number != ETT_TRACE_NONE)
    return t->number;
  const track *up = t;
  int64_t pid = t->pid;
  slice process = t->process;
  for (int depth = 0; depth < 8 && !up->has_pid && up->parent; depth++) {
    up = ett_index_find(&x->tracks, &up->parent, sizeof up->parent, sizeof *up);
    if (!up)
      break;
    pid = up->pid;
    process = up->process;
  }
  uint32_t number =
      ett_part_track(x->r->part, pid, ETT_ID_INTEGER,
                     t->has_tid ? t->tid : (int64_t)(t->uuid >> 1), ETT_ID_INTEGER);
  if (number == ETT_TRACE_NONE)
    return number;
  uint32_t thread = ett_reading_intern(x->r, t->name);
  uint32_t home = ett_reading_intern(x->r, process);
  if (thread == ETT_STRING_NONE || home == ETT_STRING_NONE)
    return ETT_TRACE_NONE;
  x->r->part->tracks[number].thread = thread;
  x->r->part->tracks[number].process = home;
  return t->number = number;
}

/* Stores a debug annotation as an arg of the row appended next. */
static int take_annotation(perfetto *x, uint64_t sequence_id, slice s, ett_row *row) {
  field f;
  slice name = x->none, text = name;
  ett_trace_arg arg = {.type = ETT_ARG_NONE};
  while (next(&s, &f) > 0) {
    if (f.number == 1 && f.wire == 0)
      name = text_of(x, sequence_id, ANNOTATIONS, f.value).text;
    if (f.number == 10 && f.wire == 2)
      name = f.bytes;
    if (f.number >= 2 && f.number <= 4 && f.wire == 0) {
      arg.type = f.value > (uint64_t)INT64_MAX && f.number == 3 ? ETT_ARG_FLOAT
                                                                : ETT_ARG_INTEGER;
      if (arg.type == ETT_ARG_FLOAT)
        arg.value.number = (double)f.value;
      else
        arg.value.integer = (int64_t)f.value;
    }
    if (f.number == 5 && f.wire == 1) {
      arg.type = ETT_ARG_FLOAT;
      memcpy(&arg.value.number, &f.value, 8);
    }
    if (f.number == 6 && f.wire == 2) {
      arg.type = ETT_ARG_TEXT;
      text = f.bytes;
    }
    if (f.number == 17 && f.wire == 0) {
      arg.type = ETT_ARG_TEXT;
      text = text_of(x, sequence_id, STRINGS, f.value).text;
    }
  }
  if (arg.type == ETT_ARG_INTEGER) {
    if (slice_is(name, "corr_id") || slice_is(name, "correlation_id") ||
        slice_is(name, "correlation"))
      row->correlation = arg.value.integer;
    if (slice_is(name, "stream") && arg.value.integer >= 0 &&
        arg.value.integer <= INT32_MAX)
      row->stream = (int32_t)arg.value.integer;
    if (slice_is(name, "device") && arg.value.integer >= 0 &&
        arg.value.integer <= INT16_MAX)
      row->device = (int16_t)arg.value.integer;
  }
  return ett_reading_arg(x->r, name, arg, text);
}

/* A slice's begin or end, or an instant. */
static int take_event(perfetto *x, uint64_t sequence_id, slice s, int64_t ns) {
  const char *at = s.at;
  slice scan = s, name = x->none, category = name;
  uint64_t type = 0, uuid = 0;
  bool has_uuid = false;
  field f;
  int status;
  while ((status = next(&scan, &f)) > 0) {
    if (f.number == 9 && f.wire == 0)
      type = f.value;
    if (f.number == 11 && f.wire == 0) {
      uuid = f.value;
      has_uuid = true;
    }
    if (f.number == 10 && f.wire == 0)
      name = text_of(x, sequence_id, NAMES, f.value).text;
    if (f.number == 23 && f.wire == 2)
      name = f.bytes;
    if (f.number == 3 && f.wire == 0)
      category = text_of(x, sequence_id, CATEGORIES, f.value).text;
    if (f.number == 22 && f.wire == 2)
      category = f.bytes;
  }
  if (status < 0) {
    damaged(x, at);
    return 0;
  }
  if (type < 1 || type > 3)
    return 0;
  x->r->part->seen++;
  if (!has_uuid)
    uuid = text_of(x, sequence_id, DEFAULT_TRACK, 0).track;
  track *t = track_of(x, uuid);
  uint32_t number = t ? part_track(x, t) : ETT_TRACE_NONE;
  if (number == ETT_TRACE_NONE)
    return -1;
  ett_row row = {.correlation = -1,
                 .track = number,
                 .stream = t->stream,
                 .device = t->device,
                 .category = ETT_CATEGORY_NONE,
                 .ph = type == 1   ? 'B'
                       : type == 2 ? 'E'
                                   : 'i'};
  if (__builtin_sub_overflow(ns, x->base_ns, &row.ts) ||
      __builtin_mul_overflow(row.ts, x->tick, &row.ts)) {
    ett_reading_spoil(x->r, &row, ETT_DAMAGE_INTEGER_OVERFLOW, at);
    row.ts = 0;
  }
  row.name = ett_reading_intern(x->r, name);
  if (row.name == ETT_STRING_NONE)
    return -1;
  if (category.at < category.end)
    row.category = ett_reading_category(x->r, category);
  while (next(&s, &f) > 0)
    if (f.number == 4 && f.wire == 2 && take_annotation(x, sequence_id, f.bytes, &row))
      return -1;
  return ett_part_append(x->r->part, &row);
}

static int take_interned(perfetto *x, uint64_t sequence_id, slice s) {
  field f, g;
  while (next(&s, &f) > 0) {
    if ((f.number != CATEGORIES && f.number != NAMES && f.number != ANNOTATIONS &&
         f.number != STRINGS) ||
        f.wire != 2)
      continue;
    key of = {.sequence = sequence_id, .kind = f.number};
    interned t = {.text = x->none};
    slice inner = f.bytes;
    while (next(&inner, &g) > 0) {
      if (g.number == 1 && g.wire == 0)
        of.iid = g.value;
      if (g.number == 2 && g.wire == 2)
        t.text = g.bytes;
    }
    if (put_text(x, of, t))
      return -1;
  }
  return 0;
}

/* The default track of a sequence: TracePacketDefaults.track_event_defaults. */
static int take_defaults(perfetto *x, uint64_t sequence_id, slice s) {
  field f, g;
  while (next(&s, &f) > 0) {
    slice inner = f.bytes;
    while (f.number == 11 && f.wire == 2 && next(&inner, &g) > 0)
      if (g.number == 11 && g.wire == 0 &&
          put_text(x, (key){.sequence = sequence_id, .kind = DEFAULT_TRACK},
                   (interned){x->none, g.value}))
        return -1;
  }
  return 0;
}

/* Reads one packet; descriptors are read in a separate pass before all events. */
static int take_packet(perfetto *x, slice s, bool events) {
  field f;
  slice scan = s, event = {0};
  uint64_t sequence_id = 0;
  int64_t ns = 0;
  int status;
  while ((status = next(&scan, &f)) > 0) {
    if (f.number == 10 && f.wire == 0)
      sequence_id = f.value;
    if (f.number == 8 && f.wire == 0)
      ns = (int64_t)f.value;
    if (f.number == 11 && f.wire == 2)
      event = f.bytes;
  }
  if (status < 0) {
    if (events)
      damaged(x, s.at);
    return 0;
  }
  if (!events) {
    if (event.at && ns > 0 && (x->base_ns == 0 || ns < x->base_ns))
      x->base_ns = ns;
    while (next(&s, &f) > 0)
      if (f.number == 60 && f.wire == 2 && take_descriptor(x, f.bytes))
        return -1;
    return 0;
  }
  while (next(&s, &f) > 0) {
    if (f.number == 12 && f.wire == 2 && take_interned(x, sequence_id, f.bytes))
      return -1;
    if (f.number == 59 && f.wire == 2 && take_defaults(x, sequence_id, f.bytes))
      return -1;
  }
  return event.at ? take_event(x, sequence_id, event, ns) : 0;
}

int ett_perfetto_parse(const ett_reading *r) {
  perfetto x = {.r = r,
                .none = {r->bytes.at, r->bytes.at},
                .tick = r->ticks_per_second / 1000000000};
  int result = 0;
  for (int pass = 0; pass < 2 && !result; pass++) {
    slice s = r->bytes;
    field f;
    int status = 0;
    while (!result && (status = next(&s, &f)) > 0)
      if (f.number == 1 && f.wire == 2)
        result = take_packet(&x, f.bytes, pass == 1);
    if (status < 0 && pass == 1)
      damaged(&x, s.at);
  }
  ett_index_free(&x.texts);
  ett_index_free(&x.tracks);
  return result ? -1 : ett_reading_base(r, x.base_ns);
}
