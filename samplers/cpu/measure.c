#include "samplers/cpu/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/clock.h"
#include "base/random.h"
#include "samplers/core/memory.h"
#include "samplers/cpu/limit.h"

enum {
  MAX_SETS = 1 << 16,
  PIECE = 1 << 17, /* floats that one probe reads */
  AWAY = 512       /* page offset of the outputs, in floats; inputs start at offset 0 */
};
static const double most_budgets = 4; /* min_repeats may take up to this many budgets */

const ett_cpu_options ett_cpu_default_options = {.budget_seconds = 0.02,
                                                 .target = 0.01,
                                                 .min_repeats = 5,
                                                 .max_repeats = 200,
                                                 .threads = 1};

/* Memory for operands, on huge pages (samplers/core/memory.h). */
typedef struct {
  float *at;
  size_t floats; /* capacity */
} arena;

struct ett_cpu_pool {
  arena input, output;
  size_t cold_bytes;
  uint64_t seed;
  double best_probe;
  arena sentinel; /* read by the memory probe, piece by piece */
  size_t read;    /* position of the next piece, in floats */
  double walked;  /* position in the arenas after the last measurement, as a fraction */
};

/* The sum of four 16-bit uniforms approximates a standard normal variate. */
static float random_normal(uint64_t *state) {
  uint64_t x = ett_random(state);
  int32_t sum = (int32_t)(x & 0xffff) + (int32_t)(x >> 16 & 0xffff) +
                (int32_t)(x >> 32 & 0xffff) + (int32_t)(x >> 48);
  return (float)(sum - 131070) * 2.643e-5f;
}

static void arena_free(arena *a) {
  ett_sample_pages_free(a->at, a->floats * sizeof(float));
  *a = (arena){0};
}

/* Ensures capacity for at least that many floats. New memory is touched and filled with
 * seeded normal variates (random) or zeros. Returns 0, or -1 with err set and the arena
 * empty. */
static int arena_grow(arena *a, size_t floats, uint64_t seed, int random, ett_err *err) {
  if (floats <= a->floats)
    return 0;
  const size_t step = (size_t)4 << 20; /* grows by doubling, 16 MB at least */
  size_t more = 2 * a->floats < (size_t)64 << 20 ? 2 * a->floats : 0;
  floats = floats > more ? floats : more;
  floats = floats > step ? floats : step;
  arena_free(a);
  float *at = ett_sample_pages_new(floats * sizeof(float));
  if (!at)
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory: %.3f GB of operands",
                       (double)floats * 4e-9);
  a->at = at;
  a->floats = floats;
  if (random)
    for (size_t i = 0; i < floats; i++)
      at[i] = random_normal(&seed);
  else
    memset(at, 0, floats * sizeof(float)); /* touch the pages now, outside timed runs */
  return 0;
}

ett_cpu_pool *ett_cpu_pool_new(size_t cold_bytes, uint64_t seed, ett_err *err) {
  ett_cpu_pool *pool = calloc(1, sizeof *pool);
  if (!pool) {
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    return NULL;
  }
  pool->cold_bytes = cold_bytes;
  pool->seed = seed;
  pool->best_probe = ett_cpu_clock_probe();
  const size_t floats = cold_bytes / sizeof(float);
  if (arena_grow(&pool->sentinel, floats > PIECE ? floats : PIECE, seed, 0, err) != 0) {
    free(pool);
    return NULL;
  }
  return pool;
}

void ett_cpu_pool_free(ett_cpu_pool *pool) {
  if (!pool)
    return;
  arena_free(&pool->sentinel);
  arena_free(&pool->input);
  arena_free(&pool->output);
  free(pool);
}

