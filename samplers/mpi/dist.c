#include "samplers/mpi/dist.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

static ett_dist_job job;
static int opened, agreed_to_end;

/* MPI_Finalize waits for every rank. A rank that fails aborts the job, because the others
 * would wait for it in a collective. */
static void finalize(int status, void *unused) {
  (void)unused;
  int done;
  MPI_Finalized(&done);
  if (done)
    return;
  if (status != 0 && !agreed_to_end && job.world.size > 1)
    MPI_Abort(MPI_COMM_WORLD, status);
  ett_dist_group all = {.comm = MPI_COMM_WORLD};
  ett_dist_agree(&all, 0); /* sleeps; MPI_Finalize would spin until all ranks arrive */
  MPI_Finalize();
}

/* Identity of the clock: the running kernel and its time namespace (containers may have
 * their own). */
typedef struct {
  char boot[64], space[64];
} clock_identity;

static clock_identity own_clock(void) {
  clock_identity own = {0};
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (file) {
    if (!fgets(own.boot, sizeof own.boot, file))
      own.boot[0] = '\0';
    fclose(file);
  }
  if (readlink("/proc/self/ns/time", own.space, sizeof own.space - 1) < 0)
    own.space[0] = '\0';
  return own;
}

/* Offset of rank 0's clock, from the fastest of several round trips (Cristian 1989). */
static double clock_offset(const ett_dist_group *world) {
  clock_identity mine = own_clock(), first = mine;
  MPI_Bcast(&first, sizeof first, MPI_CHAR, 0, world->comm);
  int foreign = strcmp(first.boot, mine.boot) || strcmp(first.space, mine.space), any = 0;
  MPI_Allreduce(&foreign, &any, 1, MPI_INT, MPI_MAX, world->comm);
  if (!any)
    return 0;
  double best = 1e9, offset = 0;
  for (int rank = 1; rank < world->size; rank++) {
    for (int round = 0; round < 50; round++) {
      double theirs = 0;
      if (world->rank == rank) {
        double sent = ett_clock(CLOCK_MONOTONIC);
        MPI_Send(&sent, 1, MPI_DOUBLE, 0, 7, world->comm);
        MPI_Recv(&theirs, 1, MPI_DOUBLE, 0, 7, world->comm, MPI_STATUS_IGNORE);
        double back = ett_clock(CLOCK_MONOTONIC);
        if (back - sent < best) {
          best = back - sent;
          offset = theirs - 0.5 * (sent + back);
        }
      } else if (world->rank == 0) {
        MPI_Recv(&theirs, 1, MPI_DOUBLE, rank, 7, world->comm, MPI_STATUS_IGNORE);
        theirs = ett_clock(CLOCK_MONOTONIC);
        MPI_Send(&theirs, 1, MPI_DOUBLE, rank, 7, world->comm);
      }
    }
  }
  return foreign ? offset : 0;
}

static void find_node(ett_dist_job *j) {
  const char *slurm = getenv("SLURM_NODEID");
  MPI_Comm shared;
  if (slurm && getenv("SLURM_NNODES"))
    MPI_Comm_split(j->world.comm, atoi(slurm), j->world.rank, &shared);
  else
    MPI_Comm_split_type(j->world.comm, MPI_COMM_TYPE_SHARED, j->world.rank, MPI_INFO_NULL,
                        &shared);
  int local_size;
  MPI_Comm_rank(shared, &j->local_rank);
  MPI_Comm_size(shared, &local_size);
  MPI_Allreduce(&local_size, &j->ranks_per_node, 1, MPI_INT, MPI_MIN, j->world.comm);
  /* Nodes are numbered in the order of their first rank. */
  int leader = j->local_rank == 0, before = 0;
  MPI_Exscan(&leader, &before, 1, MPI_INT, MPI_SUM, j->world.comm);
  j->node = j->world.rank == 0 ? 0 : before;
  MPI_Bcast(&j->node, 1, MPI_INT, 0, shared);
  MPI_Allreduce(&leader, &j->nodes, 1, MPI_INT, MPI_SUM, j->world.comm);
  MPI_Comm_free(&shared);
}

/* Small messages to mpirun's daemon go out at once. PMIx leaves Nagle's algorithm on,
 * which makes MPI_Finalize take 45 ms instead of 3. Only descriptors up to 63 are tried:
 * PMIx opens its socket early, among the first ones. */
static void send_at_once(void) {
  for (int fd = 3, one = 1; fd < 64; fd++) {
    int protocol = 0;
    socklen_t bytes = sizeof protocol;
    if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes) == 0 &&
        protocol == IPPROTO_TCP)
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
}

const ett_dist_job *ett_dist_open(ett_err *err) {
  if (opened)
    return &job;
  int provided = 0, before = 0;
  MPI_Initialized(&before);
  if (!before && MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) != 0) {
    ett_err_set(err, ETT_ERR_MISSING, "MPI cannot start");
    return NULL;
  }
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_MULTIPLE) {
    ett_err_set(err, ETT_ERR_MISSING,
                "this MPI library does not support MPI_THREAD_MULTIPLE");
    return NULL;
  }
  send_at_once();
  on_exit(finalize, NULL);
  memset(&job, 0, sizeof job);
  MPI_Comm_dup(MPI_COMM_WORLD, &job.world.comm);
  MPI_Comm_rank(job.world.comm, &job.world.rank);
  MPI_Comm_size(job.world.comm, &job.world.size);
  find_node(&job);
  job.offset_seconds = clock_offset(&job.world);
  int length;
  MPI_Get_library_version(job.library, &length);
  job.library[strcspn(job.library, ",\n")] = '\0';
  opened = 1;
  return &job;
}

void ett_dist_leave(void) {
  agreed_to_end = 1;
}

int ett_dist_split(const ett_dist_group *parent, int color, int key, ett_dist_group *out,
                   ett_err *err) {
  if (MPI_Comm_split(parent->comm, color < 0 ? MPI_UNDEFINED : color, key, &out->comm) !=
      MPI_SUCCESS)
    return ett_err_set(err, ETT_ERR_INTERNAL, "MPI_Comm_split failed");
  out->rank = out->size = 0;
  if (out->comm != MPI_COMM_NULL) {
    MPI_Comm_rank(out->comm, &out->rank);
    MPI_Comm_size(out->comm, &out->size);
  }
  return 0;
}

void ett_dist_group_free(ett_dist_group *group) {
  int done;
  MPI_Finalized(&done);
  if (!done && group->comm != MPI_COMM_NULL)
    MPI_Comm_free(&group->comm);
  group->comm = MPI_COMM_NULL;
}
