/* Perfetto traces (pftrace): Trace of perfetto/trace/trace.proto, with its field numbers.
 *
 * Read are slices and instants of TrackEvent, descriptors of tracks, interned names and
 * debug annotations, which are the args. Slices begin and end in packets of their own;
 * read/merge.h joins them. Packets of system tracing (ftrace, counters) are skipped.
 * rocprofv3 names a track of a device "COMPUTE AGENT [4] QUEUE [1] (GPU)": the numbers
 * are device and stream. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "trace/read/load.h"
#include "trace/read/wire.h"

/* State of a packet sequence: texts by InternedData field and number, and its default
 * track. */
typedef struct interned {
  uint64_t sequence, iid;
  uint32_t kind;
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
  ett_trace_part *part;
  const uint8_t *start;
  const char *const *args;
  uint32_t arg_count;
  interned *texts;
  track *tracks;
  uint32_t text_count, text_capacity, track_count, track_capacity;
  uint32_t *text_slots, text_mask;   /* open addressing over texts */
  uint32_t *track_slots, track_mask; /* and over tracks */
  int64_t base_ns;
  int64_t tick; /* ticks per nanosecond */
} perfetto;

enum { CATEGORIES = 1, NAMES = 2, ANNOTATIONS = 3, STRINGS = 29, DEFAULT_TRACK = 255 };

static void damaged(perfetto *x, const uint8_t *at) {
  ett_part_damage(x->part, ETT_DAMAGE_BAD_MESSAGE, (uint64_t)(at - x->start));
}

static uint64_t mixed(uint64_t a) {
  a ^= a >> 31;
  a *= UINT64_C(0x9E3779B97F4A7C15);
  return a ^ a >> 29;
}

static uint64_t text_hash(const interned *t) {
  return mixed(t->iid ^ mixed(t->sequence ^ (uint64_t)t->kind << 56));
}

/* Doubles the slots and reinserts every entry. */
static int grow_slots(uint32_t **slots, uint32_t *mask, uint32_t count) {
  if (*slots && count < (*mask + 1) / 2)
    return 0;
  uint32_t size = *slots ? (*mask + 1) * 2 : 256;
  uint32_t *grown = malloc(size * sizeof *grown);
  if (!grown)
    return -1;
  memset(grown, 0xFF, size * sizeof *grown);
  free(*slots);
  *slots = grown;
  *mask = size - 1;
  return 1;
}

/* The slot of a text: the text's number, or UINT32_MAX. */
static uint32_t *text_slot(const perfetto *x, const interned *key) {
  uint64_t h = text_hash(key);
  for (;; h++) {
    uint32_t *slot = &x->text_slots[h & x->text_mask];
    if (*slot == UINT32_MAX)
      return slot;
    const interned *t = &x->texts[*slot];
    if (t->iid == key->iid && t->sequence == key->sequence && t->kind == key->kind)
      return slot;
  }
}

static int put_text(perfetto *x, interned t) {
  int grown = grow_slots(&x->text_slots, &x->text_mask, x->text_count + 1);
  if (grown < 0)
    return -1;
  for (uint32_t i = 0; grown > 0 && i < x->text_count; i++)
    *text_slot(x, &x->texts[i]) = i;
  uint32_t *slot = text_slot(x, &t);
  if (*slot != UINT32_MAX) {
    x->texts[*slot] = t; /* redefined after the sequence was cleared */
    return 0;
  }
  if (ett_grow(&x->texts, x->text_count, &x->text_capacity, 256, sizeof *x->texts))
    return -1;
  *slot = x->text_count;
  x->texts[x->text_count++] = t;
  return 0;
}

static slice text_of(const perfetto *x, uint64_t sequence_id, uint32_t kind,
                     uint64_t iid) {
  interned key = {.sequence = sequence_id, .iid = iid, .kind = kind};
  uint32_t i = x->text_slots ? *text_slot(x, &key) : UINT32_MAX;
  return i == UINT32_MAX ? (slice){x->start, x->start} : x->texts[i].text;
}

