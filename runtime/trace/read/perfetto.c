/* Perfetto traces (pftrace): Trace of perfetto/trace/trace.proto, with its field numbers.
 *
 * This reads slices and instants of TrackEvent, descriptors of tracks, interned names,
 * and debug annotations, which become args. Slices begin and end in packets of their own;
 * read/merge.h joins them. Packets of system tracing (ftrace, counters) are skipped.
 * rocprofv3 names a track of a device "COMPUTE AGENT [4] QUEUE [1] (GPU)": the numbers
 * are device and stream. */
#include "trace/read/wire.h"
#include "trace/table/index.h"

/* The key of a fact about a packet sequence. An interned text has the field of
 * InternedData and a number, a clock has its number, and a default has neither. */
typedef struct key {
  uint64_t sequence, iid, kind;
} key;

typedef struct fact {
  slice text;
  uint64_t number;   /* default track or clock */
  uint64_t unit, at; /* clock: ns of a tick; its last time in ns */
  bool counts_on;    /* clock: a time counts from the sequence's last one */
} fact;

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
  ett_index facts, tracks; /* interned by key, tracks by uuid */
  slice none;
  int64_t base_ns;
  int64_t tick; /* ticks per nanosecond */
} perfetto;

enum { CATEGORIES = 1, NAMES = 2, ANNOTATIONS = 3, STRINGS = 29 };
enum { CLOCK = 253, DEFAULT_CLOCK = 254, DEFAULT_TRACK = 255 };

static void damaged(perfetto *x, const char *at) {
  ett_reading_damage(x->r, ETT_DAMAGE_BAD_MESSAGE, at);
}

static int put_fact(perfetto *x, key of, fact t) {
  int fresh;
  fact *item = ett_index_put(&x->facts, &of, sizeof of, sizeof t, &fresh);
  if (!item)
    return -1;
  *item = t; /* redefined after the sequence was cleared */
  return 0;
}

static fact *find_fact(const perfetto *x, uint64_t sequence, uint64_t kind,
                       uint64_t iid) {
  const key of = {sequence, iid, kind};
  return ett_index_find(&x->facts, &of, sizeof of, sizeof(fact));
}

static slice text_of(const perfetto *x, uint64_t sequence, uint64_t kind, uint64_t iid) {
  const fact *t = find_fact(x, sequence, kind, iid);
  return t ? t->text : x->none;
}

static uint64_t default_of(const perfetto *x, uint64_t sequence, uint64_t kind) {
  const fact *t = find_fact(x, sequence, kind, 0);
  return t ? t->number : 0;
}

/* A packet's time in nanoseconds; ABSENT if it has none. */
static uint64_t time_of(const perfetto *x, uint64_t sequence, uint64_t clock,
                        uint64_t time) {
  if (time == ABSENT)
    return time;
  if (clock == ABSENT)
    clock = default_of(x, sequence, DEFAULT_CLOCK);
  fact *c = find_fact(x, sequence, CLOCK, clock);
  if (!c)
    return time;
  time *= c->unit;
  return c->counts_on ? (c->at += time) : time;
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
  uint64_t uuid = 0, parent = 0, pid = ABSENT, tid = ABSENT;
  slice name = {0}, of_process = {0}, of_thread = {0}, process = x->none,
        thread = x->none;
  const int status =
      READ_WANTED(&s, {1, 0, &uuid}, {2, 2, &name}, {10, 2, &name}, {5, 0, &parent},
                  {3, 2, &of_process}, {4, 2, &of_thread});
  track *t = track_of(x, uuid);
  if (!t)
    return -1;
  if (status < 0)
    damaged(x, s.at);
  READ_WANTED(&of_process, {1, 0, &pid}, {6, 2, &process});
  READ_WANTED(&of_thread, {1, 0, &pid}, {2, 0, &tid}, {5, 2, &thread});
  t->name = thread.at < thread.end ? thread : name.at ? name : t->name;
  t->process = of_process.at ? process : t->process;
  t->parent = parent ? parent : t->parent;
  if (pid != ABSENT) {
    t->pid = (int64_t)pid;
    t->has_pid = true;
  }
  if (tid != ABSENT) {
    t->tid = (int64_t)tid;
    t->has_tid = true;
  }
  const char *at = t->name.at;
  if (memmem(t->name.at, (size_t)(t->name.end - t->name.at), "AGENT", 5)) {
    t->device = (int16_t)bracketed(t->name, &at);
    t->stream = (int32_t)bracketed(t->name, &at);
  }
  return 0;
}

/* The part's track of a Perfetto track: its process and thread, or those of its
 * parents. Without a thread the uuid is the tid; bit 62 keeps it apart from threads. */