double ett_cpu_clock_probe(void) {
  double best = 1;
  for (int round = 0; round < 5; round++) {
    volatile uint64_t start = 88172645463325252u;
    uint64_t x = start;
    double t = ett_clock(CLOCK_MONOTONIC);
    for (int i = 0; i < 10000; i++)
      x = x * 6364136223846793005u + 1442695040888963407u;
    start = x;
    t = ett_clock(CLOCK_MONOTONIC) - t;
    best = t < best ? t : best;
  }
  return best;
}

double ett_cpu_memory_probe(ett_cpu_pool *pool) {
  if (pool->read + PIECE > pool->sentinel.floats)
    pool->read = 0;
  const float *at = pool->sentinel.at + pool->read;
  pool->read += PIECE;
  float sum[16] = {0};
  double t = ett_clock(CLOCK_THREAD_CPUTIME_ID);
  for (size_t i = 0; i < PIECE; i += 16)
    for (size_t k = 0; k < 16; k++)
      sum[k] += at[i + k];
  t = ett_clock(CLOCK_THREAD_CPUTIME_ID) - t;
  volatile float sink = 0;
  for (int k = 0; k < 16; k++)
    sink += sum[k];
  (void)sink;
  return t;
}

/* Offsets of a call's operands, in floats from the start of a set. */
typedef struct {
  ett_cpu_operand operand[ETT_CPU_MAX_OPERANDS];
  size_t offset[ETT_CPU_MAX_OPERANDS];
  int count;
} layout;

/* Rounds up to whole cache lines; in floats. */
static size_t in_lines(int64_t count) {
  return ((size_t)count + 15) / 16 * 16;
}

/* Floats of one set of operands; scratch is shared by all sets. */
typedef struct {
  size_t inputs, outputs, touched, scratch;
} extent;

static int lay_out(const ett_cpu_call *calls, size_t count, layout *out, extent *all,
                   ett_err *err) {
  *all = (extent){0};
  for (size_t c = 0; c < count; c++) {
    out[c].count =
        ett_cpu_operands(calls[c].kind, calls[c].d, calls[c].pass, out[c].operand, err);
    if (out[c].count < 0)
      return -1;
    for (int i = 0; i < out[c].count; i++) {
      const ett_cpu_role role = out[c].operand[i].role;
      size_t *end = role == ETT_CPU_INPUT     ? &all->inputs
                    : role == ETT_CPU_SCRATCH ? &all->scratch
                                              : &all->outputs;
      out[c].offset[i] = *end;
      *end += in_lines(out[c].operand[i].count) + ETT_SAMPLE_GAP / sizeof(float);
      if (role == ETT_CPU_SCRATCH)
        continue;
      all->touched += in_lines(out[c].operand[i].touched ? out[c].operand[i].touched
                                                         : out[c].operand[i].count);
    }
  }
  return 0;
}

/* Zeroes count floats with non-temporal stores; at is aligned to 64 bytes. */
static void clear(float *at, size_t count) {
  size_t i = 0;
#ifdef __SSE2__
  for (; i + 4 <= count; i += 4)
    _mm_stream_ps(at + i, _mm_setzero_ps());
  _mm_sfence();
#endif
  memset(at + i, 0, (count - i) * sizeof *at);
}

static void fill(const ett_cpu_operand *operand, float *at, uint64_t seed) {
  if (operand->role == ETT_CPU_UPDATED) {
    clear(at, (size_t)operand->count);
  } else if (operand->role == ETT_CPU_INDEX) {
    int32_t *index = (int32_t *)(void *)at;
    for (int64_t i = 0; i < operand->count; i++)
      index[i] = (int32_t)(ett_random(&seed) % (uint64_t)operand->limit);
  } else if (operand->role == ETT_CPU_POSITIVE) {
    for (int64_t i = 0; i < operand->count; i++)
      at[i] = 0.5f + (float)(ett_random(&seed) >> 40) * 0x1p-24f;
  }
}

