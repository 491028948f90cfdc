#include "samplers/cuda/device.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/grow.h"

int ett_cuda_device_count(ett_err *err) {
  const ett_cuda_driver *driver = ett_cuda_driver_open(err);
  int count = 0;
  if (!driver)
    return -1;
  CUresult status = driver->cuInit(0);
  if (status == CUDA_ERROR_NO_DEVICE)
    return 0;
  if (ett_cuda_check(driver, status, "starting the driver", err) != 0 ||
      ett_cuda_check(driver, driver->cuDeviceGetCount(&count), "counting devices", err) !=
          0)
    return -1;
  return count;
}

static int read_facts(ett_cuda_device *device, ett_err *err) {
  const ett_cuda_driver *driver = device->driver;
  int major = 0, minor = 0;
  const struct {
    CUdevice_attribute attribute;
    int *value;
  } facts[] = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &device->multiprocessors},
      {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, &device->clock_khz},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, &device->memory_clock_khz},
      {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &device->l2_bytes},
  };
  for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
    CUresult status =
        driver->cuDeviceGetAttribute(facts[i].value, facts[i].attribute, device->ordinal);
    if (ett_cuda_check(driver, status, "reading the device's attributes", err) != 0)
      return -1;
  }
  device->capability = major * 10 + minor;
  CUresult status =
      driver->cuDeviceGetName(device->name, sizeof device->name, device->ordinal);
  if (status == CUDA_SUCCESS)
    status = driver->cuDeviceTotalMem(&device->memory_bytes, device->ordinal);
  if (status == CUDA_SUCCESS)
    status = driver->cuDriverGetVersion(&device->driver_version);
  return ett_cuda_check(driver, status, "reading the device's name and memory", err);
}

static int open_parts(ett_cuda_device *device, int ordinal, ett_err *err) {
  const ett_cuda_driver *driver = device->driver;
  CUresult status = driver->cuDeviceGet(&device->ordinal, ordinal);
  if (ett_cuda_check(driver, status, "opening the device", err) != 0 ||
      read_facts(device, err) != 0)
    return -1;
  status = driver->cuDevicePrimaryCtxRetain(&device->context, device->ordinal);
  if (status == CUDA_SUCCESS)
    status = driver->cuCtxSetCurrent(device->context);
  if (status == CUDA_SUCCESS)
    status = driver->cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING);
  if (ett_cuda_check(driver, status, "making a context", err) != 0)
    return -1;
  device->flush_bytes = 2 * (size_t)device->l2_bytes;
  return device->flush_bytes == 0
             ? 0
             : ett_cuda_device_allocate(device, device->flush_bytes,
                                        "the cache-flush buffer", &device->flush, err);
}

int ett_cuda_device_open(ett_cuda_device *device, int ordinal, ett_err *err) {
  memset(device, 0, sizeof *device);
  int count = ett_cuda_device_count(err);
  if (count < 0)
    return -1;
  if (ordinal < 0 || ordinal >= count)
    return ett_err_set(err, ETT_ERR_MISSING,
                       "no device %d: this machine has %d CUDA device%s", ordinal, count,
                       count == 1 ? "" : "s");
  device->driver = ett_cuda_driver_open(err);
  if (open_parts(device, ordinal, err) != 0) {
    ett_cuda_device_close(device);
    return -1;
  }
  return 0;
}

void ett_cuda_device_close(ett_cuda_device *device) {
  const ett_cuda_driver *driver = device->driver;
  if (!driver)
    return;
  int alive = device->death == ETT_CUDA_ALIVE;
  if (alive && device->context)
    driver->cuCtxSetCurrent(device->context);
  for (int i = 0; i < device->module_count; i++) {
    if (alive)
      driver->cuModuleUnload(device->modules[i].module);
    free(device->modules[i].source);
  }
  free(device->modules);
  for (int i = 0; alive && i < device->event_count; i++)
    driver->cuEventDestroy(device->events[i]);
  free(device->events);
  if (alive) {
    if (device->blas)
      ett_cuda_blas_open(NULL)->cublasLtDestroy(device->blas);
#ifdef ETT_HAVE_CUDNN
    if (device->dnn)
      ett_cuda_dnn_open(NULL)->cudnnDestroy(device->dnn);
#endif
    if (device->workspace)
      driver->cuMemFree(device->workspace);
    if (device->flush)
      driver->cuMemFree(device->flush);
    if (device->stream)
      driver->cuStreamDestroy(device->stream);
    if (device->context)
      driver->cuDevicePrimaryCtxRelease(device->ordinal);
  }
  memset(device, 0, sizeof *device);
}

