#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "samplers/mpi/dist.h"

static const char *const names[] = {"all_reduce",    "all_gather", "reduce_scatter",
                                    "all_to_all",    "send_recv",  "broadcast",
                                    "all_reduce_max"};

int ett_dist_collective_find(const char *name) {
  for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
    if (strcmp(names[i], name) == 0)
      return i;
  return -1;
}

/* MPI ends the process at a rank or a count that it does not have. */
static int check(const ett_dist_group *g, ett_dist_collective kind, size_t count,
                 ett_err *err) {
  if (count > INT_MAX)
    return ett_err_set(err, ETT_ERR_LIMIT,
                       "%s: %zu elements are beyond MPI's 2^31 - 1 of one call",
                       names[kind], count);
  if (kind == ETT_DIST_SEND_RECV && g->size < 2)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "send_recv needs two ranks");
  return 0;
}

int ett_dist_run(const ett_dist_group *g, ett_dist_collective kind, const float *in,
                 float *out, size_t count, ett_err *err) {
  if (check(g, kind, count, err) != 0)
    return -1;
  const int n = (int)count, share = n / g->size;
  const void *from = in == out ? MPI_IN_PLACE : (const void *)in;
  int status = MPI_SUCCESS;
  switch (kind) {
  case ETT_DIST_ALL_REDUCE:
    status = MPI_Allreduce(from, out, n, MPI_FLOAT, MPI_SUM, g->comm);
    break;
  case ETT_DIST_ALL_REDUCE_MAX:
    status = MPI_Allreduce(from, out, n, MPI_FLOAT, MPI_MAX, g->comm);
    break;
  case ETT_DIST_ALL_GATHER:
    status = MPI_Allgather(from, share, MPI_FLOAT, out, share, MPI_FLOAT, g->comm);
    break;
  case ETT_DIST_REDUCE_SCATTER:
    status = MPI_Reduce_scatter_block(from, out, share, MPI_FLOAT, MPI_SUM, g->comm);
    break;
  case ETT_DIST_ALL_TO_ALL:
    status = MPI_Alltoall(from, share, MPI_FLOAT, out, share, MPI_FLOAT, g->comm);
    break;
  case ETT_DIST_SEND_RECV:
    if (g->rank == 0)
      status = MPI_Send(in, n, MPI_FLOAT, 1, 11, g->comm);
    else if (g->rank == 1)
      status = MPI_Recv(out, n, MPI_FLOAT, 0, 11, g->comm, MPI_STATUS_IGNORE);
    break;
  case ETT_DIST_BROADCAST:
    if (g->rank == 0 && in != out)
      memcpy(out, in, count * sizeof *in);
    status = MPI_Bcast(out, n, MPI_FLOAT, 0, g->comm);
    break;
  }
  if (status != MPI_SUCCESS)
    return ett_err_set(err, ETT_ERR_IO, "%s failed in MPI", names[kind]);
  return 0;
}

enum { COLD_BYTES = 48 << 20, MOST_SETS = 8 };

typedef struct {
  float *memory;
  size_t stride, sets;
} buffers;

/* Operands rotate, because those of a training step are not in the caches. */
static int make_buffers(buffers *b, size_t count, ett_err *err) {
  b->stride = (count + 32) / 16 * 16 * 2;
  const size_t bytes = b->stride * sizeof(float);
  b->sets = (size_t)COLD_BYTES / bytes + 1;
  if (b->sets > MOST_SETS)
    b->sets = MOST_SETS;
  void *memory;
  if (posix_memalign(&memory, 64, b->sets * bytes) != 0)
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory: %.3f GB of buffers",
                       (double)(b->sets * bytes) * 1e-9);
  b->memory = memory;
  memset(memory, 0, b->sets * bytes); /* zeros, whose sums stay finite */
  return 0;
}

/* Waits for a time of rank 0's clock; returns 0 if this rank is late. */
static int wait_until(double moment, double offset, int crowded) {
  double at = ett_clock(CLOCK_MONOTONIC) + offset;
  if (at > moment)
    return 0;
  while (ett_clock(CLOCK_MONOTONIC) + offset < moment)
    if (crowded)
      sched_yield();
  return ett_clock(CLOCK_MONOTONIC) + offset < moment + 2e-6;
}

