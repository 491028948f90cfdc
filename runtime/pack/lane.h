/* lane.h - one lane of a timeline in a page: an overview, and the events in chunks. A
 * browser unpacks a chunk when the zoom shows single events.
 *
 * An event is in the first row without a running earlier event, so nested calls get rows
 * by depth. The overview has two bytes per row and bin: the covered share of the bin (0
 * to 255), and the kind that covers most of it.
 *
 * A chunk is a sequence of columns of LEB128 numbers: the count; per event the start
 * relative to the previous event (the first: to the chunk's start); the duration; the
 * label; the row (if the lane has several); the wait, which is the first part of the
 * event (if the lane has waits). */
#ifndef ETT_PACK_LANE_H
#define ETT_PACK_LANE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define ETT_LANE_ROWS 64 /* deeper events are drawn in the last row */
#define ETT_LANE_KINDS 64

/* Events in any order. They are packed by start; equal starts: longer events first. */
typedef struct ett_lane_events {
  size_t count, labels;
  const int64_t *start, *duration; /* >= 0 */
  const uint32_t *label;           /* < labels */
  const uint8_t *kind;             /* per label, < ETT_LANE_KINDS */
  const int64_t *wait;             /* 0 to the duration; NULL: no event waits */
} ett_lane_events;

typedef struct ett_lane_chunk {
  int64_t from, to; /* start of the first event, end of the last */
  size_t first, count;
  char *text; /* text from ett_pack_deflate */
  size_t length;
} ett_lane_chunk;

typedef struct ett_lane {
  uint32_t rows;
  uint8_t *row; /* per event, in packed order */
  ett_lane_chunk *chunks;
  size_t chunk_count;
  char *overview; /* rows x bins x 2 bytes, deflated */
  size_t overview_length;
} ett_lane;

/* Packs a lane. The overview has `bins` bins over [from, to). A chunk has at most
 * chunk_events events (0: no chunks). ETT_ERR_ARGUMENT if a number is out of range. */
int ett_lane_pack(ett_lane *out, const ett_lane_events *events, int64_t from, int64_t to,
                  uint32_t bins, size_t chunk_events, ett_err *err);
void ett_lane_free(ett_lane *lane);

#endif