static uint32_t part_track(perfetto *x, track *t) {
  if (t->number != ETT_TRACE_NONE)
    return t->number;
  const track *up = t;
  int64_t pid = t->pid;
  int has_pid = t->has_pid;
  slice process = t->process;
  for (int depth = 0; depth < 8 && (!has_pid || process.at == process.end) && up->parent;
       depth++) {
    up = ett_index_find(&x->tracks, &up->parent, sizeof up->parent, sizeof *up);
    if (!up)
      break;
    if (!has_pid)
      pid = up->pid;
    has_pid |= up->has_pid;
    if (process.at == process.end)
      process = up->process;
  }
  uint32_t number = ett_part_track(
      x->r->part, pid, ETT_ID_INTEGER,
      t->has_tid ? t->tid : (int64_t)(t->uuid << 2 >> 2 | UINT64_C(1) << 62),
      ETT_ID_INTEGER);
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
  static const uint8_t kinds[] = {
      [2] = SIGNED, [3] = UNSIGNED, [4] = SIGNED, [5] = DOUBLE, [6] = TEXT};
  field f;
  slice name = x->none, text = name;
  ett_trace_arg arg = {.type = ETT_ARG_NONE};
  while (next(&s, &f) > 0) {
    take_value(&f, kinds, sizeof kinds, &arg, &text);
    if (f.number == 1 && f.wire == 0)
      name = text_of(x, sequence_id, ANNOTATIONS, f.value);
    if (f.number == 10 && f.wire == 2)
      name = f.bytes;
    if (f.number == 17 && f.wire == 0) {
      arg.type = ETT_ARG_TEXT;
      text = text_of(x, sequence_id, STRINGS, f.value);
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

/* The time of a row in ticks from the base. */
static void set_time(perfetto *x, ett_row *row, uint64_t ns, const char *at) {
  if (ns == ABSENT) {
    ett_reading_spoil(x->r, row, ETT_DAMAGE_NO_TS, at);
  } else if (ns > INT64_MAX ||
             __builtin_mul_overflow((int64_t)ns - x->base_ns, x->tick, &row->ts)) {
    ett_reading_spoil(x->r, row, ETT_DAMAGE_INTEGER_OVERFLOW, at);
    row->ts = 0;
  }
}

/* A slice's begin or end, or an instant. */
static int take_event(perfetto *x, uint64_t sequence_id, slice s, uint64_t ns) {
  const char *at = s.at;
  slice scan = s, name = {0}, category = {0};
  uint64_t type = 0, uuid = ABSENT, name_id = 0, category_id = 0;
  field f;
  if (READ_WANTED(&scan, {9, 0, &type}, {11, 0, &uuid}, {10, 0, &name_id}, {23, 2, &name},
                  {3, 0, &category_id}, {22, 2, &category})) {
    damaged(x, at);
    return 0;
  }
  if (!name.at)
    name = text_of(x, sequence_id, NAMES, name_id);
  if (!category.at)
    category = text_of(x, sequence_id, CATEGORIES, category_id);
  if (type < 1 || type > 3)
    return 0;
  x->r->part->seen++;
  if (uuid == ABSENT)
    uuid = default_of(x, sequence_id, DEFAULT_TRACK);
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
  set_time(x, &row, ns, at);
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
  field f;
  while (next(&s, &f) > 0) {
    if ((f.number != CATEGORIES && f.number != NAMES && f.number != ANNOTATIONS &&
         f.number != STRINGS) ||
        f.wire != 2)
      continue;
    key of = {.sequence = sequence_id, .kind = f.number};
    fact t = {.text = x->none};
    READ_WANTED(&f.bytes, {1, 0, &of.iid}, {2, 2, &t.text});
    if (put_fact(x, of, t))
      return -1;
  }
  return 0;
}

/* The default clock and track of a sequence: TracePacketDefaults. */
static int take_defaults(perfetto *x, uint64_t sequence_id, slice s) {
  slice of_events = {0};
  uint64_t uuid = ABSENT, clock = ABSENT;
  READ_WANTED(&s, {11, 2, &of_events}, {58, 0, &clock});
  READ_WANTED(&of_events, {11, 0, &uuid});
  if (clock != ABSENT &&
      put_fact(x, (key){.sequence = sequence_id, .kind = DEFAULT_CLOCK},
               (fact){.number = clock}))
    return -1;
  if (uuid == ABSENT)
    return 0;
  return put_fact(x, (key){.sequence = sequence_id, .kind = DEFAULT_TRACK},
                  (fact){.number = uuid});
}

/* The clocks of a sequence, whose numbers are 64 to 127, in a ClockSnapshot. */
static int take_clocks(perfetto *x, uint64_t sequence_id, slice s) {
  field f;
  while (next(&s, &f) > 0) {
    if (f.number != 1 || f.wire != 2)
      continue;
    uint64_t number = 0, at = 0, counts_on = 0, unit = 1;
    READ_WANTED(&f.bytes, {1, 0, &number}, {2, 0, &at}, {3, 0, &counts_on},
                {4, 0, &unit});
    if (number >= 64 && number < 128 &&
        put_fact(x, (key){sequence_id, number, CLOCK},
                 (fact){.unit = unit, .at = at * unit, .counts_on = counts_on != 0}))
      return -1;
  }
  return 0;
}

/* Reads one packet; descriptors are read in a separate pass before all events. */
static int take_packet(perfetto *x, slice s, bool events) {
  slice scan = s, event = {0}, descriptor = {0}, clocks = {0};
  uint64_t sequence_id = 0, time = ABSENT, clock = ABSENT;
  field f;
  if (READ_WANTED(&scan, {10, 0, &sequence_id}, {8, 0, &time}, {58, 0, &clock},
                  {6, 2, &clocks}, {11, 2, &event}, {60, 2, &descriptor})) {
    if (events)
      damaged(x, scan.at);
    return 0;
  }
  while (next(&s, &f) > 0) { /* may be divided into several fields */
    if (events && f.number == 12 && f.wire == 2 && take_interned(x, sequence_id, f.bytes))
      return -1;
    if (f.number == 59 && f.wire == 2 && take_defaults(x, sequence_id, f.bytes))
      return -1;
  }
  if (take_clocks(x, sequence_id, clocks))
    return -1;
  const uint64_t ns = time_of(x, sequence_id, clock, time);
  if (events)
    return event.at ? take_event(x, sequence_id, event, ns) : 0;
  if (event.at && ns > 0 && ns <= INT64_MAX &&
      (x->base_ns == 0 || (int64_t)ns < x->base_ns))
    x->base_ns = (int64_t)ns;
  return descriptor.at ? take_descriptor(x, descriptor) : 0;
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
    ett_index_free(&x.facts);
  }
  ett_index_free(&x.tracks);
  return result ? -1 : ett_reading_base(r, x.base_ns);
}
