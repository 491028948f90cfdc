/* demand.h - the messages and optimizer updates of a plan, and their times.
 *
 * An evaluation records every time that it lacks. The caller supplies all of them
 * together and evaluates again. Plans of a sweep share one table, so each distinct
 * message is predicted once. */
#ifndef ETT_STEP_DEMAND_H
#define ETT_STEP_DEMAND_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "comm/comm.h"
#include "comm/placement.h"
#include "regress/serve/model.h"

typedef enum ett_demand_kind {
  ETT_DEMAND_SEND_RECV,
  ETT_DEMAND_ALL_REDUCE,
  ETT_DEMAND_REDUCE_SCATTER,
  ETT_DEMAND_ALL_GATHER,
  ETT_DEMAND_ALL_TO_ALL, /* amount: bytes that a rank holds */
  ETT_DEMAND_OPTIMIZER,  /* amount: parameters that this device updates */
  ETT_DEMAND_KINDS,
} ett_demand_kind;

/* The pipeline stage of an update; it determines whether embedding or head are
 * updated. */
typedef enum ett_stage_place {
  ETT_STAGE_FIRST, /* the first stage, or the only one */
  ETT_STAGE_MIDDLE,
  ETT_STAGE_LAST,
} ett_stage_place;

typedef struct ett_demand {
  ett_demand_kind kind;
  double amount;              /* message: bytes of the whole buffer; update: parameters */
  const ett_placement *place; /* group of a message; NULL for updates */
  int32_t layers;             /* update: repeated layers of the stage */
  ett_stage_place stage;      /* update: place of the stage */
  int32_t element_bytes;      /* element size of the message: 4, 2 or 1 */
  int32_t parts; /* bits: parts of the cluster with participating devices; 0: all */
} ett_demand;

typedef struct ett_demand_time {
  double seconds, low, high; /* with the 90 % interval */
} ett_demand_time;

typedef struct ett_demands ett_demands;

ett_demands *ett_demands_new(void); /* NULL if memory runs out */
void ett_demands_free(ett_demands *demands);

/* Index of a demand. Adds it, with a copy of its placement, without a time if it is new.
 * -1 with ETT_ERR_MEMORY if memory runs out. */
ptrdiff_t ett_demands_find(ett_demands *demands, const ett_demand *demand, ett_err *err);

size_t ett_demands_count(const ett_demands *demands);
const ett_demand *ett_demands_at(const ett_demands *demands, size_t index);

/* Index of the first demand with the same placement; it identifies the placement. */
size_t ett_demands_place(const ett_demands *demands, size_t index);

/* NULL while the demand has no time. */
const ett_demand_time *ett_demands_time(const ett_demands *demands, size_t index);

/* Fails if the time is negative, not finite or outside its interval. */
int ett_demands_set(ett_demands *demands, size_t index, ett_demand_time time,
                    ett_err *err);

/* Prices compute times without intervals: a law, or a regressor fitted to samples of the
 * cluster.
 * The rules of samples are those of Profile:collective_timer in
 * lua/ett/profile/of_cluster.lua. */

/* Messages of one kind between the ranks of one placement. */
typedef struct ett_message_price {
  const ett_comm_law *law;     /* of the links */
  ett_model *model;            /* fitted to samples; NULL: the law alone gives the time */
  double element_bytes, ranks; /* a sample's size: bytes / element_bytes / ranks */
  double share, groups, bandwidth; /* groups that share a network; bandwidth 0: none */
} ett_message_price;

/* Updates of one kind of pipeline stage. */
typedef struct ett_update_price {
  ett_model *model;        /* NULL: none */
  double hidden;           /* width of the model */
  double bytes, bandwidth; /* bytes of a parameter; their time is the lower limit */
} ett_update_price;

/* Sets the times of present and future messages with the kind, placement and element size
 * of a demand, if the price gives a time. Messages of parts of a cluster are excluded.
 * The objects that the price points to must outlive the demands. */
int ett_demands_price(ett_demands *demands, size_t index, const ett_message_price *price,
                      ett_err *err);

/* The same for the updates of a place. */
void ett_demands_price_updates(ett_demands *demands, ett_stage_place stage,
                               const ett_update_price *price);

/* A number that changes whenever a time changes. No two tables share a value. */
uint64_t ett_demands_edition(const ett_demands *demands);

/* The first demand without a time at or after `from`, or ett_demands_count(). */
size_t ett_demands_untimed(const ett_demands *demands, size_t from);

/* Checks that 0 <= low <= seconds <= high < infinity. */
int ett_time_check(ett_demand_time time, const char *what, ett_err *err);

#endif
