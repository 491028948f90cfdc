/* chance.h - the probability of each plan in a list to be the best, by Monte Carlo
 * simulation.
 *
 * The error of a plan's log value is the sum of five normal errors, times one factor per
 * draw that is common to all plans. The factor makes the distribution a t distribution
 * with two degrees of freedom. The five errors: of the plan's place (device and
 * software), if places differ; of the runs of its software, shared by its places, if
 * software differs; of the place's parts, weighted by the plan's shares; of its program,
 * shared by the program's plans; its own. */
#ifndef ETT_SEARCH_CHANCE_H
#define ETT_SEARCH_CHANCE_H

#include <stddef.h>

/* Columns of a plan: log value, place and program (both from 0), and its shares by
 * part. */
enum { ETT_CHANCE_LOG, ETT_CHANCE_PLACE, ETT_CHANCE_PROGRAM, ETT_CHANCE_PARTS };

/* Columns of a place: the scales of its own error and of its software's runs, and the
 * software (from 0). */
enum { ETT_CHANCE_SPREAD, ETT_CHANCE_RUNS, ETT_CHANCE_SOFTWARE, ETT_CHANCE_PLACED };

typedef struct ett_chance {
  const double *plans; /* count * (ETT_CHANCE_PARTS + parts) numbers */
  size_t count, parts;
  const double *spreads;   /* places * ETT_CHANCE_PLACED; not drawn with a single place */
  size_t places, software; /* with one software, its runs are not drawn */
  double own, same, shared; /* scales of the errors of a program, a plan and a part */
} ett_chance;

/* Capacity of the scratch array of ett_chance_best. */
size_t ett_chance_room(const ett_chance *c);

/* wins: number of draws in which each plan is the best; deterministic. Programs, places
 * and software are below count, places and software. */
void ett_chance_best(const ett_chance *c, long draws, double *room, double *wins);

#endif
