#include "samplers/nccl/nccl.h"

#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

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
  CUdeviceptr
      meeting; /* one number, all-reduced before each run to synchronise the start */
  CUdeviceptr in, out; /* message buffers; out is 0 until needed */
  size_t in_bytes, out_bytes;
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
  return ett_err_set(err, ETT_ERR_LOST, "NCCL: %s: %s", doing,
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
  if (ett_cuda_device_allocate(device, sizeof(float), "a number", &comm->meeting, err) !=
      0) {
    ett_nccl_close(comm);
    return NULL;
  }
  return comm;
}

void ett_nccl_close(ett_nccl *comm) {
  if (!comm)
    return;
  const ett_cuda_device *device = comm->device;
  /* Also when another device was used since: the calls below act in its context. */
  const int alive = device->driver && ett_cuda_device_use(device, NULL) == 0;
  if (comm->comm && alive)
    nccl.ncclCommDestroy(comm->comm);
  else if (comm->comm)
    nccl.ncclCommAbort(comm->comm); /* a destroy would wait for the lost device */
  if (alive) {
    const CUdeviceptr buffers[] = {comm->meeting, comm->in, comm->out};
    for (int i = 0; i < 3; i++)
      if (buffers[i])
        device->driver->cuMemFree(buffers[i]);
  }
  free(comm);
}

static const ncclDataType_t data_types[] = {[ETT_CUDA_FP16] = ncclFloat16,
                                            [ETT_CUDA_BF16] = ncclBfloat16,
                                            [ETT_CUDA_FP32] = ncclFloat32,
                                            [ETT_CUDA_FP8] = ncclInt8,
                                            [ETT_CUDA_INT64] = ncclInt64};

/* One collective; a share is count / size elements. In place, the input is at this rank's
 * share of the whole, as NCCL expects. */