typedef struct {
  const ett_cpu_call *calls;
  size_t count;
  layout layouts[ETT_CPU_MAX_CALLS];
  float *input, *output;  /* the arenas; the scratch follows the outputs */
  size_t inputs, outputs; /* floats of one set in each */
  size_t sets, turn;
  size_t limit;   /* number of sets already filled */
  int sparse;     /* all sets together access less than the pool's cold_bytes */
  size_t chilled; /* turn of the last cache eviction */
} program;

static float *place(const program *p, size_t set, size_t call, int i) {
  const layout *l = &p->layouts[call];
  const ett_cpu_role role = l->operand[i].role;
  if (role == ETT_CPU_SCRATCH)
    set = p->sets;
  return (role == ETT_CPU_INPUT ? p->input + set * p->inputs
                                : p->output + set * p->outputs) +
         l->offset[i];
}

static void read_through(const float *at, size_t floats, size_t from) {
  volatile float sink = 0;
  for (size_t i = 0; i < floats; i += 16)
    sink = at[(from + i) % floats];
  (void)sink;
}

/* Called before a timed group of runs. If a run accesses only a few rows of a table, all
 * sets may fit in the caches. Reading the arenas evicts them: first the arena of the next
 * set, the larger arena last. */
static void chill(program *p, size_t runs) {
  if (!p->sparse || p->turn + runs <= p->chilled + p->sets)
    return;
  const size_t set = p->turn % p->sets;
  for (int last = 0; last < 2; last++)
    if ((p->inputs > p->outputs) == last)
      read_through(p->input, p->sets * p->inputs, set * p->inputs);
    else
      read_through(p->output, p->sets * p->outputs, set * p->outputs);
  p->chilled = p->turn;
}

static void execute(program *p) {
  const size_t set = p->turn++ % p->sets;
  for (size_t c = 0; c < p->count; c++) {
    void *operand[ETT_CPU_MAX_OPERANDS];
    for (int i = 0; i < p->layouts[c].count; i++)
      operand[i] = place(p, set, c, i);
    ett_cpu_limit_enter();
    p->calls[c].kind->run(p->calls[c].d, p->calls[c].pass, operand, NULL);
    ett_cpu_limit_leave();
  }
}

static int prepare(ett_cpu_pool *pool, program *p, const ett_cpu_options *options,
                   ett_err *err) {
  extent all;
  if (lay_out(p->calls, p->count, p->layouts, &all, err) != 0)
    return -1;
  p->inputs = all.inputs;
  p->outputs = all.outputs;
  const double set_bytes = 4.0 * (double)(p->inputs + p->outputs);
  const double bytes = set_bytes + 4.0 * (double)all.scratch;
  /* The arenas serve this measurement, or are freed for it. */
  const double held = 4.0 * (double)(pool->input.floats + pool->output.floats);
  const double limit = options->limit_bytes > 0
                           ? options->limit_bytes
                           : 0.8 * (ett_sample_memory_free("") + held);
  if (bytes > limit)
    return ett_err_set(err, ETT_ERR_MEMORY,
                       options->limit_bytes > 0
                           ? "the operands need %.3f GB, the limit is %.3f GB"
                           : "out of memory: the operands need %.3f GB, %.3f GB are free",
                       bytes * 1e-9, limit * 1e-9);
  const double sets = (double)pool->cold_bytes / set_bytes + 1;
  p->sets = sets > MAX_SETS ? MAX_SETS : (size_t)sets;
  if (p->inputs * p->sets > pool->input.floats)
    arena_free(&pool->output);
  if (arena_grow(&pool->input, p->inputs * p->sets, pool->seed, 1, err) != 0 ||
      arena_grow(&pool->output, AWAY + p->outputs * p->sets + all.scratch, pool->seed, 0,
                 err) != 0)
    return -1;
  p->sparse = 4.0 * (double)(all.touched * p->sets) < 0.7 * (double)pool->cold_bytes;
  p->input = pool->input.at;
  p->output = pool->output.at + AWAY;
  /* Sets are filled in the order of use, so the next set is the coldest. */
  p->turn = (size_t)(pool->walked * (double)p->sets) + 1;
  p->chilled = p->turn;
  size_t filled = p->sets;
  if (options->known_seconds > 0) {
    /* Runs in twice the budget or in the least repeats, plus the group that exceeds it,
     * plus a few more. */
    const double least = options->min_repeats * (options->known_seconds + 30e-6);
    const double most = most_budgets * options->budget_seconds;
    double seconds = 2 * options->budget_seconds;
    if (least > seconds)
      seconds = least < most ? least : most;
    const double runs = (seconds + 60e-6) / options->known_seconds + 4;
    filled = runs < (double)p->sets ? (size_t)runs : p->sets;
  }
  p->limit = filled < p->sets ? p->turn + filled : (size_t)-1;
  for (size_t n = 0; n < filled; n++)
    for (size_t c = 0, set = (p->turn + n) % p->sets; c < p->count; c++)
      for (int i = 0; i < p->layouts[c].count; i++)
        fill(&p->layouts[c].operand[i], place(p, set, c, i), pool->seed + set);
  return 0;
}

