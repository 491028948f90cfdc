/* Times a list of kernel calls on rotating cold operands.
 *
 * A pool holds one arena of finite random inputs, never written after it is made, and one
 * of outputs, never read as input: outputs that flow back as inputs grow to infinities
 * and slow exp by several times. A measurement cuts several sets of operands out of the
 * arenas, so that each repeat finds its data outside the caches, as a training step does;
 * a measurement goes on where the last one stopped, for the start of the arenas is what
 * the last shape left in the caches. The arenas lie on huge pages (sample/pages.h).
 * Repeats in which the thread lost the processor (wall time above thread time by more
 * than 1 %) are dropped; the clock is compared with the best seen by a fixed chain of
 * dependent multiplications. */
#ifndef ETT_CPU_MEASURE_H
#define ETT_CPU_MEASURE_H

#include "samplers/core/stats.h"
#include "samplers/cpu/cpu.h"

enum { ETT_CPU_MAX_CALLS = 16 }; /* of one measurement */

typedef struct ett_cpu_pool ett_cpu_pool;

typedef struct {
  const ett_cpu_kind *kind;
  ett_cpu_pass pass;
  int64_t d[ETT_CPU_MAX_DIMS];
} ett_cpu_call;

typedef struct {
  double budget_seconds; /* time for the repeats of one measurement */
  double target;         /* stop when half width / low mean is below this */
  int min_repeats;
  int max_repeats;
  int threads;          /* above 1 the thread-time guard does not apply */
  double known_seconds; /* of one execution; 0: warm up until two agree, to learn it */
  double limit_bytes;   /* refuse larger operand sets; 0: what the machine has free */
  double limit_seconds; /* of one execution or one group of short ones; 0: none */
} ett_cpu_options;

enum {
  ETT_CPU_PREEMPTED = 1, /* too few repeats kept the processor: thread time was used */
  ETT_CPU_SLOW_CLOCK = 2 /* the clock was over 5 % below the best seen by the pool */
};

typedef struct {
  ett_sample_stats stats; /* seconds of one execution of the whole list */
  int repeats;            /* timed */
  int dropped;            /* of those, disturbed */
  unsigned disturbed;     /* bits above */
  double clock_ratio;     /* probe time now / best probe time; 1 is undisturbed */
} ett_cpu_result;

/* cold_bytes: how much memory the repeats walk through (two to four times the last
 * cache). Returns NULL with err set. */
ett_cpu_pool *ett_cpu_pool_new(size_t cold_bytes, uint64_t seed, ett_err *err);
void ett_cpu_pool_free(ett_cpu_pool *pool);

/* Times the calls run one after another. raw receives up to raw_capacity seconds, kept
 * repeats first to last, its count in stats.count. Returns 0, or -1 with err set
 * (ETT_ERR_ARGUMENT impossible shape, ETT_ERR_MEMORY operands too large, ETT_ERR_LIMIT
 * kernels that did not end in time; with threads above 1 these end the process, for its
 * threads cannot be stopped). */
int ett_cpu_measure(ett_cpu_pool *pool, const ett_cpu_call *calls, size_t count,
                    const ett_cpu_options *options, double *raw, size_t raw_capacity,
                    ett_cpu_result *result, ett_err *err);

/* Seconds of reading the next half megabyte of memory of the pool's own, as far out of
 * the caches as operands are: what other programs and guests leave of the memory system.
 */
double ett_cpu_memory_probe(ett_cpu_pool *pool);

/* Pins the calling thread, and the threads that it starts from now on, to count
 * processors of those that the process began with: from that processor on, -1 from the
 * one it runs on. chosen gets their numbers. Returns 0, or -1 with err set. */
int ett_cpu_pin(int processor, int count, int *chosen, ett_err *err);

/* The first processor of those that the process began with, from that number on, or -1:
 * without err set there is none. */
int ett_cpu_allowed(int processor, ett_err *err);

/* Lets the calling thread run where the process began to: programs that it starts inherit
 * where it may run. */
void ett_cpu_unpin(void);

/* Best of a few rounds of the clock probe, in seconds. */
double ett_cpu_clock_probe(void);

#endif
