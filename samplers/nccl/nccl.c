#include "samplers/nccl/nccl.h"

#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NCCL_FUNCTIONS(X)                                                                \
  X(ncclGetVersion)                                                                      \
  X(ncclGetUniqueId)                                                                     \
  X(ncclCommInitRank)                                                                    \
  X(ncclCommDestroy)                                                                     \
  X(ncclCommAbort)                                                                       \
  X(ncclCommGetAsyncError)                                                               \
  X(ncclGetErrorString)                                                                  \
  X(ncclAllReduce)                                                                       \
  X(ncclAllGather)                                                                       \
  X(ncclReduceScatter)                                                                   \
  X(ncclBroadcast)                                                                       \
  X(ncclSend)                                                                            \
  X(ncclRecv)                                                                            \
  X(ncclGroupStart)                                                                      \
  X(ncclGroupEnd)

#define FIELD(name) __typeof__(name) *name;
static struct { NCCL_FUNCTIONS(FIELD) } nccl;
#undef FIELD
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int opened;

struct ett_nccl {
  ett_cuda_device *device;
  ncclComm_t comm;
  int rank, size;
};

static int open_library(ett_err *err) {
  static const struct {
    const char *name;
    void **address;
  } symbols[] = {
#define SYMBOL(name) {#name, (void **)&nccl.name},
      NCCL_FUNCTIONS(SYMBOL)
#undef SYMBOL
  };
  void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    library = dlopen("/usr/local/cuda/lib64/libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return ett_err_set(err, ETT_ERR_MISSING, "no NCCL (libnccl.so.2); install NCCL");
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
    *symbols[i].address = dlsym(library, symbols[i].name);
    if (!*symbols[i].address)
      return ett_err_set(err, ETT_ERR_MISSING, "the NCCL found lacks %s",
                         symbols[i].name);
  }
  return 0;
}

static int ensure_open(ett_err *err) {
  pthread_mutex_lock(&lock);
  if (!opened && open_library(err) == 0)
    opened = 1;
  int result = opened ? 0 : -1;
  pthread_mutex_unlock(&lock);
  return result;
}

static int fail(ncclResult_t status, const char *doing, ett_err *err) {
  return ett_err_set(err, ETT_ERR_IO, "NCCL: %s: %s", doing,
                     nccl.ncclGetErrorString(status));
}

int ett_nccl_version(ett_err *err) {
  int version = 0;
  if (ensure_open(err) != 0)
    return -1;
  ncclResult_t status = nccl.ncclGetVersion(&version);
  return status == ncclSuccess ? version : fail(status, "reading the version", err);
}

int ett_nccl_unique_id(char id[ETT_NCCL_ID_BYTES], ett_err *err) {
  ncclUniqueId unique;
  _Static_assert(sizeof unique == ETT_NCCL_ID_BYTES, "NCCL's id has 128 bytes");
  if (ensure_open(err) != 0)
    return -1;
  ncclResult_t status = nccl.ncclGetUniqueId(&unique);
  if (status != ncclSuccess)
    return fail(status, "making an id", err);
  memcpy(id, &unique, sizeof unique);
  return 0;
}

ett_nccl *ett_nccl_open(ett_cuda_device *device, int rank, int size,
                        const char id[ETT_NCCL_ID_BYTES], ett_err *err) {
  ncclUniqueId unique;
  if (ensure_open(err) != 0)
    return NULL;
  ett_nccl *comm = calloc(1, sizeof *comm);
  if (!comm) {
    ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a communicator");
    return NULL;
  }
  comm->device = device;
  comm->rank = rank;
  comm->size = size;
  memcpy(&unique, id, sizeof unique);
  ncclResult_t status = nccl.ncclCommInitRank(&comm->comm, size, unique, rank);
  if (status != ncclSuccess) {
    fail(status, "joining the communicator", err);
    free(comm);
    return NULL;
  }
  return comm;
}

void ett_nccl_close(ett_nccl *comm) {
  if (!comm)
    return;
  if (comm->comm)
    nccl.ncclCommDestroy(comm->comm);
  free(comm);
}

