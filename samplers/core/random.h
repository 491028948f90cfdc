/* Pseudo-random numbers, identical on every machine. */
#ifndef ETT_SAMPLE_RANDOM_H
#define ETT_SAMPLE_RANDOM_H

#include <stdint.h>

/* The next 64 random bits (splitmix64, Steele et al. 2014). */
static inline uint64_t ett_sample_random(uint64_t *state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

#endif
