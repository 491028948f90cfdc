#include "samplers/cuda/work.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct tensor {
  CUdeviceptr address;
  long long count;
  ett_cuda_dtype dtype;
} tensor;

struct ett_cuda_work {
  ett_cuda_device *device;
  ett_cuda_dtype dtype;
  tensor *tensors;
  int tensor_count, tensor_room;
  ett_cuda_launch **launches;
  int launch_count, launch_room;
  CUgraph graph;
  CUgraphExec executable;
};

/* Fills buffers on the device: copying gigabytes of random numbers would take longer than
 * the measurement. A counter-based generator (splitmix64) makes element i independent of
 * the launch shape. */
static const char fill_source[] =
    "extern \"C\" __global__ void ett_fill(void *out, long long n, long long kind,\n"
    "                                     long long high, long long seed) {\n"
    "  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
    "  for (; i < n; i += (long long)gridDim.x * blockDim.x) {\n"
    "    unsigned long long z = (unsigned long long)seed +\n"
    "                           0x9e3779b97f4a7c15ull * (unsigned long long)(i + 1);\n"
    "    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;\n"
    "    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;\n"
    "    z ^= z >> 31;\n"
    "    float u = ((z >> 40) + 0.5f) * 5.9604645e-8f;\n"
    "    float w = ((z & 0xffffff) + 0.5f) * 5.9604645e-8f;\n"
    "    if (kind == 3) ((long long *)out)[i] = (long long)(z % (unsigned long "
    "long)high);\n"
    "    else store((T *)out, i, kind == 1 ? u\n"
    "               : 0.5f * sqrtf(-2.0f * logf(u)) * cosf(6.2831853f * w));\n"
    "  }\n"
    "}\n";

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
  const ett_cuda_driver *driver = work->device->driver;
  for (int i = 0; i < work->launch_count; i++)
    work->launches[i]->free(work->launches[i]);
  if (driver) {
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

/* Makes room for one more element; returns the (possibly moved) array or NULL. */
static void *grow(void *array, int count, int *room, size_t size, ett_err *err) {
  if (count < *room)
    return array;
  int wanted = *room ? 2 * *room : 8;
  void *larger = realloc(array, (size_t)wanted * size);
  if (!larger) {
    ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a work list");
    return NULL;
  }
  *room = wanted;
  return larger;
}

int ett_cuda_work_add(ett_cuda_work *work, ett_cuda_launch *launch, ett_err *err) {
  ett_cuda_launch **larger =
      grow(work->launches, work->launch_count, &work->launch_room, sizeof *larger, err);
  if (!larger) {
    launch->free(launch);
    return -1;
  }
  work->launches = larger;
  work->launches[work->launch_count++] = launch;
  return 0;
}

long long ett_cuda_work_count(const ett_cuda_work *work, int index) {
  return index >= 0 && index < work->tensor_count ? work->tensors[index].count : -1;
}

CUdeviceptr ett_cuda_work_address(const ett_cuda_work *work, int index) {
  return index >= 0 && index < work->tensor_count ? work->tensors[index].address : 0;
}

ett_cuda_dtype ett_cuda_work_tensor_dtype(const ett_cuda_work *work, int index) {
  return index >= 0 && index < work->tensor_count ? work->tensors[index].dtype
                                                  : work->dtype;
}

ett_cuda_device *ett_cuda_work_device(const ett_cuda_work *work) {
  return work->device;
}

/* --- kernels -------------------------------------------------------------------- */

typedef struct kernel_launch {
  ett_cuda_launch base;
  ett_cuda_device *device;
  CUmodule module;
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
  const ett_cuda_driver *driver = launch->device->driver;
  CUresult status = driver->cuLaunchKernel(
      launch->function, launch->grid[0], launch->grid[1], launch->grid[2],
      launch->block[0], launch->block[1], launch->block[2], launch->shared_bytes,
      launch->device->stream, launch->pointers, NULL);
  return status == CUDA_SUCCESS ? 0 : ett_cuda_fail(driver, status, launch->label, err);
}

static void free_kernel(ett_cuda_launch *base) {
  kernel_launch *launch = (kernel_launch *)base;
  if (launch->module && launch->device->driver)
    launch->device->driver->cuModuleUnload(launch->module);
  free(launch);
}

static int load_kernel(kernel_launch *launch, const ett_cuda_kernel *kernel,
                       ett_cuda_dtype dtype, ett_err *err) {
  const ett_cuda_driver *driver = launch->device->driver;
  void *cubin;
  size_t bytes;
  if (ett_cuda_compile(kernel->source, kernel->label, kernel->first_line, dtype,
                       launch->device->capability, &cubin, &bytes, NULL, err) != 0)
    return -1;
  CUresult status = driver->cuModuleLoadData(&launch->module, cubin);
  free(cubin);
  if (status == CUDA_SUCCESS)
    status = driver->cuModuleGetFunction(&launch->function, launch->module, kernel->name);
  if (status == CUDA_SUCCESS && kernel->shared_bytes > 48 * 1024)
    status = driver->cuFuncSetAttribute(launch->function,
                                        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                        (int)kernel->shared_bytes);
  if (status != CUDA_SUCCESS)
    return ett_cuda_fail(driver, status, kernel->name, err);
  return 0;
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
  kernel_launch *launch = new_kernel(work, kernel, err);
  return launch ? ett_cuda_work_add(work, &launch->base, err) : -1;
}

/* --- tensors -------------------------------------------------------------------- */

static int fill_tensor(ett_cuda_work *work, int index, ett_cuda_fill fill, long long high,
                       uint64_t seed, ett_err *err) {
  ett_cuda_device *device = work->device;
  tensor *t = &work->tensors[index];
  if (fill == ETT_CUDA_FILL_ZERO || t->dtype == ETT_CUDA_FP8) {
    /* 0x38 is 1.0 in e4m3: a constant, since random bit patterns would hold NaNs. */
    unsigned char byte = fill == ETT_CUDA_FILL_ZERO ? 0 : 0x38;
    CUresult status = device->driver->cuMemsetD8Async(
        t->address, byte, (size_t)t->count * ett_cuda_dtype_bytes(t->dtype),
        device->stream);
    return status == CUDA_SUCCESS
               ? 0
               : ett_cuda_fail(device->driver, status, "filling a tensor", err);
  }
  ett_cuda_kernel kernel = {.source = fill_source,
                            .name = "ett_fill",
                            .label = "fill",
                            .first_line = 1,
                            .grid = {1024, 1, 1},
                            .block = {256, 1, 1},
                            .arg_count = 5};
  kernel.args[0] = (ett_cuda_arg){.kind = ETT_CUDA_ARG_TENSOR, .tensor = index};
  long long integers[] = {t->count, fill, high, (long long)seed};
  for (int i = 0; i < 4; i++)
    kernel.args[i + 1] =
        (ett_cuda_arg){.kind = ETT_CUDA_ARG_INTEGER, .integer = integers[i]};
  ett_cuda_dtype saved = work->dtype;
  work->dtype = t->dtype == ETT_CUDA_INT64 ? ETT_CUDA_FP32 : t->dtype;
  kernel_launch *launch = new_kernel(work, &kernel, err);
  work->dtype = saved;
  if (!launch)
    return -1;
  int result = run_kernel(&launch->base, err);
  CUresult status = device->driver->cuStreamSynchronize(device->stream);
  if (result == 0 && status != CUDA_SUCCESS)
    result = ett_cuda_fail(device->driver, status, "filling a tensor", err);
  free_kernel(&launch->base);
  return result;
}

int ett_cuda_work_tensor(ett_cuda_work *work, long long count, ett_cuda_dtype dtype,
                         ett_cuda_fill fill, long long high, uint64_t seed,
                         ett_err *err) {
  const ett_cuda_driver *driver = work->device->driver;
  if (count <= 0 || count > (long long)(SIZE_MAX / 16))
    return ett_err_set(err, ETT_ERR_ARGUMENT, "a tensor of %lld elements is impossible",
                       count);
  if (fill == ETT_CUDA_FILL_INDEX && (dtype != ETT_CUDA_INT64 || high <= 0))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "an index tensor is int64 and needs a positive 'high'");
  tensor *larger =
      grow(work->tensors, work->tensor_count, &work->tensor_room, sizeof *larger, err);
  if (!larger)
    return -1;
  work->tensors = larger;
  size_t bytes = (size_t)count * ett_cuda_dtype_bytes(dtype);
  tensor *t = &work->tensors[work->tensor_count];
  CUresult status = driver->cuMemAlloc(&t->address, bytes);
  if (status == CUDA_ERROR_OUT_OF_MEMORY) {
    size_t available = 0, total = 0;
    driver->cuMemGetInfo(&available, &total);
    return ett_err_set(err, ETT_ERR_MEMORY,
                       "out of device memory: a tensor of %zu bytes, %zu of %zu free",
                       bytes, available, total);
  }
  if (status != CUDA_SUCCESS)
    return ett_cuda_fail(driver, status, "allocating a tensor", err);
  t->count = count;
  t->dtype = dtype;
  int index = work->tensor_count++;
  return fill_tensor(work, index, fill, high, seed, err) == 0 ? index : -1;
}