/* The track of a uuid, created if new; NULL if memory runs out. */
static track *track_of(perfetto *x, uint64_t uuid) {
  int grown = grow_slots(&x->track_slots, &x->track_mask, x->track_count + 1);
  if (grown < 0)
    return NULL;
  for (uint32_t i = 0; grown > 0 && i < x->track_count; i++) {
    uint64_t h = mixed(x->tracks[i].uuid);
    while (x->track_slots[h & x->track_mask] != UINT32_MAX)
      h++;
    x->track_slots[h & x->track_mask] = i;
  }
  uint64_t h = mixed(uuid);
  for (;; h++) {
    uint32_t *slot = &x->track_slots[h & x->track_mask];
    if (*slot != UINT32_MAX && x->tracks[*slot].uuid == uuid)
      return &x->tracks[*slot];
    if (*slot != UINT32_MAX)
      continue;
    if (ett_grow(&x->tracks, x->track_count, &x->track_capacity, 64, sizeof *x->tracks))
      return NULL;
    *slot = x->track_count;
    track *t = &x->tracks[x->track_count++];
    *t = (track){.uuid = uuid,
                 .name = {x->start, x->start},
                 .process = {x->start, x->start},
                 .number = ETT_TRACE_NONE,
                 .stream = -1,
                 .device = -1};
    return t;
  }
}

static uint32_t intern(perfetto *x, slice s) {
  return ett_part_intern(x->part, (const char *)s.at, (size_t)(s.end - s.at),
                         (uint64_t)(s.at - x->start));
}

/* The number in the next "[n]" of a text from *at on; -1 if there is none. */
static int64_t bracketed(slice text, const uint8_t **at) {
  const uint8_t *s = *at;
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
  slice scan = s, none = {x->start, x->start};
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
    slice inner = f.bytes, said = none;
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
  const uint8_t *at = t->name.at;
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
    uint32_t found = UINT32_MAX;
    uint64_t h = mixed(up->parent);
    for (; x->track_slots[h & x->track_mask] != UINT32_MAX; h++)
      if (x->tracks[x->track_slots[h & x->track_mask]].uuid == up->parent) {
        found = x->track_slots[h & x->track_mask];
        break;
      }
    if (found == UINT32_MAX)
      break;
    up = &x->tracks[found];
    pid = up->pid;
    process = up->process;
  }
  uint32_t number =
      ett_part_track(x->part, pid, ETT_ID_INTEGER,
                     t->has_tid ? t->tid : (int64_t)(t->uuid >> 1), ETT_ID_INTEGER);
  if (number == ETT_TRACE_NONE)
    return number;
  uint32_t thread = intern(x, t->name), home = intern(x, process);
  if (thread == ETT_STRING_NONE || home == ETT_STRING_NONE)
    return ETT_TRACE_NONE;
  x->part->tracks[number].thread = thread;
  x->part->tracks[number].process = home;
  return t->number = number;
}

static bool same(slice s, const char *text) {
  size_t n = strlen(text);
  return (size_t)(s.end - s.at) == n && memcmp(s.at, text, n) == 0;
}

/* Stores a debug annotation as an arg of the row appended next. */
static int take_annotation(perfetto *x, uint64_t sequence_id, slice s, ett_row *row) {
  field f;
  slice name = {x->start, x->start}, text = name;
  ett_trace_arg arg = {.row = ett_part_next(x->part), .type = ETT_ARG_NONE};
  while (next(&s, &f) > 0) {
    if (f.number == 1 && f.wire == 0)
      name = text_of(x, sequence_id, ANNOTATIONS, f.value);
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
      text = text_of(x, sequence_id, STRINGS, f.value);
    }
  }
  if (arg.type == ETT_ARG_INTEGER) {
    if (same(name, "corr_id") || same(name, "correlation_id") ||
        same(name, "correlation"))
      row->correlation = arg.value.integer;
    if (same(name, "stream") && arg.value.integer >= 0 && arg.value.integer <= INT32_MAX)
      row->stream = (int32_t)arg.value.integer;
    if (same(name, "device") && arg.value.integer >= 0 && arg.value.integer <= INT16_MAX)
      row->device = (int16_t)arg.value.integer;
  }
  for (uint32_t a = 0; arg.type != ETT_ARG_NONE && a < x->arg_count; a++) {
    if (!same(name, x->args[a]))
      continue;
    if (arg.type == ETT_ARG_TEXT) {
      arg.value.text = intern(x, text);
      if (arg.value.text == ETT_STRING_NONE)
        return -1;
    }
    return ett_part_arg(x->part, a, arg);
  }
  return 0;
}

