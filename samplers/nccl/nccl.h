/* Collectives timed on one rank's GPU. Rank 0 creates an id; the caller sends its 128
 * bytes to the other ranks, for example over MPI. */
#ifndef ETT_NCCL_NCCL_H
#define ETT_NCCL_NCCL_H

#include "samplers/cuda/compile.h"
#include "samplers/cuda/device.h"

#define ETT_NCCL_ID_BYTES 128

typedef enum ett_nccl_kind {
  ETT_NCCL_ALL_REDUCE,
  ETT_NCCL_ALL_GATHER,
  ETT_NCCL_REDUCE_SCATTER,
  ETT_NCCL_ALL_TO_ALL,
  ETT_NCCL_SEND_RECV, /* every rank sends to the next and receives from the previous */
  ETT_NCCL_BROADCAST, /* from rank 0 */
} ett_nccl_kind;

/* count: elements of the whole message for all_reduce, broadcast and send_recv, and of
 * the whole gathered or scattered buffer for the others. */
typedef struct ett_nccl_request {
  ett_nccl_kind kind;
  long long count;
  ett_cuda_dtype dtype; /* fp8 is sent as bytes, by collectives without arithmetic */
  int in_place;
  int repeats;
  double time_limit_seconds;
} ett_nccl_request;

typedef struct ett_nccl ett_nccl;

int ett_nccl_unique_id(char id[ETT_NCCL_ID_BYTES], ett_err *err);

/* Joins the communicator; every rank must call it. The device must outlive it. */
ett_nccl *ett_nccl_open(ett_cuda_device *device, int rank, int size,
                        const char id[ETT_NCCL_ID_BYTES], ett_err *err);
void ett_nccl_close(ett_nccl *comm); /* NULL is allowed */

/* Version of the library, such as 22809. */
int ett_nccl_version(ett_err *err);

/* Checks the request and allocates its buffers, so that a rank without memory is known
 * before others start. */
int ett_nccl_prepare(ett_nccl *comm, const ett_nccl_request *request, ett_err *err);

/* Runs the collective `repeats` times, all ranks together, and writes this rank's seconds
 * of each run (CUDA events). */
int ett_nccl_time(ett_nccl *comm, const ett_nccl_request *request, double *seconds,
                  ett_err *err);

#endif