typedef struct {
  ett_cpu_pool *pool;
  program *p;
  const ett_cpu_options *options;
  double *scratch; /* of 3 capacity */
  size_t capacity;
  double *raw;
  size_t raw_capacity;
  ett_cpu_result *result;
} measurement;

/* Runs until two executions agree within 10 %; returns the seconds of one execution. */
static double warm_up(program *p, const ett_cpu_options *options, double start) {
  double warm = 1e300;
  for (int i = 0; i < 4; i++) {
    chill(p, 1);
    ett_cpu_limit_renew();
    double t = ett_clock(CLOCK_MONOTONIC);
    execute(p);
    t = ett_clock(CLOCK_MONOTONIC) - t;
    const int stable = t > 0.9 * warm && t < 1.1 * warm;
    warm = t < warm ? t : warm;
    if (options->known_seconds > 0)
      return options->known_seconds;
    if ((i > 0 && stable) || ett_clock(CLOCK_MONOTONIC) - start > options->budget_seconds)
      break;
  }
  return warm;
}

static void run_repeats(void *data) {
  const measurement *m = data;
  ett_cpu_pool *pool = m->pool;
  program *p = m->p;
  const ett_cpu_options *options = m->options;
  ett_cpu_result *result = m->result;
  const size_t capacity = m->capacity;
  double *kept = m->scratch, *thread_times = kept + capacity,
         *sorted = thread_times + capacity;
  int waits = options->threads > 1;
  for (size_t c = 0; c < p->count; c++)
    waits |= p->calls[c].kind->waits;
  const double start = ett_clock(CLOCK_MONOTONIC), warm = warm_up(p, options, start);
  /* Reading the clock takes 0.03 us, more where it is a system call. A group of at least
   * 30 us hides it. */
  int inner = warm < 30e-6 ? (int)(30e-6 / (warm + 1e-9)) + 1 : 1;
  inner = inner > 1000 ? 1000 : inner;
  if (p->sparse && (size_t)inner > p->sets)
    inner = (int)p->sets;
  size_t n = 0, all = 0;
  double held = 0, lost = 0; /* seconds of kept and of dropped groups */
  while (all < capacity && (all == 0 || p->turn + (size_t)inner <= p->limit)) {
    chill(p, (size_t)inner);
    ett_cpu_limit_renew();
    /* The thread clock is a system call of 1.2 to 1.6 us on a virtual machine, so it is
     * read outside the wall time. */
    double thread = ett_clock(CLOCK_THREAD_CPUTIME_ID), wall = ett_clock(CLOCK_MONOTONIC);
    for (int i = 0; i < inner; i++)
      execute(p);
    wall = ett_clock(CLOCK_MONOTONIC) - wall;
    thread = ett_clock(CLOCK_THREAD_CPUTIME_ID) - thread;
    thread_times[all++] = thread / inner;
    if (waits || wall - thread <= 0.01 * wall) {
      kept[n++] = wall / inner;
      held += wall;
    } else {
      lost += wall;
    }
    const double spent = ett_clock(CLOCK_MONOTONIC) - start;
    const int enough = (int)n >= options->min_repeats;
    if (spent > most_budgets * options->budget_seconds ||
        (enough && spent > options->budget_seconds))
      break;
    if (enough && n % 4 == 0) {
      ett_sample_stats_compute(kept, n, sorted, &result->stats);
      if (result->stats.low_half_width <= options->target * result->stats.low)
        break;
    }
  }
  pool->walked = (double)(p->turn % p->sets) / (double)p->sets;
  result->repeats = (int)all;
  result->dropped = (int)(all - n);
  const double *times = kept;
  size_t used = n;
  /* The missing repeats would have fitted into the time of the dropped ones. */
  const int missing = options->min_repeats - (int)n;
  const int instead = missing > 0 && lost * (double)n >= held * missing;
  if (n < all && (n < 3 || instead))
    result->disturbed |= ETT_CPU_PREEMPTED;
  if (n < 3 && n < all) {
    times = thread_times;
    used = all;
  }
  ett_sample_stats_compute(times, used, sorted, &result->stats);
  for (size_t i = 0; i < used && i < m->raw_capacity; i++)
    m->raw[i] = times[i];
  const double probe = ett_cpu_clock_probe();
  pool->best_probe = probe < pool->best_probe ? probe : pool->best_probe;
  result->clock_ratio = probe / pool->best_probe;
  if (result->clock_ratio > 1.05)
    result->disturbed |= ETT_CPU_SLOW_CLOCK;
}

