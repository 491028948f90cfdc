/* demand.h - messages and optimizer updates of a plan that must be timed.
 *
 * An evaluation notes every time that it does not know; the caller answers all of them at
 * once and evaluates again. Plans of a sweep share one table: each distinct message is
 * predicted once. */
#ifndef ETT_STEP_DEMAND_H
#define ETT_STEP_DEMAND_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "comm/comm.h"
#include "comm/placement.h"

typedef enum ett_demand_kind {
  ETT_DEMAND_SEND_RECV,
  ETT_DEMAND_ALL_REDUCE,
  ETT_DEMAND_REDUCE_SCATTER,
  ETT_DEMAND_ALL_GATHER,
  ETT_DEMAND_OPTIMIZER, /* amount: parameters that this device updates */
  ETT_DEMAND_KINDS,
} ett_demand_kind;

/* The pipeline stage that updates: its parameters are tables, layers or a head. */
typedef enum ett_stage_place {
  ETT_STAGE_FIRST, /* also the only one */
  ETT_STAGE_MIDDLE,
  ETT_STAGE_LAST,
} ett_stage_place;

typedef struct ett_demand {
  ett_demand_kind kind;
  double amount;         /* bytes of the whole buffer; parameters for updates */
  ett_placement place;   /* of a message's group */
  int32_t layers;        /* of an update: repeated layers that it holds */
  ett_stage_place stage; /* of an update */
  int32_t element_bytes; /* 4, 2 or 1: which dtype moves */
  int32_t parts;         /* bits: parts of the cluster whose devices take part; 0: all */
} ett_demand;

typedef struct ett_demand_time {
  double seconds, low, high; /* with the ends of a 90 % interval */
} ett_demand_time;

typedef struct ett_demands ett_demands;

ett_demands *ett_demands_new(void); /* NULL: no memory */
void ett_demands_free(ett_demands *demands);

/* Index of a demand, adding it untimed when new; -1 and ETT_ERR_MEMORY without memory. */
ptrdiff_t ett_demands_find(ett_demands *demands, const ett_demand *demand, ett_err *err);

size_t ett_demands_count(const ett_demands *demands);
const ett_demand *ett_demands_at(const ett_demands *demands, size_t index);

/* The first demand with the same place: one number for each place. */
size_t ett_demands_place(const ett_demands *demands, size_t index);

/* NULL while untimed. */
const ett_demand_time *ett_demands_time(const ett_demands *demands, size_t index);

/* Fails when a time is negative, not finite or outside its interval. */
int ett_demands_set(ett_demands *demands, size_t index, ett_demand_time time,
                    ett_err *err);

/* Sets the times of all messages of a kind, place and element size like those of a
 * demand, and of those to come: a law's seconds, between `low` and `high` times as many.
 * Messages of parts of a cluster are left out. The law must outlive the demands. */
int ett_demands_price(ett_demands *demands, size_t index, const ett_comm_law *law,
                      double low, double high, ett_err *err);

/* Another one after a time was changed, in any table. */
uint64_t ett_demands_edition(const ett_demands *demands);

/* The first untimed demand at or after `from`, or ett_demands_count(). */
size_t ett_demands_untimed(const ett_demands *demands, size_t from);

/* Checks what every time must be: 0 <= low <= seconds <= high < infinity. */
int ett_time_check(ett_demand_time time, const char *what, ett_err *err);

#endif
