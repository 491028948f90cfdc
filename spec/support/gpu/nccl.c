/* NCCL of the stand-in: ranks are processes that meet in a file named by the unique id.
 * Nothing is moved; each call is checked, takes as long as its algorithm would on a given
 * wire, and all ranks must make the same calls. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <nccl.h>

#include "stand_in.h"

enum { MAX_RANKS = 16 };

typedef struct meeting {
  int size, arrived, left;
  uint64_t calls[MAX_RANKS]; /* a hash of every rank's calls */
} meeting;

struct ncclComm {
  int rank, size;
  meeting *shared;
  long made, dies_at;
};

static int group_depth, group_sends, group_receives;

ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t status) {
  return status == ncclSuccess           ? "no error"
         : status == ncclInvalidArgument ? "invalid argument"
         : status == ncclRemoteError
             ? "remote process exited or there was a network error"
             : "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  memset(id, 0, sizeof *id);
  snprintf(id->internal, sizeof id->internal, "/tmp/ett_stand_in_%ld_%ld_%d",
           (long)t.tv_sec, t.tv_nsec, (int)getpid());
  return ncclSuccess;
}

static void wait_for(const int *counter, int wanted, const char *what) {
  for (int i = 0; __atomic_load_n(counter, __ATOMIC_SEQ_CST) < wanted; i++) {
    if (i > 20000)
      ett_stand_in_abort("NCCL: %s: only %d of %d ranks came", what, *counter, wanted);
    usleep(1000);
  }
}

