/* walk.h - tapes: the units of all ranks in an order in which every input precedes its
 * use. Inside runtime/step/pipeline only.
 *
 * A tape depends on the schedule alone, so one tape serves runs with any times. The walk
 * runs each unit for one tick, as early as its order allows. Under a built-in schedule
 * the ticks of a long step repeat; such a tape stores the repeating part once. */
#ifndef ETT_STEP_WALK_H
#define ETT_STEP_WALK_H

#include "step/pipeline/order.h"

/* A cell holds a message from its arrival until it is read. */
enum {
  ETT_CELL_ZERO,
  ETT_CELL_SINK,
  ETT_CELLS
}; /* always 0; written only; the first message cell */

typedef struct ett_event {
  uint32_t in, out; /* cells */
  uint32_t unit;    /* slot * ETT_UNIT_KINDS + kind */
  uint16_t rank;
  uint16_t paired; /* runs in a pair with the next event */
} ett_event;

typedef struct ett_pipeline_tape {
  ett_event *events;
  size_t bytes;              /* of events */
  size_t head, period, tail; /* number of events of each part */
  int64_t repeats;           /* repetitions of the period */
  size_t cells;
} ett_pipeline_tape;

/* group: group size of the lanes. */
int ett_pipeline_tape_build(const ett_pipeline *pipeline, int64_t group,
                            ett_pipeline_tape *tape, ett_err *err);
void ett_pipeline_tape_free(ett_pipeline_tape *tape);

#endif
