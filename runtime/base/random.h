/* random.h - pseudo-random numbers, identical on every machine: splitmix64 (Steele, Lea,
 * Flood 2014). */
#ifndef ETT_BASE_RANDOM_H
#define ETT_BASE_RANDOM_H

#include <stdint.h>

#define ETT_RANDOM_STEP UINT64_C(0x9E3779B97F4A7C15)

/* The random bits of a state; also a hash. */
static inline uint64_t ett_mix64(uint64_t x) {
  x += ETT_RANDOM_STEP;
  x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
  return x ^ (x >> 31);
}

/* The next 64 random bits. */
static inline uint64_t ett_random(uint64_t *state) {
  const uint64_t bits = ett_mix64(*state);
  *state += ETT_RANDOM_STEP;
  return bits;
}

#endif
