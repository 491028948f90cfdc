#include <stdlib.h>
#include <string.h>

#include "samplers/cuda/list.h"

ett_cuda_work *ett_cuda_work_new(ett_cuda_device *device, ett_cuda_dtype dtype,
                                 ett_err *err) {
  ett_cuda_work *work = calloc(1, sizeof *work);
  if (!work) {
    ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a work list");
    return NULL;
  }
  work->device = device;
  work->dtype = dtype;
  return work;
}

void ett_cuda_work_free(ett_cuda_work *work) {
  if (!work)
    return;
  ett_cuda_device *device = work->device;
  const ett_cuda_driver *driver = device->driver;
  /* A dead device frees nothing: the calls would fail, or wait for ever. */
  int alive = driver && device->death == ETT_CUDA_ALIVE;
  if (alive)
    driver->cuCtxSetCurrent(device->context);
  for (int i = 0; i < work->launch_count; i++)
    work->launches[i]->free(work->launches[i]);
  if (alive) {
    if (work->executable)
      driver->cuGraphExecDestroy(work->executable);
    if (work->graph)
      driver->cuGraphDestroy(work->graph);
    for (int i = 0; i < work->tensor_count; i++)
      driver->cuMemFree(work->tensors[i].address);
  }
  free(work->launches);
  free(work->tensors);
  free(work);
}

int ett_cuda_work_add(ett_cuda_work *work, ett_cuda_launch *launch, ett_err *err) {
  ett_cuda_launch **larger = ett_cuda_grow(work->launches, work->launch_count,
                                           &work->launch_room, sizeof *larger, err);
  if (!larger) {
    launch->free(launch);
    return -1;
  }
  work->launches = larger;
  work->launches[work->launch_count++] = launch;
  return 0;
}

ett_cuda_device *ett_cuda_work_device(const ett_cuda_work *work) {
  return work->device;
}

/* --- kernels -------------------------------------------------------------------- */

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
  return status == CUDA_SUCCESS
             ? 0
             : ett_cuda_device_fail(launch->device, status, launch->label, err);
}

static void free_kernel(ett_cuda_launch *base) {
  free(base); /* its module is the device's */
}

/* A launch reads as many values as the kernel declares: one too few, and the driver reads
 * what is not there; another size, and the kernel computes with a part of a number. */
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
                       "%s: %s takes %d parameters, the launch gives %d", kernel->label,
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
  return status == CUDA_SUCCESS ? 0
                                : ett_cuda_device_fail(device, status, kernel->name, err);
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

/* --- running -------------------------------------------------------------------- */

static int enqueue_all(ett_cuda_work *work, ett_err *err) {
  for (int i = 0; i < work->launch_count; i++)
    if (work->launches[i]->run(work->launches[i], err) != 0)
      return -1;
  return 0;
}

static int enqueue(ett_cuda_work *work, ett_err *err) {
  if (!work->executable)
    return enqueue_all(work, err);
  ett_cuda_device *device = work->device;
  CUresult status = device->driver->cuGraphLaunch(work->executable, device->stream);
  return status == CUDA_SUCCESS
             ? 0
             : ett_cuda_device_fail(device, status, "launching a graph", err);
}

int ett_cuda_work_ready(ett_cuda_work *work, int graph, double time_limit_seconds,
                        ett_err *err) {
  ett_cuda_device *device = work->device;
  const ett_cuda_driver *driver = device->driver;
  if (work->launch_count == 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "the kernel function launched nothing");
  if (ett_cuda_device_use(device, err) != 0)
    return -1;
  /* Once outside a capture: libraries may allocate at their first call. */
  if (enqueue_all(work, err) != 0 ||
      ett_cuda_device_wait(device, time_limit_seconds, err) != 0)
    return -1;
  if (!graph || work->executable)
    return 0;
  CUresult status =
      driver->cuStreamBeginCapture(device->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  if (status != CUDA_SUCCESS)
    return ett_cuda_device_fail(device, status, "capturing a graph", err);
  int recorded = enqueue_all(work, err);
  status = driver->cuStreamEndCapture(device->stream, &work->graph);
  if (recorded != 0)
    return -1;
  if (status == CUDA_SUCCESS)
    status = driver->cuGraphInstantiateWithFlags(&work->executable, work->graph, 0);
  if (status != CUDA_SUCCESS)
    return ett_cuda_device_fail(device, status, "capturing a graph", err);
  return enqueue(work, err) == 0 ? ett_cuda_device_wait(device, time_limit_seconds, err)
                                 : -1;
}

static int time_runs(ett_cuda_work *work, const CUevent *events, int repeats, int flush,
                     double limit, double *seconds, ett_err *err) {
  ett_cuda_device *device = work->device;
  const ett_cuda_driver *driver = device->driver;
  for (int i = 0; i < repeats; i++) {
    CUresult status = CUDA_SUCCESS;
    if (flush && device->flush)
      status = driver->cuMemsetD8Async(device->flush, (unsigned char)i,
                                       device->flush_bytes, device->stream);
    if (status == CUDA_SUCCESS)
      status = driver->cuEventRecord(events[2 * i], device->stream);
    if (status != CUDA_SUCCESS)
      return ett_cuda_device_fail(device, status, "timing a run", err);
    if (enqueue(work, err) != 0)
      return -1;
    status = driver->cuEventRecord(events[2 * i + 1], device->stream);
    if (status != CUDA_SUCCESS)
      return ett_cuda_device_fail(device, status, "timing a run", err);
  }
  if (ett_cuda_device_wait(device, limit, err) != 0)
    return -1;
  for (int i = 0; i < repeats; i++) {
    float milliseconds;
    CUresult status =
        driver->cuEventElapsedTime(&milliseconds, events[2 * i], events[2 * i + 1]);
    if (status != CUDA_SUCCESS)
      return ett_cuda_device_fail(device, status, "reading an event", err);
    seconds[i] = 1e-3 * (double)milliseconds;
  }
  return 0;
}

int ett_cuda_work_time(ett_cuda_work *work, int repeats, int flush,
                       double time_limit_seconds, double *seconds, ett_err *err) {
  if (repeats <= 0 || repeats > 100000)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "repeats must be 1 to 100000, got %d",
                       repeats);
  if (ett_cuda_device_use(work->device, err) != 0)
    return -1;
  const CUevent *events = ett_cuda_device_events(work->device, 2 * repeats, err);
  return events
             ? time_runs(work, events, repeats, flush, time_limit_seconds, seconds, err)
             : -1;
}

int ett_cuda_workspace(ett_cuda_device *device, ett_err *err) {
  return device->workspace
             ? 0
             : ett_cuda_device_allocate(device, ETT_CUDA_WORKSPACE_BYTES,
                                        "cuBLASLt's workspace", &device->workspace, err);
}
