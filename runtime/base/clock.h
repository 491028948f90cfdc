/* A system clock in seconds. */
#ifndef ETT_BASE_CLOCK_H
#define ETT_BASE_CLOCK_H

#include <time.h>

static inline double ett_clock(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
