/* xplane_names.h - a plane's tables: what its stats and events are called. */
#ifndef ETT_TRACE_XPLANE_NAMES_H
#define ETT_TRACE_XPLANE_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "trace/read/wire.h"

typedef struct stat_name {
  int64_t id;
  slice name;
  int32_t arg; /* requested column, or -1 */
  bool correlation;
} stat_name;

typedef struct event_name {
  int64_t id;
  slice body;
  uint32_t name, long_name; /* string ids, made when first used */
} event_name;

typedef struct plane {
  stat_name *stats;
  event_name *events;
  uint32_t stat_count, stat_capacity, event_count, event_capacity;
} plane;

/* Adds an entry of the plane's stat_metadata or event_metadata (a damaged one is left
 * out); args are those asked for. 0, or -1 when memory ran out. */
int ett_plane_add_stat(plane *p, slice s, const char *const *args, uint32_t arg_count);
int ett_plane_add_event(plane *p, slice s);

/* Orders both tables: to be done before the first question. */
void ett_plane_sort(plane *p);

/* The entry of that id, or NULL. */
stat_name *ett_plane_stat(const plane *p, int64_t id);
event_name *ett_plane_event(const plane *p, int64_t id);

#endif
