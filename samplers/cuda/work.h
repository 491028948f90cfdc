/* A recorded list of launches on one device, timed by a sampler. Record tensors and
 * launches, make the list ready once, then run it repeatedly. Tensors are numbered from 0
 * in the order of creation. */
#ifndef ETT_CUDA_WORK_H
#define ETT_CUDA_WORK_H

#include <stdint.h>

#include "samplers/cuda/compile.h"
#include "samplers/cuda/device.h"

typedef enum ett_cuda_fill {
  ETT_CUDA_FILL_NORMAL,  /* mean 0, deviation 0.5, like activations */
  ETT_CUDA_FILL_UNIFORM, /* 0 to 1 */
  ETT_CUDA_FILL_ZERO,
  ETT_CUDA_FILL_INDEX, /* integers in [0, high), dtype int64 */
} ett_cuda_fill;

typedef struct ett_cuda_arg {
  enum { ETT_CUDA_ARG_TENSOR, ETT_CUDA_ARG_INTEGER, ETT_CUDA_ARG_NUMBER } kind;
  int tensor;
  long long integer;
  double number;
} ett_cuda_arg;

#define ETT_CUDA_MAX_ARGS 24

typedef struct ett_cuda_kernel {
  const char *source; /* must be valid only during the call */
  const char *name;   /* extern "C" __global__ function */
  const char *label;  /* the operator's file, for messages */
  int first_line;     /* line of that file at which the source starts */
  unsigned grid[3], block[3], shared_bytes;
  ett_cuda_arg args[ETT_CUDA_MAX_ARGS];
  int arg_count;
} ett_cuda_kernel;

/* C[m,n] = op(A)·op(B), row-major; batched with dense strides; A is m×k (k×m when
 * trans_a), B k×n (n×k when trans_b). */
typedef struct ett_cuda_gemm {
  int a, b, c;
  long long m, n, k, batch;
  int trans_a, trans_b, accumulate;
  int fast; /* fp8 on Hopper: accumulate in the tensor cores' reduced precision */
} ett_cuda_gemm;

/* Fused attention over [batch, heads, seq, head_dim] tensors; stats is fp32
 * [batch, heads, seq_q, 1]. The backward pass also uses dout, dq, dk, dv.
 * A row is the distance, in elements, between positions of a [batch, seq, heads,
 * head_dim] tensor, such as a slice of a packed projection: q_row of q and dq, kv_row of
 * k, v, dk and dv, out_row of out and dout. */
typedef struct ett_cuda_attention {
  int q, k, v, out, stats, dout, dq, dk, dv;
  long long batch, heads, kv_heads, seq_q, seq_k, head_dim;
  long long q_row, kv_row, out_row; /* 0: dense */
  int causal, backward;
} ett_cuda_attention;

typedef struct ett_cuda_work ett_cuda_work;

/* The device must outlive the work. dtype: element type of the campaign. */
ett_cuda_work *ett_cuda_work_new(ett_cuda_device *device, ett_cuda_dtype dtype,
                                 ett_err *err);
void ett_cuda_work_free(ett_cuda_work *work); /* NULL is allowed */

/* Returns the tensor's number, or -1. */
int ett_cuda_work_tensor(ett_cuda_work *work, long long count, ett_cuda_dtype dtype,
                         ett_cuda_fill fill, long long high, uint64_t seed, ett_err *err);

/* Creates a view of `count` elements of a tensor from `first` (counted from 0) on;
 * returns its number, or -1. The memory belongs to the tensor. */
int ett_cuda_work_view(ett_cuda_work *work, int tensor, long long first, long long count,
                       ett_err *err);

/* Fills a tensor or a view immediately; not a launch of the list. deviation: of
 * ETT_CUDA_FILL_NORMAL. Element i depends only on the seed and i, for any dtype. */
int ett_cuda_work_fill(ett_cuda_work *work, int tensor, ett_cuda_fill fill,
                       long long high, double deviation, uint64_t seed, ett_err *err);