static ncclDataType_t data_type(ett_cuda_dtype dtype) {
  switch (dtype) {
  case ETT_CUDA_FP16:
    return ncclFloat16;
  case ETT_CUDA_BF16:
    return ncclBfloat16;
  case ETT_CUDA_FP8:
    return ncclInt8;
  case ETT_CUDA_INT64:
    return ncclInt64;
  case ETT_CUDA_FP32:
    break;
  }
  return ncclFloat32;
}

/* One collective. Shares of the whole are count / size elements. In place, the input is
 * where NCCL expects it: at this rank's share of the whole. */
static ncclResult_t enqueue(ett_nccl *comm, const ett_nccl_request *request, char *in,
                            char *out) {
  size_t bytes = ett_cuda_dtype_bytes(request->dtype);
  size_t whole = (size_t)request->count, share = whole / (size_t)comm->size;
  size_t mine = (size_t)comm->rank * share * bytes;
  ncclDataType_t type = data_type(request->dtype);
  cudaStream_t stream = (cudaStream_t)comm->device->stream;
  ncclResult_t status = ncclSuccess;
  switch (request->kind) {
  case ETT_NCCL_ALL_REDUCE:
    return nccl.ncclAllReduce(in, out, whole, type, ncclSum, comm->comm, stream);
  case ETT_NCCL_ALL_GATHER:
    return nccl.ncclAllGather(request->in_place ? out + mine : in, out, share, type,
                              comm->comm, stream);
  case ETT_NCCL_REDUCE_SCATTER:
    return nccl.ncclReduceScatter(in, request->in_place ? in + mine : out, share, type,
                                  ncclSum, comm->comm, stream);
  case ETT_NCCL_BROADCAST:
    return nccl.ncclBroadcast(in, out, whole, type, 0, comm->comm, stream);
  case ETT_NCCL_ALL_TO_ALL:
    status = nccl.ncclGroupStart();
    for (int peer = 0; peer < comm->size && status == ncclSuccess; peer++) {
      size_t offset = (size_t)peer * share * bytes;
      status = nccl.ncclSend(in + offset, share, type, peer, comm->comm, stream);
      if (status == ncclSuccess)
        status = nccl.ncclRecv(out + offset, share, type, peer, comm->comm, stream);
    }
    break;
  case ETT_NCCL_SEND_RECV:
    status = nccl.ncclGroupStart();
    if (status == ncclSuccess)
      status = nccl.ncclSend(in, whole, type, (comm->rank + 1) % comm->size, comm->comm,
                             stream);
    if (status == ncclSuccess)
      status = nccl.ncclRecv(out, whole, type, (comm->rank + comm->size - 1) % comm->size,
                             comm->comm, stream);
    break;
  }
  ncclResult_t ended = nccl.ncclGroupEnd();
  return status != ncclSuccess ? status : ended;
}

static double now_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Waits for the stream; a peer that died shows as an asynchronous error or as silence. */
static int wait(ett_nccl *comm, double limit_seconds, ett_err *err) {
  const ett_cuda_driver *driver = comm->device->driver;
  double start = now_seconds();
  for (;;) {
    CUresult status = driver->cuStreamQuery(comm->device->stream);
    if (status == CUDA_SUCCESS)
      return 0;
    if (status != CUDA_ERROR_NOT_READY)
      return ett_cuda_fail(driver, status, "running a collective", err);
    ncclResult_t asynchronous = ncclSuccess;
    nccl.ncclCommGetAsyncError(comm->comm, &asynchronous);
    if (asynchronous != ncclSuccess && asynchronous != ncclInProgress) {
      nccl.ncclCommAbort(comm->comm);
      comm->comm = NULL;
      return fail(asynchronous, "a rank failed", err);
    }
    if (now_seconds() - start > limit_seconds) {
      nccl.ncclCommAbort(comm->comm);
      comm->comm = NULL;
      return ett_err_set(
          err, ETT_ERR_LIMIT,
          "rank %d of %d: the collective had not finished after %g seconds "
          "(a rank that died?)",
          comm->rank, comm->size, limit_seconds);
    }
    struct timespec pause = {0, 20000};
    nanosleep(&pause, NULL);
  }
}

