/* Graphs of cuDNN's backend API, built as a list of calls. After the first failure the
 * building functions do nothing; ett_cuda_dnn_finish reports it. All tensors have four
 * dimensions. */
#ifndef ETT_CUDA_DNN_H
#define ETT_CUDA_DNN_H

#include "samplers/cuda/work.h"

#ifdef ETT_HAVE_CUDNN

typedef cudnnBackendDescriptor_t ett_cuda_descriptor;

enum {
  ETT_CUDA_DNN_ALIGNMENT = 16, /* bytes, of the tensors in memory */
  ETT_CUDA_DNN_DESCRIPTORS = 160,
  ETT_CUDA_DNN_OPERATIONS = 40,
  ETT_CUDA_DNN_BOUND = 16,
};

typedef struct ett_cuda_graph {
  ett_cuda_launch base;
  ett_cuda_device *device;
  const ett_cuda_dnn *dnn;
  ett_cuda_descriptor owned[ETT_CUDA_DNN_DESCRIPTORS];
  int owned_count;
  ett_cuda_descriptor operations[ETT_CUDA_DNN_OPERATIONS];
  int operation_count;
  int64_t next_id, ids[ETT_CUDA_DNN_BOUND];
  void *pointers[ETT_CUDA_DNN_BOUND];
  int bound_count;
  float scalars[4]; /* operands passed by value */
  int scalar_count;
  CUdeviceptr kept[3]; /* buffers owned by the graph */
  int kept_count;
  ett_cuda_descriptor plan, pack;
  CUdeviceptr workspace;
  cudnnStatus_t status; /* the first cuDNN error while building */
  ett_err failure;      /* the first other error */
} ett_cuda_graph;

/* A tensor with its shape. */
typedef struct ett_cuda_operand {
  ett_cuda_descriptor descriptor;
  int64_t dims[4], strides[4];
} ett_cuda_operand;

/* An empty graph, added as a launch; NULL on failure. */
ett_cuda_graph *ett_cuda_dnn_graph(ett_cuda_device *device, ett_err *err);

/* A tensor of the device's memory: dims with strides, of a cuDNN type. */
ett_cuda_operand ett_cuda_dnn_bound(ett_cuda_graph *graph, const int64_t dims[4],
                                    const int64_t strides[4], cudnnDataType_t type,
                                    void *address);
/* A dense fp32 buffer that the graph owns. */
ett_cuda_operand ett_cuda_dnn_kept(ett_cuda_graph *graph, const int64_t dims[4]);
/* A dense intermediate that is not stored. */
ett_cuda_operand ett_cuda_dnn_virtual(ett_cuda_graph *graph, const int64_t dims[4],
                                      cudnnDataType_t type);
/* One fp32 number, broadcast. */
ett_cuda_operand ett_cuda_dnn_scalar(ett_cuda_graph *graph, float value);

/* y = mode(x), mode(x, b) or mode(x, b, t); b and t may be NULL. */
void ett_cuda_dnn_pointwise(ett_cuda_graph *graph, cudnnPointwiseMode_t mode,
                            cudnnDataType_t compute, const ett_cuda_operand *x,
                            const ett_cuda_operand *b, const ett_cuda_operand *t,
                            const ett_cuda_operand *y);
/* y = the index of each element along an axis, int32. */
void ett_cuda_dnn_index(ett_cuda_graph *graph, int64_t axis, const ett_cuda_operand *x,
                        const ett_cuda_operand *y);
/* c = a·b over the last two dimensions, in fp32. */
void ett_cuda_dnn_matmul(ett_cuda_graph *graph, const ett_cuda_operand *a,
                         const ett_cuda_operand *b, const ett_cuda_operand *c);
/* y = x reduced along the dimensions in which y has one element. */
void ett_cuda_dnn_reduce(ett_cuda_graph *graph, cudnnReduceTensorOp_t how,
                         const ett_cuda_operand *x, const ett_cuda_operand *y);
/* A virtual tensor of the given type with the last two dimensions exchanged. */
ett_cuda_operand ett_cuda_dnn_transposed(ett_cuda_graph *graph, const ett_cuda_operand *x,
                                         cudnnDataType_t type);

/* Plans the graph and binds its tensors. On failure it frees the graph and returns -1. */
int ett_cuda_dnn_finish(ett_cuda_graph *graph, const char *what, ett_err *err);

#endif
#endif