static double half_value(uint16_t h) {
  int exponent = (h >> 10) & 31, fraction = h & 1023;
  double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? ldexp(fraction, -24)
                                 : ldexp(1024 + fraction, exponent - 25);
  return h & 0x8000 ? -value : value;
}

static double fp8_value(uint8_t byte) { /* e4m3: no infinity, 0x7f is NaN */
  int exponent = (byte >> 3) & 15, fraction = byte & 7;
  double value = (byte & 0x7f) == 0x7f ? NAN
                 : exponent == 0       ? ldexp(fraction, -9)
                                       : ldexp(8 + fraction, exponent - 10);
  return byte & 0x80 ? -value : value;
}

static double element(const void *data, long long i, ett_cuda_dtype dtype) {
  float f;
  uint32_t bits;
  switch (dtype) {
  case ETT_CUDA_FP16:
    return half_value(((const uint16_t *)data)[i]);
  case ETT_CUDA_BF16:
    bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    memcpy(&f, &bits, sizeof f);
    return f;
  case ETT_CUDA_FP32:
    return ((const float *)data)[i];
  case ETT_CUDA_FP8:
    return fp8_value(((const uint8_t *)data)[i]);
  case ETT_CUDA_INT64:
    return (double)((const int64_t *)data)[i];
  }
  return NAN;
}

