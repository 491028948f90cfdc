/* json_scan.h - turns the bytes of a traceEvents array into rows.
 *
 * json_scan_impl.h is compiled once per instruction set; ett_json_scanner_best chooses at
 * run time. The scanner sees a window of the file followed by ETT_JSON_PAD bytes of '"',
 * so that loops need no check against the end. An event that is not wholly inside is left
 * for the next, larger window. The grammar of all members is checked; values of args that
 * were not requested are skipped by structure only. No length or number is trusted. */
#ifndef ETT_TRACE_JSON_SCAN_H
#define ETT_TRACE_JSON_SCAN_H

#include "trace/table/part.h"

#define ETT_JSON_STEP_BYTES 1024 /* of a step of known events (json_scan_known.h) */
#define ETT_JSON_PAD (ETT_JSON_STEP_BYTES + 64)

/* Args with a column of their own, in slots behind the requested ones. */
enum {
  ETT_JSON_ARG_STREAM = 1,
  ETT_JSON_ARG_DEVICE = 2,
  ETT_JSON_ARG_CORRELATION = 4,
  ETT_JSON_ARG_NAME = 8,
};

typedef struct ett_json_slot {
  const char *name;
  uint32_t length;
  int32_t requested; /* column of the part, or -1 */
  uint32_t builtin;  /* ETT_JSON_ARG_… or 0 */
  int32_t next;      /* slot with the same first byte, or -1 */
} ett_json_slot;

/* Which args to keep; shared by all threads. */
typedef struct ett_json_args {
  ett_json_slot *slots;
  uint32_t count;
  uint32_t
      lengths[256];   /* by first byte: bit min(length, 31) set when some slot has it */
  int32_t first[256]; /* by first byte: slot or -1 */
} ett_json_args;

int ett_json_args_init(ett_json_args *a, const char *const *names, uint32_t count);
void ett_json_args_free(ett_json_args *a);

/* The last integer of a member, and the bytes that say it again: its digits and the byte
 * behind them, where mask is set. */
typedef struct ett_json_again {
  uint64_t bits[2], mask[2];
  int64_t value;
  uint32_t length;
} ett_json_again;

/* A member of args as it was written last: from its key to its value, and to the member
 * or '}' behind it. The same bytes mean the same again. */
enum { ETT_JSON_MEMBER_BYTES = 64, ETT_JSON_MEMBERS = 256 };
typedef struct ett_json_member {
  char text[ETT_JSON_MEMBER_BYTES];
  const ett_json_slot *slot;
  uint8_t to_value, to_next; /* bytes; 0 when not known or too long */
  uint8_t last;              /* to_next ends behind the '}' */
  uint8_t changes;           /* of the value behind the same key */
} ett_json_member;

/* What an arg says, with its value read, but for the row; or an integer pid or tid. */
typedef struct ett_json_fact {
  const ett_json_slot *slot; /* NULL: not an arg */
  bool is_tid;
  ett_trace_arg arg;
  int64_t number; /* the value, which may be the text of an integer, if integral is set */
  bool integral;
} ett_json_fact;

/* The values that events have between bytes that stay the same. */
typedef enum ett_json_value {
  ETT_JSON_VALUE_NAME,
  ETT_JSON_VALUE_TS,
  ETT_JSON_VALUE_DUR,
  ETT_JSON_VALUE_PID,
  ETT_JSON_VALUE_TID,
  ETT_JSON_VALUE_ARG,   /* a requested one */
  ETT_JSON_VALUE_OTHER, /* stepped over */
  ETT_JSON_VALUE_END,   /* none: the event ends */
} ett_json_value;

/* A step of events that were read before: bytes, facts that they state, then a value. */
typedef struct ett_json_step {
  struct ett_json_step *child, *next; /* behind the value; the next alternative */
  uint64_t last, mask;     /* its last 8 bytes, or fewer: where alternatives differ */
  uint32_t text;           /* in ett_json_known.bytes */
  uint16_t length, before; /* bytes; those before `last` */
  uint16_t fact, facts;
  uint16_t category; /* at the end */
  uint8_t value, ph;
  bool has_category;
  const ett_json_slot *slot; /* of an arg */
} ett_json_step;

/* The tree of such steps (json_scan_known.h). Step 0 is its root. */
enum { ETT_JSON_STEPS = 512, ETT_JSON_FACTS = 512, ETT_JSON_BYTES = 1 << 15 };
typedef struct ett_json_known {
  ett_json_step steps[ETT_JSON_STEPS];
  ett_json_fact facts[ETT_JSON_FACTS];
  char bytes[ETT_JSON_BYTES + 64];
  uint32_t step_count, fact_count, byte_count;
  uint32_t hits, misses, renewals;
  ett_json_step *stuck; /* the step behind which an event left the tree, */
  const char *stuck_at; /* and the place in the window; NULL when its value is unusual */
} ett_json_known;