ncclResult_t ncclCommInitRank(ncclComm_t *made, int size, ncclUniqueId id, int rank) {
  if (ett_stand_in_status() != CUDA_SUCCESS)
    return ncclUnhandledCudaError;
  if (rank < 0 || rank >= size || size > MAX_RANKS ||
      strncmp(id.internal, "/tmp/ett_stand_in_", 18))
    return ncclInvalidArgument;
  int file = open(id.internal, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(meeting)) != 0)
    return ncclSystemError;
  ncclComm_t comm = calloc(1, sizeof *comm);
  comm->shared = mmap(NULL, sizeof(meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  comm->rank = rank;
  comm->size = size;
  const char *dies = getenv("ETT_GPU_RANK_DIES"); /* rank:call */
  int who;
  if (dies && sscanf(dies, "%d:%ld", &who, &comm->dies_at) == 2 && who != rank)
    comm->dies_at = 0;
  __atomic_fetch_add(&comm->shared->arrived, 1, __ATOMIC_SEQ_CST);
  wait_for(&comm->shared->arrived, size, "ncclCommInitRank");
  if (rank == 0)
    unlink(id.internal);
  *made = comm;
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  __atomic_fetch_add(&comm->shared->left, 1, __ATOMIC_SEQ_CST);
  wait_for(&comm->shared->left, comm->size, "ncclCommDestroy");
  for (int i = 1; i < comm->size; i++)
    if (comm->shared->calls[i] != comm->shared->calls[0])
      ett_stand_in_abort("NCCL: rank %d made other calls than rank 0: they would hang",
                         i);
  munmap(comm->shared, sizeof *comm->shared);
  free(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  munmap(comm->shared, sizeof *comm->shared);
  free(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *status) {
  *status = comm->dies_at && comm->made >= comm->dies_at ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

static size_t type_bytes(ncclDataType_t type) {
  switch ((int)type) {
  case ncclInt8:
  case ncclUint8:
  case ncclFloat8e4m3:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt64:
    return 8;
  default:
    return 4;
  }
}

/* The output of NCCL with NCCL_DEBUG=INFO and the subsystem TUNING. */
static void say(const char *name, size_t bytes) {
  const char *level = getenv("NCCL_DEBUG"), *path = getenv("NCCL_DEBUG_FILE");
  const char *systems = getenv("NCCL_DEBUG_SUBSYS");
  if (!level || strcmp(level, "INFO") != 0 || !path || !systems ||
      !strstr(systems, "TUNING"))
    return;
  FILE *out = fopen(path, "a");
  if (!out)
    return;
  fprintf(out,
          "host:%d:%d [0] NCCL INFO %s: %zu Bytes -> Algo %s proto %s "
          "channel{Lo..Hi}={0..%d}\n",
          (int)getpid(), (int)getpid(), name, bytes, bytes < 65536 ? "TREE" : "RING",
          bytes < 4096      ? "LL"
          : bytes < 1 << 20 ? "LL128"
                            : "SIMPLE",
          bytes < 65536 ? 1 : 15);
  fclose(out);
}

static ncclResult_t enqueue(ncclComm_t comm, const char *name, const void *in,
                            size_t in_bytes, const void *out, size_t out_bytes,
                            double moved, cudaStream_t stream) {
  ett_stand_in_count(name);
  if (ett_stand_in_status() != CUDA_SUCCESS)
    return ncclUnhandledCudaError;
  if ((in && !ett_stand_in_holds((CUdeviceptr)in, in_bytes)) ||
      (out && !ett_stand_in_holds((CUdeviceptr)out, out_bytes)))
    ett_stand_in_abort("%s: a buffer leaves its allocation", name);
  uint64_t *calls = &comm->shared->calls[comm->rank];
  comm->made++;
  int dead = comm->dies_at && comm->made >= comm->dies_at;
  for (const char *c = name; *c; c++)
    *calls = (*calls ^ (unsigned char)*c) * 0x100000001b3ull;
  *calls = (*calls ^ (uint64_t)moved) * 0x100000001b3ull;
  ett_stand_in_work work = {name, dead ? 1e9 : 1e-5 + moved / 3e11 + 1e-6 * comm->rank,
                            NULL, NULL, 0};
  return ett_stand_in_enqueue((CUstream)stream, &work) == CUDA_SUCCESS
             ? ncclSuccess
             : ncclUnhandledCudaError;
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  size_t bytes = count * type_bytes(type);
  if (op != ncclSum)
    return ncclInvalidArgument;
  say("AllReduce", bytes);
  return enqueue(comm, "ncclAllReduce", in, bytes, out, bytes,
                 2.0 * (comm->size - 1) / comm->size * (double)bytes, stream);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  size_t bytes = count * type_bytes(type);
  const char *mine = (const char *)out + (size_t)comm->rank * bytes;
  if ((const char *)in != mine && (const char *)in >= (const char *)out &&
      (const char *)in < (const char *)out + bytes * (size_t)comm->size)
    ett_stand_in_abort(
        "ncclAllGather: in place, the input is this rank's share of the output");
  say("AllGather", bytes * (size_t)comm->size);
  return enqueue(comm, "ncclAllGather", in, bytes, out, bytes * (size_t)comm->size,
                 (double)(comm->size - 1) * (double)bytes, stream);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  size_t bytes = count * type_bytes(type);
  const char *mine = (const char *)in + (size_t)comm->rank * bytes;
  if (op != ncclSum)
    return ncclInvalidArgument;
  if ((const char *)out != mine && (const char *)out >= (const char *)in &&
      (const char *)out < (const char *)in + bytes * (size_t)comm->size)
    ett_stand_in_abort(
        "ncclReduceScatter: in place, the output is this rank's share of the input");
  say("ReduceScatter", bytes * (size_t)comm->size);
  return enqueue(comm, "ncclReduceScatter", in, bytes * (size_t)comm->size, out, bytes,
                 (double)(comm->size - 1) * (double)bytes, stream);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  size_t bytes = count * type_bytes(type);
  if (root < 0 || root >= comm->size)
    return ncclInvalidArgument;
  say("Broadcast", bytes);
  return enqueue(comm, "ncclBroadcast", in, bytes, out, bytes, (double)bytes, stream);
}

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclGroupStart(void) {
  group_depth++;
  group_sends = group_receives = 0;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void) {
  if (group_depth == 0)
    ett_stand_in_abort("ncclGroupEnd without ncclGroupStart");
  if (group_sends != group_receives)
    ett_stand_in_abort("a group of %d sends and %d receives would hang", group_sends,
                       group_receives);
  group_depth--;
  return ncclSuccess;
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  size_t bytes = count * type_bytes(type);
  if (peer < 0 || peer >= comm->size)
    return ncclInvalidArgument;
  if (group_depth == 0)
    ett_stand_in_abort("ncclSend outside a group would hang");
  group_sends++;
  return enqueue(comm, "ncclSend", in, bytes, NULL, 0, (double)bytes, stream);
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  size_t bytes = count * type_bytes(type);
  if (peer < 0 || peer >= comm->size)
    return ncclInvalidArgument;
  if (group_depth == 0)
    ett_stand_in_abort("ncclRecv outside a group would hang");
  group_receives++;
  return enqueue(comm, "ncclRecv", NULL, 0, out, bytes, 0, stream);
}