int ett_cuda_device_use(const ett_cuda_device *device, ett_err *err) {
  if (device->death != ETT_CUDA_ALIVE)
    return ett_err_set(err, ETT_ERR_LOST, "device %d (%s) failed before", device->ordinal,
                       device->name);
  return ett_cuda_check(device->driver, device->driver->cuCtxSetCurrent(device->context),
                        "using the device", err);
}

/* --- failures ------------------------------------------------------------------- */

/* The error of a corrupted context is permanent: every later call returns it. A stream
 * that is being captured answers with the two errors of a capture. */
static CUresult sticky(ett_cuda_device *device) {
  if (!device->stream)
    return CUDA_SUCCESS;
  CUresult status = device->driver->cuStreamQuery(device->stream);
  return status == CUDA_ERROR_NOT_READY || status == CUDA_ERROR_OUT_OF_MEMORY ||
                 status == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
                 status == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
             ? CUDA_SUCCESS
             : status;
}

/* Errors that a kernel can cause; all others are device failures. */
static int by_kernel(CUresult status) {
  return status == CUDA_ERROR_ILLEGAL_ADDRESS || status == CUDA_ERROR_LAUNCH_FAILED ||
         status == CUDA_ERROR_LAUNCH_TIMEOUT || status == CUDA_ERROR_ASSERT ||
         status == CUDA_ERROR_HARDWARE_STACK_ERROR ||
         status == CUDA_ERROR_ILLEGAL_INSTRUCTION ||
         status == CUDA_ERROR_MISALIGNED_ADDRESS ||
         status == CUDA_ERROR_INVALID_ADDRESS_SPACE || status == CUDA_ERROR_INVALID_PC;
}

static const char *text_of(const ett_cuda_device *device, CUresult status) {
  const char *text = NULL;
  device->driver->cuGetErrorString(status, &text);
  return text ? text : "unknown error";
}

static int died(ett_cuda_device *device, CUresult status, const char *doing,
                ett_err *err) {
  device->death = by_kernel(status) ? ETT_CUDA_KERNEL_FAULT : ETT_CUDA_DEVICE_FAULT;
  return ett_err_set(err, ETT_ERR_LOST, "%s: %s", doing, text_of(device, status));
}

int ett_cuda_device_check(ett_cuda_device *device, CUresult status, const char *doing,
                          ett_err *err) {
  if (status == CUDA_SUCCESS)
    return 0;
  CUresult cause = sticky(device);
  if (cause != CUDA_SUCCESS)
    return died(device, cause, doing, err);
  return ett_cuda_check(device->driver, status, doing, err);
}

int ett_cuda_library_fail(ett_cuda_device *device, ett_err_code code, const char *doing,
                          const char *text, ett_err *err) {
  CUresult cause = sticky(device);
  if (cause != CUDA_SUCCESS)
    return died(device, cause, doing, err);
  return ett_err_set(err, code, "%s: %s", doing, text);
}

int ett_cuda_device_wait(ett_cuda_device *device, double limit_seconds,
                         double awake_seconds, ett_err *err) {
  double start = ett_clock(CLOCK_MONOTONIC);
  for (;;) {
    CUresult status = device->driver->cuStreamQuery(device->stream);
    if (status == CUDA_SUCCESS)
      return 0;
    if (status != CUDA_ERROR_NOT_READY)
      return ett_cuda_device_check(device, status, "running the kernels", err);
    double passed = ett_clock(CLOCK_MONOTONIC) - start;
    if (passed > limit_seconds) {
      device->death = ETT_CUDA_KERNEL_FAULT;
      return ett_err_set(err, ETT_ERR_LOST,
                         "the kernels did not end within %g seconds; does one loop "
                         "forever?",
                         limit_seconds);
    }
    struct timespec pause = {0, 20000};
    if (passed > awake_seconds)
      nanosleep(&pause, NULL);
  }
}

