#include "samplers/cpu/arena.h"

#include <string.h>

#include "samplers/core/memory.h"
#include "samplers/core/random.h"

/* The sum of four 16-bit uniforms approximates a standard normal variate. */
static float random_normal(uint64_t *state) {
  uint64_t x = ett_sample_random(state);
  int32_t sum = (int32_t)(x & 0xffff) + (int32_t)(x >> 16 & 0xffff) +
                (int32_t)(x >> 32 & 0xffff) + (int32_t)(x >> 48);
  return (float)(sum - 131070) * 2.643e-5f;
}

int ett_cpu_arena_grow(ett_cpu_arena *a, size_t floats, uint64_t seed, int random,
                       ett_err *err) {
  if (floats <= a->floats)
    return 0;
  const size_t step = (size_t)4 << 20; /* grows by doubling, 16 MB at least */
  size_t more = 2 * a->floats < (size_t)64 << 20 ? 2 * a->floats : 0;
  floats = floats > more ? floats : more;
  floats = floats > step ? floats : step;
  ett_cpu_arena_free(a);
  float *at = ett_sample_pages_new(floats * sizeof(float));
  if (!at)
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory: %.3f GB of operands",
                       (double)floats * 4e-9);
  a->at = at;
  a->floats = floats;
  if (random)
    for (size_t i = 0; i < floats; i++)
      a->at[i] = random_normal(&seed);
  else
    memset(at, 0, floats * sizeof(float)); /* touch the pages now, outside timed runs */
  return 0;
}

void ett_cpu_arena_free(ett_cpu_arena *a) {
  ett_sample_pages_free(a->at, a->floats * sizeof(float));
  *a = (ett_cpu_arena){0};
}