static int run_once(ett_nccl *comm, const ett_nccl_request *request, CUdeviceptr in,
                    CUdeviceptr out, ett_err *err) {
  ncclResult_t status = enqueue(comm, request, (char *)in, (char *)out);
  return status == ncclSuccess ? 0 : fail(status, "enqueuing a collective", err);
}

static int time_runs(ett_nccl *comm, const ett_nccl_request *request, CUdeviceptr in,
                     CUdeviceptr out, CUevent events[2], double *seconds, ett_err *err) {
  const ett_cuda_driver *driver = comm->device->driver;
  CUstream stream = comm->device->stream;
  for (int i = -1; i < request->repeats;
       i++) { /* the run before the first is a warm-up */
    CUresult status = driver->cuEventRecord(events[0], stream);
    if (status == CUDA_SUCCESS && run_once(comm, request, in, out, err) != 0)
      return -1;
    if (status == CUDA_SUCCESS)
      status = driver->cuEventRecord(events[1], stream);
    if (status == CUDA_SUCCESS && wait(comm, request->time_limit_seconds, err) != 0)
      return -1;
    float milliseconds = 0;
    if (status == CUDA_SUCCESS)
      status = driver->cuEventElapsedTime(&milliseconds, events[0], events[1]);
    if (status != CUDA_SUCCESS)
      return ett_cuda_fail(driver, status, "timing a collective", err);
    if (i >= 0)
      seconds[i] = 1e-3 * (double)milliseconds;
  }
  return 0;
}

int ett_nccl_time(ett_nccl *comm, const ett_nccl_request *request, double *seconds,
                  ett_err *err) {
  const ett_cuda_driver *driver = comm->device->driver;
  CUdeviceptr in = 0, out = 0;
  CUevent events[2] = {NULL, NULL};
  if (!comm->comm)
    return ett_err_set(err, ETT_ERR_IO, "the communicator was aborted after a failure");
  if (request->count <= 0 || request->repeats <= 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "count and repeats must be positive");
  if (request->kind != ETT_NCCL_ALL_REDUCE && request->kind != ETT_NCCL_SEND_RECV &&
      request->kind != ETT_NCCL_BROADCAST && request->count % comm->size != 0)
    return ett_err_set(
        err, ETT_ERR_ARGUMENT,
        "%lld elements cannot be shared by %d ranks; the nearest count that "
        "can is %lld",
        request->count, comm->size,
        request->count / comm->size * comm->size + comm->size);
  if (request->dtype == ETT_CUDA_FP8 &&
      (request->kind == ETT_NCCL_ALL_REDUCE || request->kind == ETT_NCCL_REDUCE_SCATTER))
    return ett_err_set(err, ETT_ERR_ARGUMENT, "fp8 messages cannot be summed; use bf16");
  size_t bytes = (size_t)request->count * ett_cuda_dtype_bytes(request->dtype);
  CUresult status = driver->cuMemAlloc(&in, bytes);
  if (status == CUDA_SUCCESS && !request->in_place)
    status = driver->cuMemAlloc(&out, bytes);
  if (status == CUDA_SUCCESS)
    status = driver->cuMemsetD8Async(in, 0, bytes, comm->device->stream);
  for (int i = 0; i < 2 && status == CUDA_SUCCESS; i++)
    status = driver->cuEventCreate(&events[i], CU_EVENT_DEFAULT);
  int result = status == CUDA_SUCCESS
                   ? time_runs(comm, request, in, request->in_place ? in : out, events,
                               seconds, err)
                   : ett_cuda_fail(driver, status, "allocating the message", err);
  for (int i = 0; i < 2; i++)
    if (events[i])
      driver->cuEventDestroy(events[i]);
  if (in)
    driver->cuMemFree(in);
  if (out)
    driver->cuMemFree(out);
  return result;
}
