/* Time per kernel, recorded by CUPTI. */
#ifndef ETT_CUDA_PROFILE_H
#define ETT_CUDA_PROFILE_H

#include "samplers/cuda/work.h"

typedef struct ett_cuda_kernel_time {
  char name[256];
  double seconds;
} ett_cuda_kernel_time;

/* Runs the list once under CUPTI and writes the times of at most `room` kernels, in the
 * order of their starts. Returns the number of kernels, or -1. */
int ett_cuda_profile(ett_cuda_work *work, double time_limit_seconds,
                     ett_cuda_kernel_time *times, int room, ett_err *err);

#endif
