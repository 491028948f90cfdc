/* lane.h - one lane of a timeline as a page draws it: an overview, and its events in
 * chunks that a browser unpacks when they are near enough to be seen.
 *
 * An event lies in the first row where no earlier event is still running: nested calls
 * get rows by depth. The overview has two bytes a row and bin: how much of the bin is
 * covered (0 to 255), and the kind that covers most of it.
 *
 * A chunk is columns of LEB128 numbers, one after the other: count; of each event the
 * start since the event before (the first: since the chunk's); its duration; label; row
 * (when the lane has several); wait, the first part of it (when the lane has waits). */
#ifndef ETT_PACK_LANE_H
#define ETT_PACK_LANE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define ETT_LANE_ROWS 64 /* deeper events are drawn in the last row */
#define ETT_LANE_KINDS 64

/* Events in any order; they are packed by start, of equal starts the longer first. */
typedef struct ett_lane_events {
  size_t count, labels;
  const int64_t *start, *duration; /* at least 0 */
  const uint32_t *label;           /* below labels */
  const uint8_t *kind;             /* of each label, below ETT_LANE_KINDS */
  const int64_t *wait;             /* 0 to the duration; NULL: no event waits */
} ett_lane_events;

typedef struct ett_lane_chunk {
  int64_t from, to; /* first start, last end */
  size_t first, count;
  char *text; /* as ett_pack_deflate makes it */
  size_t length;
} ett_lane_chunk;

typedef struct ett_lane {
  uint32_t rows;
  uint8_t *row; /* of each event, in packed order */
  ett_lane_chunk *chunks;
  size_t chunk_count;
  char *overview; /* rows x bins x 2 bytes, deflated */
  size_t overview_length;
} ett_lane;

/* Packs a lane: `bins` of [from, to) in its overview, at most chunk_events in a chunk (0:
 * no chunks). ETT_ERR_ARGUMENT when a number is out of range. */
int ett_lane_pack(ett_lane *out, const ett_lane_events *events, int64_t from, int64_t to,
                  uint32_t bins, size_t chunk_events, ett_err *err);
void ett_lane_free(ett_lane *lane);

#endif
