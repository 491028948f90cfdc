#include "search/chance.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Park and Miller generator. */
static double uniform(int64_t *state) {
  *state = *state * 48271 % 2147483647;
  return (double)*state / 2147483647;
}

/* Box and Muller transform. */
static double normal(int64_t *state) {
  double length = sqrt(-2 * log(uniform(state)));
  return length * cos(2 * 3.141592653589793 * uniform(state));
}

size_t ett_chance_room(const ett_chance *c) {
  return c->places * (1 + c->parts) + c->count + c->software;
}

/* Draws the errors of every place: its own and that of its software's runs, then those
 * of its parts. runs: room for the draws of software. */
static void draw_places(const ett_chance *c, int64_t *state, double *errors,
                        double *runs) {
  for (size_t i = 0; i < c->software; i++)
    runs[i] = c->software > 1 ? normal(state) : 0.0;
  for (size_t i = 0; i < c->places; i++) {
    const double *place = c->spreads + i * ETT_CHANCE_PLACED;
    double run = runs[(size_t)place[ETT_CHANCE_SOFTWARE]];
    *errors++ = c->places > 1 ? place[ETT_CHANCE_SPREAD] * normal(state) +
                                    place[ETT_CHANCE_RUNS] * run
                              : 0.0;
    for (size_t k = 0; k < c->parts; k++)
      *errors++ = c->shared * normal(state);
  }
}

void ett_chance_best(const ett_chance *c, long draws, double *room, double *wins) {
  int64_t state = 20260101;
  double *programs = room + c->places * (1 + c->parts);
  memset(wins, 0, c->count * sizeof *wins);
  for (long draw = 0; draw < draws; draw++) {
    double heavy = 1 / sqrt(-log(uniform(&state)));
    double least = INFINITY;
    size_t best = 0;
    draw_places(c, &state, room, programs + c->count);
    for (size_t i = 0; i < c->count; i++)
      programs[i] = NAN;
    for (size_t i = 0; i < c->count; i++) {
      const double *plan = c->plans + i * (ETT_CHANCE_PARTS + c->parts);
      const double *errors = room + (size_t)plan[ETT_CHANCE_PLACE] * (1 + c->parts);
      double *program = &programs[(size_t)plan[ETT_CHANCE_PROGRAM]];
      if (isnan(*program))
        *program = c->own * normal(&state);
      double off = errors[0] + *program + c->same * normal(&state);
      for (size_t k = 0; k < c->parts; k++)
        off += plan[ETT_CHANCE_PARTS + k] * errors[1 + k];
      double value = plan[ETT_CHANCE_LOG] + heavy * off;
      if (i == 0 || value < least) {
        best = i;
        least = value;
      }
    }
    wins[best] += 1;
  }
}