int ett_cuda_work_read(ett_cuda_work *work, int index, double *values, long long count,
                       ett_err *err) {
  if (index < 0 || index >= work->tensor_count || count > work->tensors[index].count)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "no tensor %d of %lld elements", index,
                       count);
  const tensor *t = &work->tensors[index];
  size_t bytes = (size_t)count * ett_cuda_dtype_bytes(t->dtype);
  void *copy = malloc(bytes ? bytes : 1);
  if (!copy)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to read a tensor");
  const ett_cuda_driver *driver = work->device->driver;
  CUresult status = driver->cuStreamSynchronize(work->device->stream);
  if (status == CUDA_SUCCESS)
    status = driver->cuMemcpyDtoH(copy, t->address, bytes);
  if (status == CUDA_SUCCESS)
    for (long long i = 0; i < count; i++)
      values[i] = element(copy, i, t->dtype);
  free(copy);
  return status == CUDA_SUCCESS ? 0
                                : ett_cuda_fail(driver, status, "reading a tensor", err);
}

/* --- running -------------------------------------------------------------------- */

static double now_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Waits for the stream, but never longer than the limit: a kernel that does not end
 * would otherwise hold the campaign for ever. */
static int wait(ett_cuda_device *device, double limit_seconds, ett_err *err) {
  double start = now_seconds();
  for (;;) {
    CUresult status = device->driver->cuStreamQuery(device->stream);
    if (status == CUDA_SUCCESS)
      return 0;
    if (status != CUDA_ERROR_NOT_READY)
      return ett_cuda_fail(device->driver, status, "running the kernels", err);
    if (now_seconds() - start > limit_seconds)
      return ett_err_set(err, ETT_ERR_LIMIT,
                         "the device had not finished after %g seconds (a kernel that "
                         "never ends?); this process cannot use the device any more",
                         limit_seconds);
    struct timespec pause = {0, 20000};
    nanosleep(&pause, NULL);
  }
}

static int enqueue_all(ett_cuda_work *work, ett_err *err) {
  for (int i = 0; i < work->launch_count; i++)
    if (work->launches[i]->run(work->launches[i], err) != 0)
      return -1;
  return 0;
}

