/* chance.h - the probability of each plan in a list to be the best, by Monte Carlo
 * simulation.
 *
 * The error of a plan's log value is the sum of five normal errors, times one factor per
 * draw that is common to all plans. The factor makes the distribution a t distribution
 * with two degrees of freedom. The five errors: of the plan's place (device and family
 * of software), if places differ; of the runs of its software, if software differs; of
 * the place's parts, weighted by the plan's shares; of its program, shared by the
 * program's plans; its own. */
#ifndef ETT_SEARCH_CHANCE_H
#define ETT_SEARCH_CHANCE_H

#include <stddef.h>

/* Columns of a plan: log value, place, program and software (all from 0), and its shares
 * by part. */
enum {
  ETT_CHANCE_LOG,
  ETT_CHANCE_PLACE,
  ETT_CHANCE_PROGRAM,
  ETT_CHANCE_SOFTWARE,
  ETT_CHANCE_PARTS
};

typedef struct ett_chance {
  const double *plans; /* count * (ETT_CHANCE_PARTS + parts) numbers */
  size_t count, parts;
  const double *spreads; /* scale of each place's error; not drawn with a single place */
  const double *runs;    /* scale of each software's runs; not drawn with one software */
  size_t places, software;
  double own, same, shared; /* scales of the errors of a program, a plan and a part */
} ett_chance;

/* Capacity of the scratch array of ett_chance_best. */
size_t ett_chance_room(const ett_chance *c);

/* wins: number of draws in which each plan is the best; deterministic. Programs, places
 * and software are below count, places and software. */
void ett_chance_best(const ett_chance *c, long draws, double *room, double *wins);

#endif