/* --- cached objects -------------------------------------------------------------- */

int ett_cuda_device_allocate(ett_cuda_device *device, size_t bytes, const char *what,
                             CUdeviceptr *address, ett_err *err) {
  const ett_cuda_driver *driver = device->driver;
  CUresult status = driver->cuMemAlloc(address, bytes);
  if (status == CUDA_SUCCESS)
    return 0;
  *address = 0;
  if (status != CUDA_ERROR_OUT_OF_MEMORY)
    return ett_cuda_device_check(device, status, "allocating", err);
  size_t available = 0, total = 0;
  driver->cuMemGetInfo(&available, &total);
  return ett_err_set(err, ETT_ERR_MEMORY,
                     "out of memory on device %d (%s): %s needs %zu bytes, %zu of %zu "
                     "are free",
                     device->ordinal, device->name, what, bytes, available, total);
}

int ett_cuda_grow(void *array, int count, uint32_t *room, size_t size, ett_err *err) {
  return ett_grow(array, (uint32_t)count, room, 16, size) == 0
             ? 0
             : ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a longer list");
}

CUevent *ett_cuda_device_events(ett_cuda_device *device, int count, ett_err *err) {
  while (device->event_count < count) {
    if (ett_cuda_grow(&device->events, device->event_count, &device->event_room,
                      sizeof *device->events, err) != 0)
      return NULL;
    CUresult status = device->driver->cuEventCreate(&device->events[device->event_count],
                                                    CU_EVENT_DEFAULT);
    if (ett_cuda_device_check(device, status, "making an event", err) != 0)
      return NULL;
    device->event_count++;
  }
  return device->events;
}

int ett_cuda_device_elapsed(ett_cuda_device *device, CUevent from, CUevent to,
                            double *seconds, ett_err *err) {
  float milliseconds = 0;
  CUresult status = device->driver->cuEventElapsedTime(&milliseconds, from, to);
  *seconds = 1e-3 * (double)milliseconds;
  return ett_cuda_device_check(device, status, "reading an event", err);
}

static int load(ett_cuda_device *device, ett_cuda_module *made, const char *source,
                const char *label, int first_line, ett_cuda_dtype dtype, ett_err *err) {
  void *cubin;
  size_t bytes;
  if (ett_cuda_compile(source, label, first_line, dtype, device->capability, &cubin,
                       &bytes, NULL, err) != 0)
    return -1;
  CUresult status = device->driver->cuModuleLoadData(&made->module, cubin);
  free(cubin);
  if (status != CUDA_SUCCESS)
    return ett_cuda_device_check(device, status, label, err);
  made->dtype = dtype;
  made->source = strdup(source);
  if (!made->source) {
    device->driver->cuModuleUnload(made->module);
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for a kernel's source");
  }
  return 0;
}

int ett_cuda_device_function(ett_cuda_device *device, const char *source,
                             const char *label, int first_line, ett_cuda_dtype dtype,
                             const char *name, CUfunction *function, ett_err *err) {
  const ett_cuda_module *found = NULL;
  for (int i = 0; i < device->module_count && !found; i++)
    if (device->modules[i].dtype == dtype &&
        strcmp(device->modules[i].source, source) == 0)
      found = &device->modules[i];
  if (!found) {
    if (ett_cuda_grow(&device->modules, device->module_count, &device->module_room,
                      sizeof *device->modules, err) != 0 ||
        load(device, &device->modules[device->module_count], source, label, first_line,
             dtype, err) != 0)
      return -1;
    found = &device->modules[device->module_count++];
  }
  CUresult status = device->driver->cuModuleGetFunction(function, found->module, name);
  if (status == CUDA_ERROR_NOT_FOUND)
    return ett_err_set(err, ETT_ERR_FORMAT,
                       "%s: the source has no kernel '%s' (extern \"C\" __global__)",
                       label, name);
  return ett_cuda_device_check(device, status, name, err);
}

