/* Memory for operands, on huge pages (samplers/core/memory.h). */
#ifndef ETT_CPU_ARENA_H
#define ETT_CPU_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct {
  float *at;
  size_t floats; /* capacity */
} ett_cpu_arena;

/* Ensures capacity for at least that many floats. New memory is touched and filled with
 * seeded normal variates (random) or zeros. Returns 0, or -1 with err set and the arena
 * empty. */
int ett_cpu_arena_grow(ett_cpu_arena *arena, size_t floats, uint64_t seed, int random,
                       ett_err *err);

void ett_cpu_arena_free(ett_cpu_arena *arena);

#endif
