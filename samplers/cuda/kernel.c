/* Launches of kernels compiled at run time. */
#include <stdlib.h>
#include <string.h>

#include "samplers/cuda/work.h"

typedef struct kernel_launch {
  ett_cuda_launch base;
  ett_cuda_device *device;
  CUfunction function;
  unsigned grid[3], block[3], shared_bytes;
  union {
    CUdeviceptr address;
    long long integer;
    double number;
  } values[ETT_CUDA_MAX_ARGS];
  void *pointers[ETT_CUDA_MAX_ARGS];
  char label[128];
} kernel_launch;

static int run_kernel(ett_cuda_launch *base, ett_err *err) {
  kernel_launch *launch = (kernel_launch *)base;
  CUresult status = launch->device->driver->cuLaunchKernel(
      launch->function, launch->grid[0], launch->grid[1], launch->grid[2],
      launch->block[0], launch->block[1], launch->block[2], launch->shared_bytes,
      launch->device->stream, launch->pointers, NULL);
  return ett_cuda_device_check(launch->device, status, launch->label, err);
}

static void free_kernel(ett_cuda_launch *base) {
  free(base); /* the module is owned by the device */
}

/* The driver reads as many values as the kernel declares. With too few it would read past
 * the end; with a wrong size it would pass part of a number. */
static int check_parameters(const ett_cuda_driver *driver, CUfunction function,
                            const ett_cuda_kernel *kernel, ett_err *err) {
#if CUDA_VERSION >= 12040
  if (!driver->cuFuncGetParamInfo)
    return 0;
  size_t offset, bytes;
  int count = 0;
  while (count <= ETT_CUDA_MAX_ARGS &&
         driver->cuFuncGetParamInfo(function, (size_t)count, &offset, &bytes) ==
             CUDA_SUCCESS) {
    if (bytes != 8 && count < kernel->arg_count)
      return ett_err_set(err, ETT_ERR_FORMAT,
                         "%s: %s: parameter %d has %zu bytes; parameters are pointers, "
                         "long long or double",
                         kernel->label, kernel->name, count + 1, bytes);
    count++;
  }
  if (count != kernel->arg_count)
    return ett_err_set(err, ETT_ERR_FORMAT,
                       "%s: %s takes %d parameters, the launch passes %d", kernel->label,
                       kernel->name, count, kernel->arg_count);
#else
  (void)driver;
  (void)function;
  (void)kernel;
  (void)err;
#endif
  return 0;
}

static int load_kernel(kernel_launch *launch, const ett_cuda_kernel *kernel,
                       ett_cuda_dtype dtype, ett_err *err) {
  ett_cuda_device *device = launch->device;
  if (ett_cuda_device_function(device, kernel->source, kernel->label, kernel->first_line,
                               dtype, kernel->name, &launch->function, err) != 0 ||
      check_parameters(device->driver, launch->function, kernel, err) != 0)
    return -1;
  if (kernel->shared_bytes <= 48 * 1024)
    return 0;
  CUresult status = device->driver->cuFuncSetAttribute(
      launch->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
      (int)kernel->shared_bytes);
  return ett_cuda_device_check(device, status, kernel->name, err);
}

static int set_args(ett_cuda_work *work, kernel_launch *launch,
                    const ett_cuda_kernel *kernel, ett_err *err) {
  for (int i = 0; i < kernel->arg_count; i++) {
    const ett_cuda_arg *arg = &kernel->args[i];
    switch (arg->kind) {
    case ETT_CUDA_ARG_TENSOR:
      launch->values[i].address = ett_cuda_work_address(work, arg->tensor);
      if (!launch->values[i].address)
        return ett_err_set(err, ETT_ERR_ARGUMENT, "%s: argument %d is not a tensor",
                           kernel->name, i + 1);
      break;
    case ETT_CUDA_ARG_INTEGER:
      launch->values[i].integer = arg->integer;
      break;
    case ETT_CUDA_ARG_NUMBER:
      launch->values[i].number = arg->number;
      break;
    }
    launch->pointers[i] = &launch->values[i];
  }
  return 0;
}

static kernel_launch *new_kernel(ett_cuda_work *work, const ett_cuda_kernel *kernel,
                                 ett_err *err) {
  kernel_launch *launch = calloc(1, sizeof *launch);
  if (!launch) {
    ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a launch");
    return NULL;
  }
  launch->base.run = run_kernel;
  launch->base.free = free_kernel;
  launch->device = work->device;
  memcpy(launch->grid, kernel->grid, sizeof launch->grid);
  memcpy(launch->block, kernel->block, sizeof launch->block);
  launch->shared_bytes = kernel->shared_bytes;
  strncpy(launch->label, kernel->name, sizeof launch->label - 1);
  if (set_args(work, launch, kernel, err) != 0 ||
      load_kernel(launch, kernel, work->dtype, err) != 0) {
    free_kernel(&launch->base);
    return NULL;
  }
  return launch;
}

int ett_cuda_work_kernel(ett_cuda_work *work, const ett_cuda_kernel *kernel,
                         ett_err *err) {
  if (ett_cuda_device_use(work->device, err) != 0)
    return -1;
  kernel_launch *launch = new_kernel(work, kernel, err);
  return launch ? ett_cuda_work_add(work, &launch->base, err) : -1;
}
