/* The ranks of an MPI job: groups, collectives on host buffers, and shared work.
 *
 * MPI is initialised by ett_dist_open with MPI_THREAD_MULTIPLE and finalised when the
 * process ends. Elements are 4-byte floats; counts are in elements. */
#ifndef ETT_DIST_DIST_H
#define ETT_DIST_DIST_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "samplers/core/journal.h"
#include "samplers/core/stats.h"

typedef struct {
  MPI_Comm comm;
  int rank, size;
} ett_dist_group;

typedef struct {
  ett_dist_group world;
  int node, nodes;       /* node of this rank (by Slurm, else by shared memory) */
  int local_rank;        /* rank within the node */
  int ranks_per_node;    /* minimum over the nodes */
  double offset_seconds; /* rank 0's clock minus this rank's; 0 on the same machine */
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
} ett_dist_job;

/* Initialises MPI once per process. Returns the job, owned by the library, or NULL. */
const ett_dist_job *ett_dist_open(ett_err *err);

/* Call this when every rank is done. Afterwards this rank may exit with any status.
 * Before that, a nonzero status ends every rank, and status 0 waits for all of them. */
void ett_dist_leave(void);

/* Collective over the parent. color < 0: this rank is in no group (comm MPI_COMM_NULL).
 */
int ett_dist_split(const ett_dist_group *parent, int color, int key, ett_dist_group *out,
                   ett_err *err);
void ett_dist_group_free(ett_dist_group *group);

typedef enum {
  ETT_DIST_ALL_REDUCE,
  ETT_DIST_ALL_GATHER,
  ETT_DIST_REDUCE_SCATTER,
  ETT_DIST_ALL_TO_ALL,
  ETT_DIST_SEND_RECV,      /* rank 0 sends to rank 1 */
  ETT_DIST_BROADCAST,      /* from rank 0 */
  ETT_DIST_ALL_REDUCE_MAX, /* maximum instead of sum */
} ett_dist_collective;

/* Name to collective; -1 when unknown. */
int ett_dist_collective_find(const char *name);

/* Runs one collective. count: elements of the whole message. That is
 * the reduced, broadcast or sent buffer, or the whole gathered or scattered buffer (a
 * rank holds count / size). in == out: in place. Returns 0 or -1. */
int ett_dist_run(const ett_dist_group *group, ett_dist_collective kind, const float *in,
                 float *out, size_t count, ett_err *err);

typedef struct {
  int min_repeats, max_repeats; /* max_repeats: at least 1 */
  double budget_seconds, target;
  int in_place;
  double *raw; /* receives the seconds of the repeats: max_repeats entries, or NULL */
} ett_dist_time_options;

typedef struct {
  ett_sample_stats stats; /* of the slowest rank's seconds over the repeats */
  int repeats, dropped;   /* dropped: a rank missed the synchronised start */
  int used;               /* number of repeats in stats, and in raw */
  int late;               /* nearly all repeats had a late rank: their times are used */
} ett_dist_timing;

/* Times a collective. Before each repeat rank 0 announces a start time, and every rank
 * waits for it on its own corrected clock. A late rank is therefore not counted as a slow
 * network. The time of a repeat is that of the slowest rank. Every rank of the group must
 * call it; all get the same numbers. */
int ett_dist_time(const ett_dist_job *job, const ett_dist_group *group,
                  ett_dist_collective kind, size_t count,
                  const ett_dist_time_options *options, ett_dist_timing *out,
                  ett_err *err);

/* The maximum of the ranks' numbers, on every rank. Waiting ranks sleep: inside MPI they
 * would spin on a processor on which another rank measures. */
double ett_dist_agree(const ett_dist_group *group, double number);

/* A work queue shared by the ranks. A thread of rank 0 hands out positions 1..count one
 * by one and appends the returned lines to its journal. */
typedef struct ett_dist_work ett_dist_work;

/* Collective over the group. journal: that of rank 0, which stays open as long as the
 * work; NULL on other ranks. */
ett_dist_work *ett_dist_work_open(const ett_dist_group *group,
                                  ett_sample_journal *journal, int64_t count,
                                  ett_err *err);

/* Returns the next position, 0 if none is left, -1 with err set. text: hints of this
 * rank; the others receive them at a later take. ahead: also requests the position after
 * this one, to hide the latency; then nothing may be committed. others: received hints,
 * owned by the caller, or NULL. Hints may get lost. */
int64_t ett_dist_work_take(ett_dist_work *work, const char *text, size_t bytes, int ahead,
                           char **others, size_t *length, ett_err *err);

/* Sends hints to the other ranks and receives theirs, without waiting. others: owned by
 * the caller, or NULL. Returns 1; 0 if the previous hints are still in transit (retry
 * later); -1 with err set. */
int ett_dist_work_tell(ett_dist_work *work, const char *text, size_t bytes, char **others,
                       size_t *length, ett_err *err);

/* Appends text (lines with newlines between) to the journal and syncs. */
int ett_dist_work_commit(ett_dist_work *work, const char *text, size_t bytes,
                         ett_err *err);

/* On rank 0: number of positions returned by all ranks, and of failures among them (text
 * that begins with "#!"). */
void ett_dist_work_count(ett_dist_work *work, int64_t *committed, int64_t *failed);

/* Rank 0 waits here until every other rank has closed. */
void ett_dist_work_close(ett_dist_work *work);

#endif
