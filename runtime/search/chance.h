/* chance.h - the chance of each plan of a list to be the best, by drawing errors.
 *
 * The log of a plan's value is off by a heavy-tailed factor (a t distribution of two
 * degrees) of the sum of: the error of its place, where places differ; those of its
 * parts, shared by all plans of a place; that of its program, shared by its plans; its
 * own. */
#ifndef ETT_SEARCH_CHANCE_H
#define ETT_SEARCH_CHANCE_H

#include <stddef.h>

/* Numbers of a plan: its log value, place and program (both from 0), and its shares by
 * part. */
enum { ETT_CHANCE_LOG, ETT_CHANCE_PLACE, ETT_CHANCE_PROGRAM, ETT_CHANCE_PARTS };

typedef struct ett_chance {
  const double *plans; /* count * (ETT_CHANCE_PARTS + parts) numbers */
  size_t count, parts;
  const double *spreads; /* of the places; with one place, none is drawn */
  size_t places;
  double own, same, shared; /* scales of a program's, a plan's and a part's error */
} ett_chance;

/* Numbers that ett_chance_best needs room for. */
size_t ett_chance_room(const ett_chance *c);

/* wins: in how many draws each plan is the best; the same at every run. Programs and
 * places are below count and places. */
void ett_chance_best(const ett_chance *c, long draws, double *room, double *wins);

#endif
