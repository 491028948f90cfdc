/* xplane_names.h - a plane's tables: the names of its stats and events. */
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
  uint32_t name, long_name; /* string ids, created at their first use */
} event_name;

typedef struct plane {
  stat_name *stats;
  event_name *events;
  uint32_t stat_count, stat_capacity, event_count, event_capacity;
} plane;

/* Adds an entry of the plane's stat_metadata or event_metadata unless it is damaged; args
 * are the requested ones. 0, or -1 if memory runs out. */
int ett_plane_add_stat(plane *p, slice s, const char *const *args, uint32_t arg_count);
int ett_plane_add_event(plane *p, slice s);

/* Sorts both tables; call it before the first search. */
void ett_plane_sort(plane *p);

/* The entry of that id, or NULL. */
stat_name *ett_plane_stat(const plane *p, int64_t id);
event_name *ett_plane_event(const plane *p, int64_t id);

#endif
