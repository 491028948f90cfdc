/* list.h - what work.c, kernel.c and tensor.c share: the recorded list itself. */
#ifndef ETT_CUDA_LIST_H
#define ETT_CUDA_LIST_H

#include "samplers/cuda/work.h"

typedef struct ett_cuda_tensor {
  CUdeviceptr address;
  long long count;
  ett_cuda_dtype dtype;
  int is_view; /* of another tensor's memory */
} ett_cuda_tensor;

struct ett_cuda_work {
  ett_cuda_device *device;
  ett_cuda_dtype dtype;
  ett_cuda_tensor *tensors;
  int tensor_count, tensor_room;
  ett_cuda_launch **launches;
  int launch_count, launch_room;
  CUgraph graph;
  CUgraphExec executable;
};

#endif