/* A category with its quotes; length 0 when there is none. */
enum { ETT_JSON_CATEGORIES = 16 };
typedef struct ett_json_category {
  char text[32];
  uint32_t length;
  uint16_t id;
} ett_json_category;

/* A text that was read, with its first and last 8 bytes; length 0 when there is none. */
enum { ETT_JSON_SEEN = 256 };
typedef struct ett_json_seen {
  const char *text; /* of the string table */
  uint64_t head, tail;
  uint32_t length, id;
} ett_json_seen;

typedef struct ett_json_scan {
  ett_trace_part *part;
  const ett_json_args *args;
  const char *data;  /* window */
  uint64_t base;     /* offset of data[0] in the file */
  unsigned decimals; /* 3: ticks are nanoseconds, 6: picoseconds */
  uint32_t per_us;   /* ticks in a microsecond */
  bool flows;
  char *scratch; /* decoded strings */
  size_t scratch_size;
  uint64_t whole_limit; /* microseconds that still fit in 64 bits of ticks */
  int64_t longest;      /* duration in ticks that is no damage */
  const char *bad;      /* where the last malformed event went wrong */
  int oom, kept_args;
  struct {
    ett_trace_damage damage;
    uint64_t offset;
  } pending[8]; /* of the event being read: counted once it is whole */
  uint32_t pending_count;
  ett_json_again pid, tid;
  ett_json_member members[ETT_JSON_MEMBERS]; /* by a hash of the key's first bytes */
  ett_json_category categories[ETT_JSON_CATEGORIES]; /* by a hash of the first bytes */
  ett_json_seen seen[ETT_JSON_SEEN];                 /* by a hash of both ends */
  ett_json_known *known; /* NULL until some events are read, and when events differ */
  uint32_t until_known;  /* events until it is made; 0 when it is not */
} ett_json_scan;

typedef enum ett_json_status {
  ETT_JSON_MORE, /* the window ended; *position is where to go on */
  ETT_JSON_STOP, /* the next event begins at or after stop; *position is its '{' */
  ETT_JSON_END,  /* the array ended; *position is behind its ']' */
  ETT_JSON_BAD,  /* malformed at scan->bad; *position is the event's '{' (or the spot) */
  ETT_JSON_MEMORY,
} ett_json_status;

typedef struct ett_json_scanner {
  const char *name;
  /* Reads events from *position (between two events) to end. */
  ett_json_status (*events)(ett_json_scan *s, const char **position, const char *end,
                            const char *stop);
  /* End of the JSON value at p, NULL when malformed or not wholly before end. */
  const char *(*skip)(const char *p, const char *end);
} ett_json_scanner;

extern const ett_json_scanner ett_json_plain_scanner;
#if defined(__x86_64__)
extern const ett_json_scanner ett_json_sse2_scanner;
extern const ett_json_scanner ett_json_avx2_scanner;
#endif

/* The fastest scanner this machine runs; or the one of that name, NULL when it cannot. */
const ett_json_scanner *ett_json_scanner_best(void);
const ett_json_scanner *ett_json_scanner_named(const char *name);

/* Decodes the escapes of a string's text into out (at least length bytes); returns the
 * decoded length. Bad escapes are kept as written and *bad set. */
size_t ett_json_unescape(const char *text, size_t length, char *out, int *bad);

/* Sets up a scanner state over a part. */
void ett_json_scan_init(ett_json_scan *s, ett_trace_part *part, const ett_json_args *args,
                        unsigned decimals, bool flows);
void ett_json_scan_free(ett_json_scan *s);

/* Slow paths shared by all instruction sets. */

/* Notes damage of the event being read; settle counts the notes, or drops them, since the
 * event is read again. Then a text is no longer new: notes on its bytes stay. */
void ett_json_hurt(ett_json_scan *s, ett_trace_damage damage, uint64_t offset);
void ett_json_settle(ett_json_scan *s, int count);

/* Removes args that were kept for an event that became no row. */
void ett_json_trim(ett_json_scan *s);

/* A JSON number of any form as double; NULL end when malformed. */
const char *ett_json_number(const char *p, const char *end, double *value);

/* A time in microseconds, any form, as ticks of 10^-decimals µs: rounded half away from
 * zero. Returns the end; *status 0 good, 1 overflow, 2 not a number. */
const char *ett_json_time_slow(const char *p, const char *end, unsigned decimals,
                               int64_t *ticks, int *status);

/* Interns the raw text of a string (without quotes): decodes, checks, tallies. */
uint32_t ett_json_text(ett_json_scan *s, const char *raw, size_t length, int escaped,
                       int control);

/* First place from p on where an event seems to begin: a '{' after '[' or ',' whose first
 * key is one of an event. NULL when there is none before end. */
const char *ett_json_resync(const char *p, const char *end);

/* Closing quote of a string with unescaped quotes that begins at p; NULL when none is
 * plausible within 64 KiB. */
const char *ett_json_salvage(const char *p, const char *end);

#endif
