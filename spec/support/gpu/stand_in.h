/* stand_in.h - shared by the parts of the stand-in GPU.
 *
 * The stand-in is a set of shared objects with the names of NVIDIA's libraries. It checks
 * every call by the documentation of the real library, and keeps device memory on the
 * host. Work on a stream is done immediately, but counts as running for the time of a
 * simple model. Errors that a real library reports return its error code. Calls that
 * would crash a real library, or leak, end the process with a line that begins with
 * "stand-in:".
 *
 * Environment variables (all optional):
 *
 *   ETT_GPU_DEVICES, ETT_GPU_CAPABILITY, ETT_GPU_MEMORY (bytes), ETT_GPU_L2 (bytes)
 *
 *   ETT_GPU_PEER=0: no device reaches another's memory
 *
 *   ETT_GPU_NO_CUPTI: CUPTI refuses to profile; "flush": to give its records
 *
 *   ETT_GPU_NO_CAPTURE: a capture forbids every launch
 *
 *   ETT_GPU_CUDNN_VERSION: what cudnnGetVersion returns, as 91900
 *
 *   ETT_GPU_ALLOCATION_FAILS=n: the n-th allocation and all later ones fail
 *
 *   ETT_GPU_LOST=n:status: the n-th launch makes the context fail with that CUresult
 *
 *   ETT_GPU_RANK_DIES=rank:call: that rank ends at that NCCL call
 *
 *   ETT_GPU_EXECUTE=FOLDER, ETT_GPU_HOST_HEADER=FILE: kernels, products and attention are
 *   computed; needs the stand-in libnvrtc and a C++ compiler
 *
 *   ETT_GPU_CUBINS=FOLDER: the stand-in libnvrtc stores compiled kernels there
 *
 *   ETT_GPU_REPORT=FILE: at exit, counts of calls and of held objects */
#ifndef ETT_STAND_IN_H
#define ETT_STAND_IN_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cuda.h>

/* Allocations of the stand-in never fail in failed-allocation specs. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void __libc_free(void *block);
#define malloc __libc_malloc
#define calloc __libc_calloc
#define realloc __libc_realloc
#define free __libc_free

/* Ends the process at a call that would crash or corrupt a real device. */
void ett_stand_in_abort(const char *format, ...)
    __attribute__((format(printf, 1, 2), noreturn));

/* Counts a call under a name, for the report. */
void ett_stand_in_count(const char *name);

/* A piece of device work: run(data) does it on the host, NULL is allowed; data is freed
 * by the stand-in. */
typedef struct ett_stand_in_work {
  const char *name;
  double seconds;
  void (*run)(void *data);
  void *data;
  size_t data_bytes; /* copied when a graph records it */
} ett_stand_in_work;

/* Enqueues work on a stream, or records it if the stream is being captured. */
CUresult ett_stand_in_enqueue(CUstream stream, const ett_stand_in_work *work);

/* Status of the calling thread's context: CUDA_SUCCESS, or its permanent error. */
CUresult ett_stand_in_status(void);

/* Whether one live allocation contains [address, address + bytes). */
int ett_stand_in_holds(CUdeviceptr address, size_t bytes);

/* Capability (90 for sm_90) of the device in use. */
int ett_stand_in_capability(void);

/* A profiler's callback: called for each finished piece of work with its start and end
 * in nanoseconds. */
typedef void ett_stand_in_listener(const char *name, uint64_t start_ns, uint64_t end_ns);
void ett_stand_in_listen(ett_stand_in_listener *listener);

#endif