/* Seconds of one copy, by events on the stream of `from`; its context is current. */
static int time_copy(ett_cuda_device *from, CUdeviceptr source, ett_cuda_device *to,
                     CUdeviceptr target, size_t bytes, double limit, double *seconds,
                     ett_err *err) {
  const ett_cuda_driver *driver = from->driver;
  const CUevent *events = ett_cuda_device_events(from, 2, err);
  if (!events)
    return -1;
  CUresult status = driver->cuEventRecord(events[0], from->stream);
  if (status == CUDA_SUCCESS)
    status = driver->cuMemcpyPeerAsync(target, to->context, source, from->context, bytes,
                                       from->stream);
  if (status == CUDA_SUCCESS)
    status = driver->cuEventRecord(events[1], from->stream);
  if (ett_cuda_device_check(from, status, "copying to another device", err) != 0 ||
      ett_cuda_device_wait(from, limit, 0, err) != 0)
    return -1;
  return ett_cuda_device_elapsed(from, events[0], events[1], seconds, err);
}

static int copies(ett_cuda_device *from, CUdeviceptr source, ett_cuda_device *to,
                  CUdeviceptr target, size_t bytes, int repeats, double limit,
                  ett_cuda_peer *peer, ett_err *err) {
  double best = 0;
  for (int i = 0; i <= repeats; i++) {
    double seconds = 0;
    if (time_copy(from, source, to, target, bytes, limit, &seconds, err) != 0)
      return -1;
    if (i > 0 && (best == 0 || seconds < best))
      best = seconds;
  }
  if (best <= 0)
    return ett_err_set(err, ETT_ERR_IO,
                       "copying to another device: %zu bytes took no time", bytes);
  peer->bandwidth = (double)bytes / best;
  return 0;
}

/* Enables peer writes from the current context's device to the other's memory, if
 * supported. */
static int enable(ett_cuda_device *from, const ett_cuda_device *to, int *direct,
                  int *enabled, ett_err *err) {
  const ett_cuda_driver *driver = from->driver;
  CUresult status = driver->cuDeviceCanAccessPeer(direct, from->ordinal, to->ordinal);
  if (status == CUDA_SUCCESS && *direct) {
    status = driver->cuCtxEnablePeerAccess(to->context, 0);
    *enabled = status == CUDA_SUCCESS;
    if (status == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
      status = CUDA_SUCCESS;
  }
  return ett_cuda_device_check(from, status, "enabling copies to another device", err);
}

int ett_cuda_peer_measure(ett_cuda_device *from, ett_cuda_device *to, size_t bytes,
                          int repeats, double time_limit_seconds, ett_cuda_peer *peer,
                          ett_err *err) {
  const ett_cuda_driver *driver = from->driver;
  CUdeviceptr source = 0, target = 0;
  int enabled = 0;
  peer->direct = 0;
  peer->bandwidth = 0;
  if (from->ordinal == to->ordinal || bytes == 0 || repeats <= 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "a copy between devices needs two devices, bytes and repeats");
  int done = -1;
  if (ett_cuda_device_use(to, err) == 0 &&
      ett_cuda_device_allocate(to, bytes, "the copy's target", &target, err) == 0 &&
      ett_cuda_device_use(from, err) == 0 &&
      ett_cuda_device_allocate(from, bytes, "the copy's source", &source, err) == 0 &&
      enable(from, to, &peer->direct, &enabled, err) == 0)
    done =
        copies(from, source, to, target, bytes, repeats, time_limit_seconds, peer, err);
  if (from->death == ETT_CUDA_ALIVE && ett_cuda_device_use(from, NULL) == 0) {
    if (enabled)
      driver->cuCtxDisablePeerAccess(to->context);
    if (source)
      driver->cuMemFree(source);
    if (target && ett_cuda_device_use(to, NULL) == 0)
      driver->cuMemFree(target);
  }
  return done;
}