static ncclResult_t enqueue(ett_nccl *comm, const ett_nccl_request *request, char *in,
                            char *out) {
  size_t bytes = ett_cuda_dtype_bytes(request->dtype);
  size_t whole = (size_t)request->count, share = whole / (size_t)comm->size;
  size_t mine = (size_t)comm->rank * share * bytes;
  ncclDataType_t type = data_types[request->dtype];
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

/* Waits for the stream. A lost peer appears as an asynchronous error or a timeout. */
static int wait(ett_nccl *comm, double limit_seconds, ett_err *err) {
  const ett_cuda_driver *driver = comm->device->driver;
  double start = ett_clock(CLOCK_MONOTONIC);
  for (;;) {
    CUresult status = driver->cuStreamQuery(comm->device->stream);
    if (status == CUDA_SUCCESS)
      return 0;
    if (status != CUDA_ERROR_NOT_READY)
      return ett_cuda_device_check(comm->device, status, "running a collective", err);
    ncclResult_t asynchronous = ncclSuccess;
    nccl.ncclCommGetAsyncError(comm->comm, &asynchronous);
    if (asynchronous != ncclSuccess && asynchronous != ncclInProgress) {
      nccl.ncclCommAbort(comm->comm);
      comm->comm = NULL;
      return fail(asynchronous, "a rank failed", err);
    }
    if (ett_clock(CLOCK_MONOTONIC) - start > limit_seconds) {
      nccl.ncclCommAbort(comm->comm);
      comm->comm = NULL;
      return ett_err_set(
          err, ETT_ERR_LOST,
          "rank %d of %d: the collective did not finish within %g seconds; a rank may "
          "have died",
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

/* Each run begins after an all-reduce of one number, because hosts of the ranks differ by
 * tens of microseconds. Without it, the first rank would include its wait for the
 * last. */
static int time_runs(ett_nccl *comm, const ett_nccl_request *request, double *seconds,
                     ett_err *err) {
  ett_cuda_device *device = comm->device;
  const ett_cuda_driver *driver = device->driver;
  const ett_nccl_request start = {
      .kind = ETT_NCCL_ALL_REDUCE, .count = 1, .dtype = ETT_CUDA_FP32};
  CUdeviceptr out = request->in_place ? comm->in : comm->out;
  int runs = request->repeats + 1; /* the first is a warm-up */
  const CUevent *events = ett_cuda_device_events(device, 2 * runs, err);
  if (!events)
    return -1;
  for (int i = 0; i < runs; i++) {
    if (run_once(comm, &start, comm->meeting, comm->meeting, err) != 0)
      return -1;
    CUresult status = driver->cuEventRecord(events[2 * i], device->stream);
    if (status == CUDA_SUCCESS && run_once(comm, request, comm->in, out, err) != 0)
      return -1;
    if (status == CUDA_SUCCESS)
      status = driver->cuEventRecord(events[2 * i + 1], device->stream);
    if (status != CUDA_SUCCESS)
      return ett_cuda_device_check(device, status, "timing a collective", err);
  }
  if (wait(comm, request->time_limit_seconds, err) != 0)
    return -1;
  for (int i = 1; i < runs; i++) {
    if (ett_cuda_device_elapsed(device, events[2 * i], events[2 * i + 1], &seconds[i - 1],
                                err) != 0)
      return -1;
  }
  return 0;
}

static int reserve(ett_nccl *comm, CUdeviceptr *buffer, size_t *held, size_t bytes,
                   ett_err *err) {
  if (*held >= bytes)
    return 0;
  if (*buffer)
    comm->device->driver->cuMemFree(*buffer);
  *buffer = 0;
  *held = 0;
  if (ett_cuda_device_allocate(comm->device, bytes, "a message", buffer, err) != 0)
    return -1;
  *held = bytes;
  CUresult status =
      comm->device->driver->cuMemsetD8Async(*buffer, 0, bytes, comm->device->stream);
  return ett_cuda_device_check(comm->device, status, "clearing a message", err);
}

int ett_nccl_prepare(ett_nccl *comm, const ett_nccl_request *request, ett_err *err) {
  size_t bytes;
  if (!comm->comm)
    return ett_err_set(err, ETT_ERR_LOST, "the communicator was aborted after a failure");
  if (request->count <= 0 || request->repeats <= 0 ||
      __builtin_mul_overflow((size_t)request->count, ett_cuda_dtype_bytes(request->dtype),
                             &bytes))
    return ett_err_set(err, ETT_ERR_ARGUMENT, "an impossible count of elements: %lld",
                       request->count);
  if (request->kind != ETT_NCCL_ALL_REDUCE && request->kind != ETT_NCCL_SEND_RECV &&
      request->kind != ETT_NCCL_BROADCAST && request->count % comm->size != 0)
    return ett_err_set(
        err, ETT_ERR_ARGUMENT,
        "%lld elements cannot be shared by %d ranks; the next count that can "
        "is %lld",
        request->count, comm->size,
        request->count / comm->size * comm->size + comm->size);
  if (request->in_place && request->kind == ETT_NCCL_ALL_TO_ALL)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "an all_to_all in place would overwrite data before it is sent");
  if (request->dtype == ETT_CUDA_FP8 &&
      (request->kind == ETT_NCCL_ALL_REDUCE || request->kind == ETT_NCCL_REDUCE_SCATTER))
    return ett_err_set(err, ETT_ERR_ARGUMENT, "fp8 messages cannot be summed; use bf16");
  if (ett_cuda_device_use(comm->device, err) != 0)
    return -1;
  if (reserve(comm, &comm->in, &comm->in_bytes, bytes, err) != 0)
    return -1;
  return request->in_place ? 0 : reserve(comm, &comm->out, &comm->out_bytes, bytes, err);
}

int ett_nccl_time(ett_nccl *comm, const ett_nccl_request *request, double *seconds,
                  ett_err *err) {
  if (ett_nccl_prepare(comm, request, err) != 0)
    return -1;
  return time_runs(comm, request, seconds, err);
}
