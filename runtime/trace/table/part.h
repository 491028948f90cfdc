/* part.h - the data that one reader thread produces from one chunk of one file.
 *
 * A part owns blocks of rows, args, tracks, root members and a count of damage. Its
 * string ids belong to the lexicon of the thread that filled it. read/merge.h joins
 * parts. */
#ifndef ETT_TRACE_PART_H
#define ETT_TRACE_PART_H

#include <stdatomic.h>

#include "trace/table/strings.h"
#include "trace/table/trace.h"

/* Recoverable damage; each kind is counted, and its first offset recorded. */
typedef enum ett_trace_damage {
  ETT_DAMAGE_TRUNCATED,
  ETT_DAMAGE_BAD_STRING,
  ETT_DAMAGE_BAD_UTF8,
  ETT_DAMAGE_CONTROL_CHARACTER,
  ETT_DAMAGE_BAD_NUMBER,
  ETT_DAMAGE_INTEGER_OVERFLOW,
  ETT_DAMAGE_BAD_EVENT,
  ETT_DAMAGE_ZERO_TS,
  ETT_DAMAGE_NEGATIVE_DUR,
  ETT_DAMAGE_LONG_DUR,
  ETT_DAMAGE_NO_TS,
  ETT_DAMAGE_NO_DUR,
  ETT_DAMAGE_ARGS_NOT_OBJECT,
  ETT_DAMAGE_UNMATCHED_BEGIN,
  ETT_DAMAGE_BAD_MESSAGE,
  ETT_DAMAGE_NO_STARTS,
  ETT_DAMAGE_COUNT
} ett_trace_damage;

/* "truncated", "bad_string", … and a description of the consequence. */
const char *ett_trace_damage_name(ett_trace_damage d);
const char *ett_trace_damage_text(ett_trace_damage d);

/* Flag in ph: the row's time is invalid. */
#define ETT_PH_INVALID 0x80u

/* Per thread: distinct strings, categories (their own small numbering), spare blocks. */
typedef struct ett_lexicon {
  ett_strings strings;
  ett_strings categories;
  uint8_t *category_class; /* parallel to categories */
  uint32_t category_capacity;
  bool dirty;         /* some text is not valid UTF-8 */
  atomic_llong *room; /* bytes that blocks may still take; NULL: no limit */
  char *spare;        /* mapped for more blocks */
  size_t spare_bytes;
  bool several; /* the last part has several blocks */
} ett_lexicon;

#define ETT_CATEGORY_NONE UINT16_MAX

void ett_lexicon_free(ett_lexicon *l);

/* Number of a category; ETT_CATEGORY_NONE if none is left or memory runs out. */
uint16_t ett_lexicon_category(ett_lexicon *l, const char *text, size_t length);

/* A pid or tid: absent, an integer, or a string id. */
typedef enum ett_id_type { ETT_ID_NONE, ETT_ID_INTEGER, ETT_ID_TEXT } ett_id_type;

typedef struct ett_track {
  int64_t pid, tid;
  uint8_t pid_type, tid_type;
  uint32_t process, thread; /* names: string ids or ETT_STRING_NONE */
  uint32_t file;
  uint32_t events;
} ett_track;

typedef struct ett_member {
  char *key, *value; /* root member and its JSON text */
} ett_member;

typedef struct ett_args_column {
  ett_trace_arg *items;
  uint32_t count, capacity;
} ett_args_column;

typedef struct ett_row {
  int64_t ts, dur, correlation;
  uint32_t name, track;
  int32_t stream;
  uint16_t category;
  int16_t device;
  uint8_t ph;
} ett_row;

typedef struct ett_trace_part {
  uint32_t file;
  ett_lexicon *lexicon;
  ett_trace_block *blocks;
  uint32_t block_count, block_capacity;
  ett_args_column *args;
  uint32_t arg_count;
  ett_track *tracks;
  uint32_t track_count, track_capacity, last_track;
  ett_strings track_keys;
  ett_member *members;
  uint32_t member_count, member_capacity;
  uint64_t seen;       /* records of any kind */
  uint64_t begin, end; /* bytes of the file that it covers */
  uint64_t cut_at;     /* where the file ended directly after an array, or 0 */
  bool saw_events;     /* a traceEvents array began here */
  bool root_object;    /* the document began here, with '{' */
  ett_trace_kind kind; /* that the reader found; AUTO: that of the source */
  struct {
    uint64_t count, offset;
  } damage[ETT_DAMAGE_COUNT];
} ett_trace_part;

/* A part for arg_count requested args; 0, or -1 when memory ran out. */
int ett_part_init(ett_trace_part *p, uint32_t file, uint32_t arg_count, ett_lexicon *l);
void ett_part_free(ett_trace_part *p);

/* Frees the memory of blocks that parts made. */
void ett_blocks_unmap(const ett_trace_block *blocks, uint32_t count);

/* Appends a block; -1 when memory ran out. */
int ett_part_grow(ett_trace_part *p);

/* Number of the track, made if new; ETT_TRACE_NONE when memory ran out. */
uint32_t ett_part_find_track(ett_trace_part *p, int64_t pid, uint8_t pid_type,
                             int64_t tid, uint8_t tid_type);

static inline uint32_t ett_part_track(ett_trace_part *p, int64_t pid, uint8_t pid_type,
                                      int64_t tid, uint8_t tid_type) {
  if (p->last_track < p->track_count) { /* an event's track is often the last one's */
    const ett_track *t = &p->tracks[p->last_track];
    if (t->tid == tid && t->pid == pid && t->pid_type == pid_type &&
        t->tid_type == tid_type)
      return p->last_track;
  }
  return p->last_track = ett_part_find_track(p, pid, pid_type, tid, tid_type);
}

/* The string id of a text of the file, made if new, which begins at the offset;
 * ETT_STRING_NONE when memory ran out. Bytes that are no UTF-8 count as damage. */
uint32_t ett_part_intern(ett_trace_part *p, const char *text, size_t length,
                         uint64_t offset);

/* Adds one arg for a row (block << 16 | index); the last value of a row wins. */
int ett_part_arg(ett_trace_part *p, uint32_t arg, ett_trace_arg value);

/* Keeps a root member (texts are copied); -1 when memory ran out. */
int ett_part_member(ett_trace_part *p, const char *key, size_t key_length,
                    const char *value, size_t value_length);

static inline void ett_part_damage(ett_trace_part *p, ett_trace_damage d,
                                   uint64_t offset) {
  if (p->damage[d].count++ == 0)
    p->damage[d].offset = offset;
}

/* Row number that the next append gives, part-local. */
static inline uint32_t ett_part_next(const ett_trace_part *p) {
  if (!p->block_count)
    return 0;
  uint32_t count = p->blocks[p->block_count - 1].count;
  if (count == ETT_TRACE_BLOCK)
    return p->block_count << 16;
  return (p->block_count - 1) << 16 | count;
}

static inline int ett_part_append(ett_trace_part *p, const ett_row *row) {
  if (!p->block_count || p->blocks[p->block_count - 1].count == ETT_TRACE_BLOCK)
    if (ett_part_grow(p))
      return -1;
  ett_trace_block *b = &p->blocks[p->block_count - 1];
  uint32_t i = b->count++;
  b->ts[i] = row->ts;
  b->dur[i] = row->dur;
  b->correlation[i] = row->correlation;
  b->name[i] = row->name;
  b->track[i] = row->track;
  b->stream[i] = row->stream;
  b->category[i] = row->category;
  b->device[i] = row->device;
  b->ph[i] = row->ph;
  p->tracks[row->track].events++;
  return 0;
}

#endif
