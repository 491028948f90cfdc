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

#define ETT_JSON_STEP_BYTES                                                              \
  1024 /* largest number of bytes of a step (json_scan_known.h) */
#define ETT_JSON_PAD (ETT_JSON_STEP_BYTES + 64)

/* Args with fixed columns; their slots follow the requested ones. */
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
  uint32_t lengths[256]; /* by first byte: bit min(length, 31) is set if a slot has such a
                            name */
  int32_t first[256];    /* by first byte: slot or -1 */
} ett_json_args;

int ett_json_args_init(ett_json_args *a, const char *const *names, uint32_t count);
void ett_json_args_free(ett_json_args *a);

/* The last integer of a member, and its bytes: the digits and the byte after them, where
 * mask is set. Equal bytes give the same integer. */
typedef struct ett_json_again {
  uint64_t bits[2], mask[2];
  int64_t value;
  uint32_t length;
} ett_json_again;

/* The last text of a member of args: from its key to its value, and to the next member or
 * '}'. Equal bytes have the same meaning. */
enum { ETT_JSON_MEMBER_BYTES = 64, ETT_JSON_MEMBERS = 256 };
typedef struct ett_json_member {
  char text[ETT_JSON_MEMBER_BYTES];
  const ett_json_slot *slot;
  uint8_t to_value, to_next; /* bytes; 0: unknown or too long */
  uint8_t last;              /* to_next ends after the '}' */
  uint8_t changes;           /* how often the value of this key changed */
} ett_json_member;

/* An arg with its parsed value, without the row; or an integer pid or tid. */
typedef struct ett_json_fact {
  const ett_json_slot *slot; /* NULL: not an arg */
  bool is_tid;
  ett_trace_arg arg;
  int64_t number; /* the value, which may be the text of an integer, if integral is set */
  bool integral;
} ett_json_fact;

/* The kinds of values between the constant bytes of events. */
typedef enum ett_json_value {
  ETT_JSON_VALUE_NAME,
  ETT_JSON_VALUE_TS,
  ETT_JSON_VALUE_DUR,
  ETT_JSON_VALUE_PID,
  ETT_JSON_VALUE_TID,
  ETT_JSON_VALUE_ARG,   /* a requested arg */
  ETT_JSON_VALUE_OTHER, /* skipped */
  ETT_JSON_VALUE_END,   /* no value: the event ends */
} ett_json_value;

/* A step of earlier events: constant bytes, the facts in them, then a value. */
typedef struct ett_json_step {
  struct ett_json_step *child, *next; /* the step after the value; the next alternative */
  uint64_t last, mask;     /* up to 8 last bytes, in which alternatives differ */
  uint32_t text;           /* in ett_json_known.bytes */
  uint16_t length, before; /* number of bytes; number of bytes before `last` */
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
  ett_json_step *stuck; /* the last step that matched an unknown event */
  const char *stuck_at; /* the next byte in the window; NULL: the value was unusual */
} ett_json_known;

/* A category with its quotes; length 0: none. */
enum { ETT_JSON_CATEGORIES = 16 };
typedef struct ett_json_category {
  char text[32];
  uint32_t length;
  uint16_t id;
} ett_json_category;

/* A text of an earlier event, with its first and last 8 bytes; length 0: none. */
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
  int64_t longest;      /* longest valid duration in ticks */
  const char *bad;      /* the first wrong byte of the last malformed event */
  int oom, kept_args;
  struct {
    ett_trace_damage damage;
    uint64_t offset;
  } pending[8]; /* of the current event; counted when it is complete */
  uint32_t pending_count;
  ett_json_again pid, tid;
  ett_json_member members[ETT_JSON_MEMBERS]; /* by a hash of the key's first bytes */
  ett_json_category categories[ETT_JSON_CATEGORIES]; /* by a hash of the first bytes */
  ett_json_seen seen[ETT_JSON_SEEN];                 /* by a hash of both ends */
  ett_json_known *known; /* NULL at first, and if events differ too much */
  uint32_t until_known;  /* number of events before it is made; 0: never */
} ett_json_scan;

typedef enum ett_json_status {
  ETT_JSON_MORE, /* the window ended; *position is where to continue */
  ETT_JSON_STOP, /* the next event begins at or after stop; *position is its '{' */
  ETT_JSON_END,  /* the array ended; *position is after its ']' */
  ETT_JSON_BAD,  /* malformed at scan->bad; *position is the event's '{' or the same byte
                  */
  ETT_JSON_MEMORY,
} ett_json_status;

typedef struct ett_json_scanner {
  const char *name;
  /* Reads events from *position (between two events) to end. */
  ett_json_status (*events)(ett_json_scan *s, const char **position, const char *end,
                            const char *stop);
  /* End of the JSON value at p; NULL if it is malformed or exceeds end. */
  const char *(*skip)(const char *p, const char *end);
} ett_json_scanner;

extern const ett_json_scanner ett_json_plain_scanner;
#if defined(__x86_64__)
extern const ett_json_scanner ett_json_sse2_scanner;
extern const ett_json_scanner ett_json_avx2_scanner;
#endif

/* The fastest scanner of this machine; the scanner of a name, NULL if it cannot run here.
 */
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

/* ett_json_hurt records damage of the current event. ett_json_settle counts the records,
 * or drops them if the event is read again. Records of bad bytes in a text are kept,
 * because at the second reading the text is known and not checked again. */
void ett_json_hurt(ett_json_scan *s, ett_trace_damage damage, uint64_t offset);
void ett_json_settle(ett_json_scan *s, int count);

/* Removes the args of an event that became no row. */
void ett_json_trim(ett_json_scan *s);

/* A JSON number of at most ETT_NUMBER_MAX_LENGTH bytes as a double. Returns its end;
 * NULL if it is malformed. */
const char *ett_json_number(const char *p, const char *end, double *value);

/* A time in microseconds, any form, as ticks of 10^-decimals µs: rounded half away from
 * zero. Returns the end; *status 0 good, 1 overflow, 2 not a number. */
const char *ett_json_time_slow(const char *p, const char *end, unsigned decimals,
                               int64_t *ticks, int *status);

/* Interns the raw text of a string without its quotes: decodes and checks it. */
uint32_t ett_json_text(ett_json_scan *s, const char *raw, size_t length, int escaped,
                       int control);

/* The first probable start of an event from p on: a '{' after '[' or ',' whose first key
 * is that of an event. NULL: none before end. */
const char *ett_json_resync(const char *p, const char *end);

/* The closing quote of a string at p with unescaped quotes; NULL if no quote within 64
 * KiB is plausible. */
const char *ett_json_salvage(const char *p, const char *end);

#endif
