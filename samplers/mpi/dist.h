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

typedef struct {
  MPI_Comm comm;
  int rank, size;
} ett_dist_group;

typedef struct {
  ett_dist_group world;
  int node, nodes;       /* this rank's node (Slurm's number, else by shared memory) */
  int local_rank;        /* among the ranks of the node */
  int ranks_per_node;    /* least over the nodes */
  double offset_seconds; /* rank 0's clock minus this one's; 0 on the same machine */
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
} ett_dist_job;

/* Initialises MPI once per process. Returns the job, owned by the library, or NULL. */
const ett_dist_job *ett_dist_open(ett_err *err);

/* Called when every rank is done: this one may then exit with any status. Before that, a
 * status other than 0 ends every rank, and 0 waits for all of them. */
void ett_dist_leave(void);

/* Ends every rank of the job, naming this one on standard error. Does not return. */
void ett_dist_abort(int status);

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
  ETT_DIST_ALL_REDUCE_MAX, /* the largest in place of the sum */
} ett_dist_collective;

/* Name to collective; -1 when unknown. */
int ett_dist_collective_find(const char *name);

/* Runs one collective. count: elements of the whole message, as in nccl-tests: of the
 * reduced, broadcast or sent buffer, else of the gathered or scattered whole (a rank
 * holds count / size). in == out: in place. Returns 0 or -1. */
int ett_dist_run(const ett_dist_group *group, ett_dist_collective kind, const float *in,
                 float *out, size_t count, ett_err *err);

typedef struct {
  int min_repeats, max_repeats;
  double budget_seconds, target;
  int in_place;
  double *raw; /* receives the repeats' seconds: room for max_repeats, or NULL */
} ett_dist_time_options;

typedef struct {
  double seconds; /* low mean over repeats of the slowest rank's time */
  double min_seconds, median_seconds, half_width_seconds;
  int repeats, dropped; /* dropped: a rank was late for the synchronised start */
  int used;             /* repeats that the times above are from; their count in raw */
  int late;             /* nearly all repeats were late: their times are used */
} ett_dist_timing;

/* Times a collective. Before each repeat rank 0 announces a start time, for which every
 * rank waits on its own corrected clock; so a late rank does not count as a slow network.
 * The time of a repeat is the slowest rank's. Every rank of the group calls it and gets
 * the same numbers. */
int ett_dist_time(const ett_dist_job *job, const ett_dist_group *group,
                  ett_dist_collective kind, size_t count,
                  const ett_dist_time_options *options, ett_dist_timing *out,
                  ett_err *err);

/* The largest of the ranks' numbers, on each of them. Waiting ranks sleep: inside MPI
 * they would spin on a processor that another rank measures on. */
double ett_dist_agree(const ett_dist_group *group, double number);

/* Work shared by the ranks. A thread of rank 0 hands out positions 1..count one by one
 * and appends the returned lines to its journal. */
typedef struct ett_dist_work ett_dist_work;

/* Collective over group. journal: rank 0's (borrowed; must outlive the work), ignored on
 * the others. */
ett_dist_work *ett_dist_work_open(const ett_dist_group *group,
                                  ett_sample_journal *journal, int64_t count,
                                  ett_err *err);

/* The next position, 0 when none is left, -1 with err set. text: news of this rank, which
 * every other hears at a later take. ahead: the request of the position after it leaves
 * already, so that no rank waits; then nothing may be committed. others: their news,
 * owned by the caller, or NULL; news are hints that may get lost. */
int64_t ett_dist_work_take(ett_dist_work *work, const char *text, size_t bytes, int ahead,
                           char **others, size_t *length, ett_err *err);

/* Tells the other ranks text, and takes what they told, without waiting. others: owned by
 * the caller, or NULL. Returns 1; 0: the news before are on their way still, tell these
 * later; -1 with err set. */
int ett_dist_work_tell(ett_dist_work *work, const char *text, size_t bytes, char **others,
                       size_t *length, ett_err *err);

/* Appends text (lines with newlines between) to the journal and syncs. */
int ett_dist_work_commit(ett_dist_work *work, const char *text, size_t bytes,
                         ett_err *err);

/* On rank 0: positions returned by all ranks, and failures among them (text that begins
 * with "#!"). */
void ett_dist_work_count(ett_dist_work *work, int64_t *committed, int64_t *failed);

/* Rank 0 waits here until every other rank has closed too. */
void ett_dist_work_close(ett_dist_work *work);

#endif
