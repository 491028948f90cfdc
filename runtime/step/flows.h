/* flows.h - tasks that take place at once, each at a rate of its own that may change.
 * Inside runtime/step only.
 *
 * Flows are in groups. Each does one task at a time: seconds that it takes at rate 1.
 * Time moves from one event of a flow to the next. */
#ifndef ETT_STEP_FLOWS_H
#define ETT_STEP_FLOWS_H

#include <stddef.h>
#include <stdint.h>

typedef struct ett_flow {
  double left;  /* seconds of the task that are left */
  double until; /* of them, when the next event is due: 0 at the task's end */
  double rate;  /* seconds of it a second */
  double since; /* when left was true */
  int active;
} ett_flow;

typedef struct ett_flows {
  double now;
  int groups, each; /* flows in groups of `each` */
  ett_flow *flow;
  double *due;      /* per flow: when its event is; INFINITY: never at this rate */
  double *least;    /* per group: its next event */
  int32_t *winner;  /* tournament of groups: leaves behind the inner nodes */
  int32_t *changed; /* groups whose events changed since */
  int32_t changes, leaves;
  unsigned char *is_changed;
} ett_flows;

/* Bytes of the arrays of flows; places idle flows of rate 1 there. */
size_t ett_flows_bytes(int groups, int each);
void ett_flows_open(ett_flows *flows, int groups, int each, void *memory);

/* Begins a task of that many seconds on an idle flow. */
void ett_flows_begin(ett_flows *flows, int flow, double seconds);

/* Adds seconds to the task of a flow, of which `after` follow its next event. */
void ett_flows_extend(ett_flows *flows, int flow, double seconds, double after);

/* The next event of a flow is when `until` seconds of its task are left. */
void ett_flows_mark(ett_flows *flows, int flow, double until);

/* Ends the task of a flow. */
void ett_flows_end(ett_flows *flows, int flow);

void ett_flows_set_rate(ett_flows *flows, int flow, double rate);

/* Seconds of a flow's task that are left now. */
double ett_flows_left(const ett_flows *flows, int flow);

/* Moves to the next event; returns its flow, or -1 when no flow has one. */
int ett_flows_next(ett_flows *flows);

/* Moves every time by that many seconds. */
void ett_flows_shift(ett_flows *flows, double seconds);

#endif