int ett_dist_time(const ett_dist_job *job, const ett_dist_group *g,
                  ett_dist_collective kind, size_t count,
                  const ett_dist_time_options *options, ett_dist_timing *out,
                  ett_err *err) {
  memset(out, 0, sizeof *out);
  const int splits = kind == ETT_DIST_ALL_GATHER || kind == ETT_DIST_REDUCE_SCATTER ||
                     kind == ETT_DIST_ALL_TO_ALL;
  if (count < 1 || (splits && count % (size_t)g->size != 0))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "%s: %zu elements cannot be shared by %d ranks; the next "
                       "count that can is %zu",
                       names[kind], count, g->size,
                       count / (size_t)g->size * (size_t)g->size + (size_t)g->size);
  if (check(g, kind, count, err) != 0)
    return -1;
  buffers b = {0};
  ett_err mine = {.message = "out of memory"};
  const int most = options->max_repeats;
  double *times = calloc((size_t)most * 3, sizeof *times);
  int failed = !times || make_buffers(&b, count, &mine) != 0, any = 0;
  MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, g->comm);
  if (any) {
    free(times);
    free(b.memory);
    return ett_err_set(err, ETT_ERR_MEMORY, "%s",
                       failed ? mine.message : "out of memory on another rank");
  }
  double *late_times = times + most, *sorted = late_times + most;
  const int crowded = job->world.size > (int)sysconf(_SC_NPROCESSORS_ONLN);
  double ahead = 30e-6; /* grows if ranks are late */
  int kept = 0, late = 0, all = 0, status = 0;
  const double start = ett_clock(CLOCK_MONOTONIC);
  for (int warm = 0; warm < 3 && status == 0; warm++)
    status =
        ett_dist_run(g, kind, b.memory,
                     options->in_place ? b.memory : b.memory + b.stride / 2, count, err);
  while (status == 0) {
    float *in = b.memory + (size_t)all % b.sets * b.stride;
    float *to = options->in_place ? in : in + b.stride / 2;
    double moment = ett_clock(CLOCK_MONOTONIC) + job->offset_seconds + ahead;
    MPI_Bcast(&moment, 1, MPI_DOUBLE, 0, g->comm);
    double report[3]; /* time, lateness, whether rank 0 requests a stop */
    report[1] = !wait_until(moment, job->offset_seconds, crowded);
    status = ett_dist_run(g, kind, in, to, count, err);
    report[0] = ett_clock(CLOCK_MONOTONIC) + job->offset_seconds - moment;
    const int done = kept >= options->min_repeats || all >= 4 * options->min_repeats + 20;
    report[2] = g->rank == 0 && done &&
                ett_clock(CLOCK_MONOTONIC) - start > options->budget_seconds;
    MPI_Allreduce(MPI_IN_PLACE, report, 3, MPI_DOUBLE, MPI_MAX, g->comm);
    if (report[1] > 0) {
      ahead = ahead < 10e-3 ? 1.5 * ahead : ahead;
      late_times[late < most ? late++ : 0] = report[0];
    } else {
      times[kept++] = report[0];
    }
    all++;
    if (report[2] > 0 || kept >= most || all >= 4 * most)
      break;
    if (kept > 0 && kept >= options->min_repeats && kept % 8 == 0) {
      ett_sample_stats stats; /* equal numbers and decisions on every rank */
      ett_sample_stats_compute(times, (size_t)kept, sorted, &stats);
      if (stats.half_width <= options->target * stats.low_mean)
        break;
    }
  }
  out->late = kept < 3 && late > kept;
  out->used = out->late ? late : kept;
  if (options->raw)
    memcpy(options->raw, out->late ? late_times : times,
           (size_t)out->used * sizeof *times);
  ett_sample_stats_compute(out->late ? late_times : times, (size_t)out->used, sorted,
                           &out->stats);
  free(times);
  free(b.memory);
  out->repeats = all;
  out->dropped = all - kept;
  return status;
}