int ett_cuda_work_kernel(ett_cuda_work *work, const ett_cuda_kernel *kernel,
                         ett_err *err);

/* With autotune, times every algorithm of the heuristic and keeps the fastest. */
int ett_cuda_work_gemm(ett_cuda_work *work, const ett_cuda_gemm *gemm, int autotune,
                       ett_err *err);
int ett_cuda_work_attention(ett_cuda_work *work, const ett_cuda_attention *attention,
                            ett_err *err);

/* Captures the list into one CUDA graph (graph != 0) and runs it once. */
int ett_cuda_work_ready(ett_cuda_work *work, int graph, double time_limit_seconds,
                        ett_err *err);

/* Runs the list `repeats` times and writes the seconds of each run, by CUDA events. flush
 * overwrites the L2 cache before each run. After a timeout this process can no longer use
 * the device. */
int ett_cuda_work_time(ett_cuda_work *work, int repeats, int flush,
                       double time_limit_seconds, double *seconds, ett_err *err);

/* Runs the list once and writes the wall seconds from the first enqueue call until the
 * device has finished. */
int ett_cuda_work_run(ett_cuda_work *work, double time_limit_seconds, double *seconds,
                      ett_err *err);

/* Launches recorded so far. */
int ett_cuda_work_launches(const ett_cuda_work *work);

/* Runs the list once, launch by launch, and writes the seconds of each part, by CUDA
 * events. Part i ends before launch ends[i], the last part at the end. The device is kept
 * busy first, for about 10 us per launch, so that it does not wait for the host. */
int ett_cuda_work_time_parts(ett_cuda_work *work, const int *ends, int parts,
                             double time_limit_seconds, double *seconds, ett_err *err);

typedef struct ett_cuda_kernel_time {
  char name[256];
  double seconds;
} ett_cuda_kernel_time;

/* Runs the list once under CUPTI and writes the times of at most `room` kernels, in the
 * order of their starts. Returns the number of kernels, or -1. */
int ett_cuda_profile(ett_cuda_work *work, double time_limit_seconds,
                     ett_cuda_kernel_time *times, int room, ett_err *err);

/* Reads the first count elements as doubles; for checks. */
int ett_cuda_work_read(ett_cuda_work *work, int tensor, double *values, long long count,
                       ett_err *err);
/* Sets the first count elements, rounded to nearest; for checks. */
int ett_cuda_work_write(ett_cuda_work *work, int tensor, const double *values,
                        long long count, ett_err *err);
long long ett_cuda_work_count(const ett_cuda_work *work, int tensor);
/* Device address of a tensor; 0 if the tensor does not exist. */
CUdeviceptr ett_cuda_work_address(const ett_cuda_work *work, int tensor);
ett_cuda_dtype ett_cuda_work_tensor_dtype(const ett_cuda_work *work, int tensor);

/* A launch added by gemm.c or attention.c; run enqueues it on the stream. */
typedef struct ett_cuda_launch {
  int (*run)(struct ett_cuda_launch *launch, ett_err *err);
  void (*free)(struct ett_cuda_launch *launch);
} ett_cuda_launch;

/* The list, for work.c, kernel.c and tensor.c. */
typedef struct ett_cuda_tensor {
  CUdeviceptr address;
  long long count;
  ett_cuda_dtype dtype;
  int is_view; /* memory belongs to another tensor */
} ett_cuda_tensor;

struct ett_cuda_work {
  ett_cuda_device *device;
  ett_cuda_dtype dtype;
  ett_cuda_tensor *tensors;
  ett_cuda_launch **launches;
  int tensor_count, launch_count;
  uint32_t tensor_room, launch_room;
  CUgraphExec executable; /* NULL until ready(), and without a graph */
};

int ett_cuda_work_add(ett_cuda_work *work, ett_cuda_launch *launch, ett_err *err);
int ett_cuda_workspace(ett_cuda_device *device, ett_err *err);

#endif
