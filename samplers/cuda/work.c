#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "samplers/cuda/work.h"

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
  /* Nothing is freed on a lost device: the calls would fail or block. */
  int alive = driver && device->death == ETT_CUDA_ALIVE;
  if (alive)
    driver->cuCtxSetCurrent(device->context);
  for (int i = 0; i < work->launch_count; i++)
    work->launches[i]->free(work->launches[i]);
  if (alive) {
    if (work->executable)
      driver->cuGraphExecDestroy(work->executable);
    for (int i = 0; i < work->tensor_count; i++)
      if (!work->tensors[i].is_view)
        driver->cuMemFree(work->tensors[i].address);
  }
  free(work->launches);
  free(work->tensors);
  free(work);
}

int ett_cuda_work_add(ett_cuda_work *work, ett_cuda_launch *launch, ett_err *err) {
  if (work->executable) {
    launch->free(launch);
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "the list is ready: its graph takes no more launches");
  }
  if (ett_cuda_grow(&work->launches, work->launch_count, &work->launch_room,
                    sizeof *work->launches, err) != 0) {
    launch->free(launch);
    return -1;
  }
  work->launches[work->launch_count++] = launch;
  return 0;
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
  return ett_cuda_device_check(device, status, "launching a graph", err);
}

/* Records the list into a graph and instantiates it. */
static int capture(ett_cuda_work *work, ett_err *err) {
  ett_cuda_device *device = work->device;
  const ett_cuda_driver *driver = device->driver;
  CUgraph graph = NULL;
  CUresult status =
      driver->cuStreamBeginCapture(device->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  if (status != CUDA_SUCCESS)
    return ett_cuda_device_check(device, status, "capturing a graph", err);
  int recorded = enqueue_all(work, err);
  status = driver->cuStreamEndCapture(device->stream, &graph);
  if (recorded == 0 && status == CUDA_SUCCESS)
    status = driver->cuGraphInstantiateWithFlags(&work->executable, graph, 0);
  if (graph)
    driver->cuGraphDestroy(graph);
  return recorded == 0 ? ett_cuda_device_check(device, status, "capturing a graph", err)
                       : -1;
}

int ett_cuda_work_ready(ett_cuda_work *work, int graph, double time_limit_seconds,
                        ett_err *err) {
  ett_cuda_device *device = work->device;
  if (work->launch_count == 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "the kernel function launched nothing");
  if (ett_cuda_device_use(device, err) != 0)
    return -1;
  /* Runs once outside a capture, because libraries may allocate memory at their first
   * call. */
  if (enqueue_all(work, err) != 0 ||
      ett_cuda_device_wait(device, time_limit_seconds, 0, err) != 0)
    return -1;
  if (!graph || work->executable)
    return 0;
  if (capture(work, err) != 0 || enqueue(work, err) != 0)
    return -1;
  return ett_cuda_device_wait(device, time_limit_seconds, 0, err);
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
    if (ett_cuda_device_check(device, status, "timing a run", err) != 0 ||
        enqueue(work, err) != 0)
      return -1;
    status = driver->cuEventRecord(events[2 * i + 1], device->stream);
    if (ett_cuda_device_check(device, status, "timing a run", err) != 0)
      return -1;
  }
  if (ett_cuda_device_wait(device, limit, 0, err) != 0)
    return -1;
  for (int i = 0; i < repeats; i++)
    if (ett_cuda_device_elapsed(device, events[2 * i], events[2 * i + 1], &seconds[i],
                                err) != 0)
      return -1;
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

int ett_cuda_work_run(ett_cuda_work *work, double time_limit_seconds, double *seconds,
                      ett_err *err) {
  if (ett_cuda_device_use(work->device, err) != 0)
    return -1;
  double start = ett_clock(CLOCK_MONOTONIC);
  if (enqueue(work, err) != 0 ||
      ett_cuda_device_wait(work->device, time_limit_seconds, 5, err) != 0)
    return -1;
  *seconds = ett_clock(CLOCK_MONOTONIC) - start;
  return 0;
}

int ett_cuda_work_launches(const ett_cuda_work *work) {
  return work->launch_count;
}

/* A chain of dependent multiply-adds, four cycles each, that keeps the device busy. Its
 * result is never negative. */
static const char hold_source[] =
    "extern \"C\" __global__ void ett_hold(float *never, long long n) {\n"
    "  float x = 1.0f;\n"
    "  for (long long i = 0; i < n; i++) x = x * 0.999f + 0.5f;\n"
    "  if (x < 0) *never = x;\n"
    "}\n";

/* Keeps the device busy for about 10 us per launch of the list; enqueuing a launch is
 * assumed to take less. */
static int hold_device(ett_cuda_device *device, int launches, ett_err *err) {
  CUfunction function;
  if (ett_cuda_device_function(device, hold_source, "hold", 1, ETT_CUDA_FP32, "ett_hold",
                               &function, err) != 0)
    return -1;
  CUdeviceptr never = 0;
  long long n = 6000ll * launches;
  void *args[] = {&never, &n};
  CUresult status = device->driver->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0,
                                                   device->stream, args, NULL);
  return ett_cuda_device_check(device, status, "keeping the device busy", err);
}

static int enqueue_parts(ett_cuda_work *work, const int *ends, int parts,
                         const CUevent *events, ett_err *err) {
  ett_cuda_device *device = work->device;
  if (hold_device(device, work->launch_count, err) != 0)
    return -1;
  CUresult status = CUDA_SUCCESS;
  for (int part = 0, i = 0; part <= parts && status == CUDA_SUCCESS; part++) {
    status = device->driver->cuEventRecord(events[part], device->stream);
    for (; part < parts && i < ends[part]; i++)
      if (work->launches[i]->run(work->launches[i], err) != 0)
        return -1;
  }
  return ett_cuda_device_check(device, status, "timing the parts of a run", err);
}

int ett_cuda_work_time_parts(ett_cuda_work *work, const int *ends, int parts,
                             double time_limit_seconds, double *seconds, ett_err *err) {
  ett_cuda_device *device = work->device;
  for (int i = 0; i < parts; i++)
    if (ends[i] < (i ? ends[i - 1] : 0) || ends[i] > work->launch_count)
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "part %d ends at launch %d of %d: ends must ascend", i + 1,
                         ends[i], work->launch_count);
  if (parts < 1 || ends[parts - 1] != work->launch_count)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "the parts must cover all launches");
  if (ett_cuda_device_use(device, err) != 0)
    return -1;
  const CUevent *events = ett_cuda_device_events(device, parts + 1, err);
  if (!events || enqueue_parts(work, ends, parts, events, err) != 0 ||
      ett_cuda_device_wait(device, time_limit_seconds, 0, err) != 0)
    return -1;
  for (int i = 0; i < parts; i++)
    if (ett_cuda_device_elapsed(device, events[i], events[i + 1], &seconds[i], err) != 0)
      return -1;
  return 0;
}

int ett_cuda_workspace(ett_cuda_device *device, ett_err *err) {
  return device->workspace
             ? 0
             : ett_cuda_device_allocate(device, ETT_CUDA_WORKSPACE_BYTES,
                                        "cuBLASLt's workspace", &device->workspace, err);
}
