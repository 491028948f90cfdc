/* Times a list of kernel calls on rotating cold operands.
 *
 * A pool has two arenas: random inputs, which are never written, and outputs, which are
 * never read. Outputs used as inputs would grow to infinity, which slows exp several
 * times. A measurement places several sets of operands in the arenas, so that each repeat
 * finds its data outside the caches, as in a training step. It continues where the last
 * one stopped, because the start of the arenas may still be cached. Repeats in which the
 * thread was descheduled (wall time over 1 % above thread time) are dropped. A fixed
 * chain of dependent multiplications compares the clock with the best one seen. */
#ifndef ETT_CPU_MEASURE_H
#define ETT_CPU_MEASURE_H

#include "samplers/core/stats.h"
#include "samplers/cpu/cpu.h"

enum { ETT_CPU_MAX_CALLS = 16 }; /* per measurement */

typedef struct ett_cpu_pool ett_cpu_pool;

typedef struct {
  const ett_cpu_kind *kind;
  ett_cpu_pass pass;
  int64_t d[ETT_CPU_MAX_DIMS];
} ett_cpu_call;

typedef struct {
  double budget_seconds; /* total time of the repeats of one measurement */
  double target;         /* stop if half-width / low mean is below this */
  int min_repeats, max_repeats;
  int threads;          /* above 1: thread time is not compared with wall time */
  double known_seconds; /* of one execution; 0: warm up until two executions agree */
  double limit_bytes;   /* refuse larger operand sets; 0: most of the free memory */
  double limit_seconds; /* of one execution or one group of short ones; 0: no limit */
} ett_cpu_options;

extern const ett_cpu_options ett_cpu_default_options;

enum {
  ETT_CPU_PREEMPTED = 1, /* fewer than 3 repeats were kept, so thread times are used; or
                            dropped repeats took the time of some of min_repeats */
  ETT_CPU_SLOW_CLOCK = 2 /* the clock is over 5 % below the pool's best */
};

typedef struct {
  ett_sample_stats stats; /* seconds of one execution of the whole list */
  int repeats;            /* timed repeats */
  int dropped;            /* dropped ones among them */
  unsigned disturbed;     /* bits above */
  double clock_ratio;     /* current probe time / best probe time; 1 is undisturbed */
} ett_cpu_result;

/* cold_bytes: size of the rotating operands, two to four times the last-level cache.
 * Returns NULL with err set. */
ett_cpu_pool *ett_cpu_pool_new(size_t cold_bytes, uint64_t seed, ett_err *err);
void ett_cpu_pool_free(ett_cpu_pool *pool);

/* Times the calls in sequence. raw receives up to raw_capacity seconds of the kept
 * repeats, in order; stats.count is their number. Returns 0, or -1 with err set:
 * ETT_ERR_ARGUMENT impossible shape, ETT_ERR_MEMORY operands too large, ETT_ERR_LIMIT
 * timeout. With several threads a timeout ends the process, because threads cannot be
 * stopped. */
int ett_cpu_measure(ett_cpu_pool *pool, const ett_cpu_call *calls, size_t count,
                    const ett_cpu_options *options, double *raw, size_t raw_capacity,
                    ett_cpu_result *result, ett_err *err);

/* Seconds to read the next half megabyte of the pool's cold memory. It rises if other
 * programs use memory bandwidth. */
double ett_cpu_memory_probe(ett_cpu_pool *pool);

/* Pins the calling thread, and threads that it starts later, to `count` processors of the
 * initial affinity: from `processor` on, or from the current one if it is -1. chosen
 * receives their numbers. Returns 0, or -1 with err set. */
int ett_cpu_pin(int processor, int count, int *chosen, ett_err *err);

/* The first processor of the initial affinity, from that number on. -1: none, or an error
 * with err set. */
int ett_cpu_allowed(int processor, ett_err *err);

/* Restores the initial affinity; programs that the thread starts inherit it. */
void ett_cpu_unpin(void);

/* Seconds of the clock probe: the best of five rounds. */
double ett_cpu_clock_probe(void);

#endif
