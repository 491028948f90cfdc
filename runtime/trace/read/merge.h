/* merge.h - from the parts that the readers filled to one trace; for runtime/trace only.
 *
 * The steps in their order, each 0 or -1 with *err: what each file is, its strings and
 * categories, tracks, rows, begin and end joined, time, then what was found about it. */
#ifndef ETT_TRACE_MERGE_H
#define ETT_TRACE_MERGE_H

#include "trace/read/load.h"

typedef struct ett_merge {
  ett_trace *t;
  ett_load *load;
  const ett_sources *sources;
  uint32_t **string_map;   /* per lexicon; NULL: same numbers */
  uint16_t **category_map; /* per lexicon */
  uint32_t **part_tracks;  /* per part: tracks of the trace */
  uint32_t track_capacity, category_capacity, warning_capacity;
  uint16_t no_category;
  uint16_t *line_category; /* per track: what rows without a category get */
  int32_t *line_device;    /* per track: device of its rows, or -1 */
  uint8_t *zero_bad;       /* per file: its rows at ts 0 are damage */
  ett_err *err;
} ett_merge;

/* Fails for want of memory. */
int ett_merge_memory(ett_merge *m);

/* merge_files.c */
int ett_merge_warn(ett_merge *m, uint32_t file, const char *code, uint64_t count,
                   int has_offset, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 7, 8)));
int ett_merge_describe(ett_merge *m); /* path, kind, rank, clock of each file */
int ett_merge_warnings(ett_merge *m); /* what was found about each, when rows stand */

/* merge_names.c */
int ett_merge_strings(ett_merge *m);
int ett_merge_categories(ett_merge *m);
int ett_merge_tracks(ett_merge *m);
/* The trace's number of a string of a lexicon. */
uint32_t ett_merge_text(const ett_merge *m, const ett_lexicon *l, uint32_t id);

/* merge_rows.c */
int ett_merge_rows(ett_merge *m);
int ett_merge_pairs(ett_merge *m); /* begin and end events become complete ones */
int ett_merge_times(ett_merge *m); /* one time axis */
/* Rows at ts 0 of a file are damage when all its others are hours away. */
int ett_merge_zero_is_damage(const ett_merge *m, uint32_t file);

#endif