/* A slice's begin or end, or an instant. */
static int take_event(perfetto *x, uint64_t sequence_id, slice s, int64_t ns) {
  const uint8_t *at = s.at;
  slice scan = s, name = {x->start, x->start}, category = name;
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
      name = text_of(x, sequence_id, NAMES, f.value);
    if (f.number == 23 && f.wire == 2)
      name = f.bytes;
    if (f.number == 3 && f.wire == 0)
      category = text_of(x, sequence_id, CATEGORIES, f.value);
    if (f.number == 22 && f.wire == 2)
      category = f.bytes;
  }
  if (status < 0) {
    damaged(x, at);
    return 0;
  }
  if (type < 1 || type > 3)
    return 0;
  x->part->seen++;
  if (!has_uuid) {
    interned key = {.sequence = sequence_id, .kind = DEFAULT_TRACK};
    uint32_t i = x->text_slots ? *text_slot(x, &key) : UINT32_MAX;
    uuid = i == UINT32_MAX ? 0 : x->texts[i].track;
  }
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
    ett_part_damage(x->part, ETT_DAMAGE_INTEGER_OVERFLOW, (uint64_t)(at - x->start));
    row.ph |= ETT_PH_INVALID;
    row.ts = 0;
  }
  row.name = intern(x, name);
  if (row.name == ETT_STRING_NONE)
    return -1;
  if (category.at < category.end)
    row.category = ett_lexicon_category(x->part->lexicon, (const char *)category.at,
                                        (size_t)(category.end - category.at));
  while (next(&s, &f) > 0)
    if (f.number == 4 && f.wire == 2 && take_annotation(x, sequence_id, f.bytes, &row))
      return -1;
  return ett_part_append(x->part, &row);
}

static int take_interned(perfetto *x, uint64_t sequence_id, slice s) {
  field f, g;
  while (next(&s, &f) > 0) {
    if ((f.number != CATEGORIES && f.number != NAMES && f.number != ANNOTATIONS &&
         f.number != STRINGS) ||
        f.wire != 2)
      continue;
    interned t = {
        .sequence = sequence_id, .kind = f.number, .text = {x->start, x->start}};
    slice inner = f.bytes;
    while (next(&inner, &g) > 0) {
      if (g.number == 1 && g.wire == 0)
        t.iid = g.value;
      if (g.number == 2 && g.wire == 2)
        t.text = g.bytes;
    }
    if (put_text(x, t))
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
          put_text(x, (interned){.sequence = sequence_id,
                                 .kind = DEFAULT_TRACK,
                                 .text = {x->start, x->start},
                                 .track = g.value}))
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

int ett_perfetto_parse(const void *bytes, size_t size, ett_trace_part *part,
                       const char *const *args, uint32_t arg_count,
                       int64_t ticks_per_second, ett_err *err) {
  perfetto x = {.part = part,
                .start = bytes,
                .args = args,
                .arg_count = arg_count,
                .tick = ticks_per_second / 1000000000};
  int result = -1;
  for (int pass = 0; pass < 2; pass++) {
    slice s = {bytes, (const uint8_t *)bytes + size};
    field f;
    int status;
    while ((status = next(&s, &f)) > 0)
      if (f.number == 1 && f.wire == 2 && take_packet(&x, f.bytes, pass == 1))
        goto done;
    if (status < 0 && pass == 1)
      damaged(&x, s.at);
  }
  char text[32];
  int n = snprintf(text, sizeof text, "%" PRId64, x.base_ns);
  if (ett_part_member(part, "baseTimeNanoseconds", 19, text, (size_t)n) == 0)
    result = 0;
done:
  free(x.texts);
  free(x.tracks);
  free(x.text_slots);
  free(x.track_slots);
  return result ? ett_err_set(err, ETT_ERR_MEMORY, "out of memory") : 0;
}
