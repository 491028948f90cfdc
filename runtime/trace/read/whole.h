/* whole.h - shared by the readers of whole files. */
#ifndef ETT_TRACE_WHOLE_H
#define ETT_TRACE_WHOLE_H

#include <string.h>

#include "trace/read/source.h"
#include "trace/table/part.h"

typedef struct slice {
  const char *at, *end;
} slice;

/* The input of a reader: the bytes of the file (none of a database), the part to fill,
 * and the requested args. */
typedef struct ett_reading {
  slice bytes;
  ett_trace_part *part;
  const char *const *args;
  uint32_t arg_count;
  int64_t ticks_per_second;
} ett_reading;

/* Fills the part; -1 if memory runs out. */
typedef int ett_trace_parser(const ett_reading *r);

/* XPlane protobufs, Perfetto traces (pftrace), JSON of rocprofv3, execution traces of
 * Chakra (et). */
ett_trace_parser ett_xplane_parse, ett_perfetto_parse, ett_rocprof_parse,
    ett_chakra_parse;

/* Reads a file, decompresses gzip and zstd, and parses it; -1 with *err. If the
 * compressed data is damaged, the data before the damage is parsed. */
int ett_read_parsed(ett_trace_parser *parse, const ett_source *s, ett_reading *r,
                    ett_err *err);

static inline slice slice_of(const char *text) {
  return (slice){text, text + strlen(text)};
}

static inline bool slice_is(slice s, const char *text) {
  size_t n = strlen(text);
  return (size_t)(s.end - s.at) == n && memcmp(s.at, text, n) == 0;
}

/* The offset of a text in the file; 0 for other texts. */
static inline uint64_t ett_reading_offset(const ett_reading *r, const char *at) {
  return at >= r->bytes.at && at <= r->bytes.end ? (uint64_t)(at - r->bytes.at) : 0;
}

static inline void ett_reading_damage(const ett_reading *r, ett_trace_damage d,
                                      const char *at) {
  ett_part_damage(r->part, d, ett_reading_offset(r, at));
}

/* Damage that makes a row's times invalid. */
static inline void ett_reading_spoil(const ett_reading *r, ett_row *row,
                                     ett_trace_damage d, const char *at) {
  ett_reading_damage(r, d, at);
  row->ph |= ETT_PH_INVALID;
}

/* The string id of a text; ETT_STRING_NONE if memory runs out. */
static inline uint32_t ett_reading_intern(const ett_reading *r, slice s) {
  return ett_part_intern(r->part, s.at, (size_t)(s.end - s.at),
                         ett_reading_offset(r, s.at));
}

/* The number of a category, or ETT_CATEGORY_NONE. */
static inline uint16_t ett_reading_category(const ett_reading *r, slice s) {
  return ett_lexicon_category(r->part->lexicon, s.at, (size_t)(s.end - s.at));
}

/* Stores an arg of the row that is appended next if it was requested; of a text arg the
 * text. -1 if memory runs out. */
int ett_reading_arg(const ett_reading *r, slice name, ett_trace_arg arg, slice text);

/* Stores the time base of the file in nanoseconds; -1 if memory runs out. */
int ett_reading_base(const ett_reading *r, int64_t base_ns);

#endif