static int enqueue(ett_cuda_work *work, ett_err *err) {
  if (!work->executable)
    return enqueue_all(work, err);
  const ett_cuda_driver *driver = work->device->driver;
  CUresult status = driver->cuGraphLaunch(work->executable, work->device->stream);
  return status == CUDA_SUCCESS ? 0
                                : ett_cuda_fail(driver, status, "launching a graph", err);
}

int ett_cuda_work_ready(ett_cuda_work *work, int graph, double time_limit_seconds,
                        ett_err *err) {
  ett_cuda_device *device = work->device;
  const ett_cuda_driver *driver = device->driver;
  if (work->launch_count == 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "the kernel function launched nothing");
  /* Once outside a capture: libraries may allocate at their first call. */
  if (enqueue_all(work, err) != 0 || wait(device, time_limit_seconds, err) != 0)
    return -1;
  if (!graph || work->executable)
    return 0;
  CUresult status =
      driver->cuStreamBeginCapture(device->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  if (status != CUDA_SUCCESS)
    return ett_cuda_fail(driver, status, "capturing a graph", err);
  int recorded = enqueue_all(work, err);
  status = driver->cuStreamEndCapture(device->stream, &work->graph);
  if (recorded != 0)
    return -1;
  if (status == CUDA_SUCCESS)
    status = driver->cuGraphInstantiateWithFlags(&work->executable, work->graph, 0);
  if (status != CUDA_SUCCESS)
    return ett_cuda_fail(driver, status, "capturing a graph", err);
  return enqueue(work, err) == 0 ? wait(device, time_limit_seconds, err) : -1;
}

static int time_runs(ett_cuda_work *work, CUevent *events, int repeats, int flush,
                     double limit, double *seconds, ett_err *err) {
  ett_cuda_device *device = work->device;
  const ett_cuda_driver *driver = device->driver;
  for (int i = 0; i < 2 * repeats; i++) {
    CUresult status = driver->cuEventCreate(&events[i], CU_EVENT_DEFAULT);
    if (status != CUDA_SUCCESS)
      return ett_cuda_fail(driver, status, "making an event", err);
  }
  for (int i = 0; i < repeats; i++) {
    CUresult status = CUDA_SUCCESS;
    if (flush && device->flush)
      status = driver->cuMemsetD8Async(device->flush, (unsigned char)i,
                                       device->flush_bytes, device->stream);
    if (status == CUDA_SUCCESS)
      status = driver->cuEventRecord(events[2 * i], device->stream);
    if (status != CUDA_SUCCESS)
      return ett_cuda_fail(driver, status, "timing a run", err);
    if (enqueue(work, err) != 0)
      return -1;
    status = driver->cuEventRecord(events[2 * i + 1], device->stream);
    if (status != CUDA_SUCCESS)
      return ett_cuda_fail(driver, status, "timing a run", err);
  }
  if (wait(device, limit, err) != 0)
    return -1;
  for (int i = 0; i < repeats; i++) {
    float milliseconds;
    CUresult status =
        driver->cuEventElapsedTime(&milliseconds, events[2 * i], events[2 * i + 1]);
    if (status != CUDA_SUCCESS)
      return ett_cuda_fail(driver, status, "reading an event", err);
    seconds[i] = 1e-3 * (double)milliseconds;
  }
  return 0;
}

int ett_cuda_work_time(ett_cuda_work *work, int repeats, int flush,
                       double time_limit_seconds, double *seconds, ett_err *err) {
  if (repeats <= 0 || repeats > 100000)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "repeats must be 1 to 100000, got %d",
                       repeats);
  CUevent *events = calloc(2 * (size_t)repeats, sizeof *events);
  if (!events)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for events");
  int result = time_runs(work, events, repeats, flush, time_limit_seconds, seconds, err);
  for (int i = 0; i < 2 * repeats; i++)
    if (events[i])
      work->device->driver->cuEventDestroy(events[i]);
  free(events);
  return result;
}

int ett_cuda_workspace(ett_cuda_device *device, ett_err *err) {
  if (device->workspace)
    return 0;
  CUresult status =
      device->driver->cuMemAlloc(&device->workspace, ETT_CUDA_WORKSPACE_BYTES);
  return status == CUDA_SUCCESS
             ? 0
             : ett_cuda_fail(device->driver, status, "allocating a workspace", err);
}
