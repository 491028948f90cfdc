/* group.h - groups of rows with equal keys, and statistics of their durations. */
#ifndef ETT_TRACE_GROUP_H
#define ETT_TRACE_GROUP_H

#include "trace/query/select.h"

typedef enum ett_key_kind {
  ETT_KEY_FILE,
  ETT_KEY_RANK,
  ETT_KEY_DEVICE,
  ETT_KEY_STREAM,
  ETT_KEY_TRACK,
  ETT_KEY_PID,
  ETT_KEY_TID,
  ETT_KEY_PROCESS,
  ETT_KEY_THREAD,
  ETT_KEY_NAME,
  ETT_KEY_CATEGORY,
  ETT_KEY_CLASS,
  ETT_KEY_PH,
  ETT_KEY_CORRELATION,
  ETT_KEY_TS,
  ETT_KEY_DUR,
  ETT_KEY_END,
  ETT_KEY_ROW,
  ETT_KEY_ARG, /* then key.arg */
} ett_key_kind;

typedef struct ett_key {
  ett_key_kind kind;
  uint32_t arg;
} ett_key;

/* A value of a key: missing, integer, float or string id. */
typedef ett_trace_arg ett_key_value;

/* The key kind of that name ("rank", "name", …), or -1. */
int ett_key_find(const char *name);
/* The name of a key kind except ETT_KEY_ARG. */
const char *ett_key_name(ett_key_kind kind);

ett_key_value ett_key_of(const ett_trace *t, ett_key key, uint32_t row);

typedef struct ett_groups {
  uint32_t count, key_count;
  ett_key_value *values; /* count × key_count */
  size_t *begin;         /* count + 1 indexes into rows */
  uint32_t *rows;        /* of each group, in selection order */
} ett_groups;

/* Groups sorted by their values, without holes. 0 or -1. */
int ett_group(ett_groups *out, const ett_trace *t, const ett_selection *s,
              const ett_key *keys, uint32_t key_count);
void ett_groups_free(ett_groups *g);

/* Numbers the groups of the rows from 0 by first appearance. Holes form a row without
 * values if `holes` is set, else they are skipped. group has one zeroed entry per row.
 * Returns the number of groups, or -1. */
int64_t ett_group_numbers(uint32_t *group, const ett_trace *t, const ett_selection *s,
                          const ett_key *keys, uint32_t key_count, bool holes);

typedef struct ett_stats {
  int64_t count, total, min, max;
  double mean, std; /* population */
} ett_stats;

/* Statistics of durations. scratch (count entries) receives them, sorted if sort is set.
 */
void ett_stats_of(ett_stats *out, const ett_trace *t, const uint32_t *rows, size_t count,
                  int64_t *scratch, int sort);

/* Nearest rank: the smallest value with at least percent of all at or below it. */
int64_t ett_percentile(const int64_t *sorted, size_t count, double percent);

#endif
