/* device.h - one GPU: its facts, its stream, and the library handles bound to it. */
#ifndef ETT_CUDA_DEVICE_H
#define ETT_CUDA_DEVICE_H

#include "samplers/cuda/libraries.h"

typedef struct ett_cuda_device {
  const ett_cuda_driver *driver;
  CUdevice ordinal;
  CUcontext context;
  CUstream stream;
  CUdeviceptr flush; /* twice the L2 cache: overwritten between timed runs */
  size_t flush_bytes;
  cublasLtHandle_t blas; /* NULL until the first GEMM */
  CUdeviceptr workspace;
  void *dnn; /* cudnnHandle_t, NULL until the first attention */

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

/* Safe to call twice, and on a zeroed device. */
void ett_cuda_device_close(ett_cuda_device *device);

#endif