/* The message of a process that ends because its threads exceeded the limit. */
static void describe_limit(const ett_cpu_call *call, const ett_cpu_options *options,
                           char *text, size_t bytes) {
  size_t n = (size_t)snprintf(text, bytes, "ett: %s with", call->kind->name);
  for (int i = 0; call->kind->dims[i] && n < bytes; i++)
    n += (size_t)snprintf(text + n, bytes - n, " %s = %lld", call->kind->dims[i],
                          (long long)call->d[i]);
  if (n < bytes)
    snprintf(text + n, bytes - n,
             " did not end within %g seconds (ETT_KERNEL_SECONDS sets the limit) on %d "
             "threads, which cannot be stopped; the rows so far are saved; exclude the "
             "shape with 'where', "
             "or use --threads 1, which records the failure and continues\n",
             options->limit_seconds, options->threads);
}

int ett_cpu_measure(ett_cpu_pool *pool, const ett_cpu_call *calls, size_t count,
                    const ett_cpu_options *options, double *raw, size_t raw_capacity,
                    ett_cpu_result *result, ett_err *err) {
  memset(result, 0, sizeof *result);
  if (count < 1 || count > ETT_CPU_MAX_CALLS)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "a list must have 1 to %d calls, got %zu",
                       ETT_CPU_MAX_CALLS, count);
  size_t capacity = (size_t)(options->max_repeats > 1 ? options->max_repeats : 1);
  double *scratch = malloc(3 * capacity * sizeof *scratch);
  program *p = calloc(1, sizeof *p);
  int status = -1;
  if (!p || !scratch) {
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    goto done;
  }
  p->calls = calls;
  p->count = count;
  if (prepare(pool, p, options, err) != 0)
    goto done;
  measurement m = {pool, p, options, scratch, capacity, raw, raw_capacity, result};
  char words[512];
  describe_limit(calls, options, words, sizeof words);
  status = ett_cpu_limit_run(run_repeats, &m, options->limit_seconds,
                             options->threads > 1 ? words : NULL);
  if (status != 0)
    ett_err_set(err, ETT_ERR_LIMIT, "did not end within %g seconds",
                options->limit_seconds);
done:
  free(scratch);
  free(p);
  return status;
}
