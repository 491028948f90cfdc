/* flows.h - simultaneous tasks whose rates may change. Inside runtime/step only.
 *
 * Flows are in groups. Each flow runs one task at a time. The size of a task is its
 * seconds at rate 1. Time advances from event to event. */
#ifndef ETT_STEP_FLOWS_H
#define ETT_STEP_FLOWS_H

#include <stddef.h>
#include <stdint.h>

typedef struct ett_flow {
  double left;  /* remaining seconds of the task at rate 1 */
  double until; /* remaining seconds at the next event; 0: the end of the task */
  double rate;  /* seconds of the task done per second of time */
  double since; /* time at which `left` was computed */
  int active;
} ett_flow;

typedef struct ett_flows {
  double now;
  int groups, each; /* flows in groups of `each` */
  ett_flow *flow;
  double *due;      /* per flow: time of its event; INFINITY: never at this rate */
  double *least;    /* per group: time of its next event */
  int32_t *winner;  /* tournament tree of groups: inner nodes, then leaves */
  int32_t *changed; /* groups whose events changed since the last tournament */
  int32_t changes, leaves;
  unsigned char *is_changed;
} ett_flows;

/* Returns the bytes of the arrays of flows, and initialises the flows there: idle, rate
 * 1. */
size_t ett_flows_bytes(int groups, int each);
void ett_flows_open(ett_flows *flows, int groups, int each, void *memory);

/* Begins a task of the given seconds on an idle flow. */
void ett_flows_begin(ett_flows *flows, int flow, double seconds);

/* Adds seconds to the task of a flow; `after` of them follow its next event. */
void ett_flows_extend(ett_flows *flows, int flow, double seconds, double after);

/* Sets the next event of a flow to the time when `until` seconds of its task remain. */
void ett_flows_mark(ett_flows *flows, int flow, double until);

/* Ends the task of a flow. */
void ett_flows_end(ett_flows *flows, int flow);

void ett_flows_set_rate(ett_flows *flows, int flow, double rate);

/* Remaining seconds of a flow's task. */
double ett_flows_left(const ett_flows *flows, int flow);

/* Advances to the next event; returns its flow, or -1 if no flow has an event. */
int ett_flows_next(ett_flows *flows);

/* Adds seconds to every stored time. */
void ett_flows_shift(ett_flows *flows, double seconds);

#endif
