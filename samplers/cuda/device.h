/* One GPU: its properties, its stream, and the objects shared by all work on it. */
#ifndef ETT_CUDA_DEVICE_H
#define ETT_CUDA_DEVICE_H

#include <stdint.h>

#include "samplers/cuda/compile.h"
#include "samplers/cuda/libraries.h"

/* A compiled kernel source, loaded once per device. */
typedef struct ett_cuda_module {
  char *source;
  ett_cuda_dtype dtype;
  CUmodule module;
} ett_cuda_module;

/* Why a device is unusable. */
typedef enum ett_cuda_death {
  ETT_CUDA_ALIVE,
  ETT_CUDA_KERNEL_FAULT, /* an illegal access of a kernel, or a timeout */
  ETT_CUDA_DEVICE_FAULT, /* the device itself failed or disappeared */
} ett_cuda_death;

typedef struct ett_cuda_device {
  const ett_cuda_driver *driver;
  CUdevice ordinal;
  CUcontext context;
  CUstream stream;
  CUdeviceptr flush; /* twice the L2 cache; overwritten between timed runs */
  size_t flush_bytes;
  cublasLtHandle_t blas; /* NULL until the first GEMM */
  CUdeviceptr workspace;
  void *dnn; /* cudnnHandle_t, NULL until the first attention */
  ett_cuda_module *modules;
  int module_count, event_count;
  uint32_t module_room, event_room;
  CUevent *events; /* created at their first use, then reused */
  ett_cuda_death death;

  char name[256];
  int capability;       /* major * 10 + minor */
  int multiprocessors;  /* SMs */
  int clock_khz;        /* maximum SM clock */
  int memory_clock_khz; /* maximum memory clock */
  int l2_bytes;
  size_t memory_bytes;
  int driver_version; /* 13000 is 13.0 */
} ett_cuda_device;

#define ETT_CUDA_WORKSPACE_BYTES ((size_t)64 << 20)

/* Number of devices, or -1 with the reason. */
int ett_cuda_device_count(ett_err *err);

/* Opens device `ordinal` into *device (zeroed first): primary context, stream, flush
 * buffer. A half-open device is closed again. */
int ett_cuda_device_open(ett_cuda_device *device, int ordinal, ett_err *err);

/* May be called twice, and on a zeroed device. Memory of a lost device is not freed,
 * because the call would block. */
void ett_cuda_device_close(ett_cuda_device *device);

/* Makes the device's context current on this thread; -1 if the device is lost. */
int ett_cuda_device_use(const ett_cuda_device *device, ett_err *err);

/* Returns 0 for success; else fills err from a status of work on the device and returns
 * -1. If the context is lost, the device is marked as lost and the error is
 * ETT_ERR_LOST. */
int ett_cuda_device_check(ett_cuda_device *device, CUresult status, const char *doing,
                          ett_err *err);

/* The same for a library call; the error is `code` unless the device is lost. */
int ett_cuda_library_fail(ett_cuda_device *device, ett_err_code code, const char *doing,
                          const char *text, ett_err *err);

/* At least `count` events, owned by the device; NULL on failure. */
CUevent *ett_cuda_device_events(ett_cuda_device *device, int count, ett_err *err);

/* Seconds between two recorded events that the device has reached. */
int ett_cuda_device_elapsed(ett_cuda_device *device, CUevent from, CUevent to,
                            double *seconds, ett_err *err);

/* Polls the stream until it is done, for the first awake_seconds without sleeping, which
 * would lengthen wall times. After the time limit the device counts as lost. */
int ett_cuda_device_wait(ett_cuda_device *device, double limit_seconds,
                         double awake_seconds, ett_err *err);

/* The function `name` of a source (compile.h); compiled and loaded at its first use. */
int ett_cuda_device_function(ett_cuda_device *device, const char *source,
                             const char *label, int first_line, ett_cuda_dtype dtype,
                             const char *name, CUfunction *function, ett_err *err);

/* Ensures capacity for one more element; array is the address of its pointer. */
int ett_cuda_grow(void *array, int count, uint32_t *room, size_t size, ett_err *err);

/* Allocates; the error names the bytes requested and the bytes free. */
int ett_cuda_device_allocate(ett_cuda_device *device, size_t bytes, const char *what,
                             CUdeviceptr *address, ett_err *err);

/* Write bandwidth from one GPU to the memory of another. */
typedef struct ett_cuda_peer {
  int direct;       /* 1: over a direct link; 0: through host memory */
  double bandwidth; /* bytes/s in one direction, the best of several copies */
} ett_cuda_peer;

/* Copies `bytes` from one open device to another: once to warm up, then `repeats` times.
 * Frees its memory and restores peer access, also after an error. */
int ett_cuda_peer_measure(ett_cuda_device *from, ett_cuda_device *to, size_t bytes,
                          int repeats, double time_limit_seconds, ett_cuda_peer *peer,
                          ett_err *err);

#endif
