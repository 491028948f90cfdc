/* Memory that operands are cut out of, on huge pages (sample/pages.h). */
#ifndef ETT_CPU_ARENA_H
#define ETT_CPU_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct {
  float *at;
  size_t floats; /* capacity */
} ett_cpu_arena;

/* Makes room for so many floats, or more, where there is less: new memory, its pages
 * backed, filled with normal deviates of the seed (random) or zeros. Returns 0, or -1
 * with err set and the arena empty. */
int ett_cpu_arena_grow(ett_cpu_arena *arena, size_t floats, uint64_t seed, int random,
                       ett_err *err);

void ett_cpu_arena_free(ett_cpu_arena *arena);

#endif
