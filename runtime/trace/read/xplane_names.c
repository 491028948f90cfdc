#include "trace/read/xplane_names.h"

#include <stdlib.h>

#include "base/grow.h"
#include "trace/table/strings.h"

static int by_stat(const void *a, const void *b) {
  int64_t x = ((const stat_name *)a)->id, y = ((const stat_name *)b)->id;
  return x < y ? -1 : x > y;
}

static int by_event(const void *a, const void *b) {
  int64_t x = ((const event_name *)a)->id, y = ((const event_name *)b)->id;
  return x < y ? -1 : x > y;
}

/* Key and value of a map entry. */
static int entry(slice s, int64_t *key, slice *value) {
  field f;
  int status;
  *key = 0;
  *value = (slice){s.at, s.at};
  while ((status = next(&s, &f)) > 0) {
    if (f.number == 1 && f.wire == 0)
      *key = (int64_t)f.value;
    if (f.number == 2 && f.wire == 2)
      *value = f.bytes;
  }
  return status;
}

int ett_plane_add_stat(plane *p, slice s, const char *const *args, uint32_t arg_count) {
  int64_t key;
  slice value;
  field f;
  if (entry(s, &key, &value) < 0)
    return 0;
  stat_name n = {.id = key, .name = {value.at, value.at}, .arg = -1};
  while (next(&value, &f) > 0)
    if (f.number == 2 && f.wire == 2)
      n.name = f.bytes;
  size_t length = (size_t)(n.name.end - n.name.at);
  for (uint32_t i = 0; i < arg_count; i++)
    if (strlen(args[i]) == length && memcmp(args[i], n.name.at, length) == 0)
      n.arg = (int32_t)i;
  n.correlation = length == 14 && memcmp(n.name.at, "correlation_id", 14) == 0;
  if (ett_grow(&p->stats, p->stat_count, &p->stat_capacity, 64, sizeof n))
    return -1;
  p->stats[p->stat_count++] = n;
  return 0;
}

int ett_plane_add_event(plane *p, slice s) {
  event_name n = {.name = ETT_STRING_NONE, .long_name = ETT_STRING_NONE};
  if (entry(s, &n.id, &n.body) < 0)
    return 0;
  if (ett_grow(&p->events, p->event_count, &p->event_capacity, 64, sizeof n))
    return -1;
  p->events[p->event_count++] = n;
  return 0;
}

stat_name *ett_plane_stat(const plane *p, int64_t id) {
  if (id > 0 && (uint64_t)id <= p->stat_count && p->stats[id - 1].id == id)
    return &p->stats[id - 1];
  stat_name key = {.id = id};
  return p->stat_count ? bsearch(&key, p->stats, p->stat_count, sizeof key, by_stat)
                       : NULL;
}

event_name *ett_plane_event(const plane *p, int64_t id) {
  if (id > 0 && (uint64_t)id <= p->event_count && p->events[id - 1].id == id)
    return &p->events[id - 1];
  event_name key = {.id = id};
  return p->event_count ? bsearch(&key, p->events, p->event_count, sizeof key, by_event)
                        : NULL;
}

void ett_plane_sort(plane *p) {
  if (p->stat_count)
    qsort(p->stats, p->stat_count, sizeof *p->stats, by_stat);
  if (p->event_count)
    qsort(p->events, p->event_count, sizeof *p->events, by_event);
}
