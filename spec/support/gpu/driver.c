/* The driver of the stand-in: devices, one primary context each, access to peers. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

static ett_stand_in_state state;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread CUcontext current;

void ett_stand_in_abort(const char *format, ...) {
  va_list list;
  va_start(list, format);
  fputs("stand-in: ", stderr);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  va_end(list);
  fflush(stderr);
  _exit(97);
}

static long long number(const char *name, long long fallback) {
  const char *text = getenv(name);
  return text && *text ? atoll(text) : fallback;
}

static void report(void) {
  const char *path = getenv("ETT_GPU_REPORT");
  FILE *out = path ? fopen(path, "a") : NULL;
  if (!out)
    return;
  for (int i = 0; i < state.counter_count; i++)
    fprintf(out, "%s %ld\n", state.counters[i].name, state.counters[i].count);
  fprintf(out, "held_bytes %zu\npeak_bytes %zu\nheld_objects %d\n", state.used,
          state.peak, state.objects);
  fclose(out);
}

static void start(void) {
  state.devices = (int)number("ETT_GPU_DEVICES", 1);
  state.capability = (int)number("ETT_GPU_CAPABILITY", 90);
  state.memory = (size_t)number("ETT_GPU_MEMORY", (long long)8 << 30);
  state.l2 = (int)number("ETT_GPU_L2", 4 << 20);
  state.allocation_fails = number("ETT_GPU_ALLOCATION_FAILS", 0);
  const char *lost = getenv("ETT_GPU_LOST");
  if (lost && sscanf(lost, "%lld:%d", &state.lost_at, &state.lost_status) != 2)
    ett_stand_in_abort("ETT_GPU_LOST is n:status, got '%s'", lost);
  for (int i = 0; i < MAX_DEVICES; i++)
    state.contexts[i].ordinal = i;
  atexit(report);
}

ett_stand_in_state *ett_stand_in(void) {
  pthread_once(&once, start);
  return &state;
}

void ett_stand_in_count(const char *name) {
  ett_stand_in_state *s = ett_stand_in();
  int i = 0;
  while (i < s->counter_count && strcmp(s->counters[i].name, name) != 0)
    i++;
  if (i == s->counter_count) {
    if (i == MAX_COUNTERS)
      ett_stand_in_abort("too many counters");
    s->counters[s->counter_count++].name = name;
  }
  s->counters[i].count++;
}

CUresult ett_stand_in_status(void) {
  if (!ett_stand_in()->initialized)
    return CUDA_ERROR_NOT_INITIALIZED;
  if (!current || !current->references)
    return CUDA_ERROR_INVALID_CONTEXT;
  return current->died;
}

void ett_stand_in_die(CUresult status) {
  current->died = status;
}

int ett_stand_in_capability(void) {
  return ett_stand_in()->capability;
}

/* --- devices and contexts ------------------------------------------------------- */

CUresult CUDAAPI cuInit(unsigned int flags) {
  ett_stand_in_state *s = ett_stand_in();
  ett_stand_in_count("cuInit");
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (s->devices == 0)
    return CUDA_ERROR_NO_DEVICE;
  s->initialized = 1;
  return CUDA_SUCCESS;
}

/* NVRTC looks for a private table of the driver; a driver may lack it. */
CUresult CUDAAPI cuGetExportTable(const void **table, const CUuuid *id) {
  (void)id;
  *table = NULL;
  return CUDA_ERROR_NOT_FOUND;
}

#define NEED_INIT                                                                        \
  do {                                                                                   \
    if (!ett_stand_in()->initialized)                                                    \
      return CUDA_ERROR_NOT_INITIALIZED;                                                 \
  } while (0)

CUresult CUDAAPI cuDriverGetVersion(int *version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int *count) {
  NEED_INIT;
  *count = state.devices;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
  NEED_INIT;
  if (ordinal < 0 || ordinal >= state.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

static int known(CUdevice device) {
  return device >= 0 && device < state.devices;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int room, CUdevice device) {
  NEED_INIT;
  if (!known(device) || room <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  snprintf(name, (size_t)room, "Stand-In %d", state.capability);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  NEED_INIT;
  if (!known(device))
    return CUDA_ERROR_INVALID_DEVICE;
  *bytes = state.memory;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute,
                                      CUdevice device) {
  NEED_INIT;
  if (!known(device))
    return CUDA_ERROR_INVALID_DEVICE;
  switch ((int)attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    *value = state.capability / 10;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    *value = state.capability % 10;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    *value = 132;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    *value = 1980000;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
    *value = 2619000;
    return CUDA_SUCCESS;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
    *value = state.l2;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  NEED_INIT;
  if (!known(device) || !known(peer))
    return CUDA_ERROR_INVALID_DEVICE;
  *can = device != peer && number("ETT_GPU_PEER", 1) != 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  NEED_INIT;
  if (!known(device))
    return CUDA_ERROR_INVALID_DEVICE;
  state.contexts[device].references++;
  *context = &state.contexts[device];
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  NEED_INIT;
  if (!known(device))
    return CUDA_ERROR_INVALID_DEVICE;
  CUcontext context = &state.contexts[device];
  if (context->references == 0)
    ett_stand_in_abort("cuDevicePrimaryCtxRelease: the context of device %d is not held",
                       device);
  ett_stand_in_must_end("cuDevicePrimaryCtxRelease");
  if (--context->references > 0)
    return CUDA_SUCCESS;
  int left = 0;
  for (int i = 0; i < state.allocation_count; i++)
    left += state.allocations[i].context == context;
  if (context->died == CUDA_SUCCESS && context->peers)
    ett_stand_in_abort("the context is released while it still has access to a peer");
  if (context->died == CUDA_SUCCESS && (left || context->objects))
    ett_stand_in_abort(
        "the context is released while %d allocations and %d streams, events, modules or "
        "graphs are still held",
        left, context->objects);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  NEED_INIT;
  current = context;
  return CUDA_SUCCESS;
}

CUcontext ett_stand_in_context(void) {
  return current;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  ENTER("cuCtxEnablePeerAccess");
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!peer || peer == current || !peer->references)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (number("ETT_GPU_PEER", 1) == 0)
    return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  if (current->peers >> peer->ordinal & 1)
    return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  current->peers |= 1u << peer->ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer) {
  ENTER("cuCtxDisablePeerAccess");
  if (!peer || !peer->references)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!(current->peers >> peer->ordinal & 1))
    return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  current->peers &= ~(1u << peer->ordinal);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSynchronize(void) {
  ENTER("cuCtxSynchronize");
  ett_stand_in_must_end("cuCtxSynchronize");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorString(CUresult status, const char **text) {
  static const struct {
    CUresult status;
    const char *text;
  } texts[] = {
      {CUDA_SUCCESS, "no error"},
      {CUDA_ERROR_INVALID_VALUE, "invalid argument"},
      {CUDA_ERROR_OUT_OF_MEMORY, "out of memory"},
      {CUDA_ERROR_NOT_INITIALIZED, "initialization error"},
      {CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"},
      {CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"},
      {CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid"},
      {CUDA_ERROR_INVALID_CONTEXT, "invalid device context"},
      {CUDA_ERROR_NO_BINARY_FOR_GPU,
       "no kernel image is available for execution on the device"},
      {CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"},
      {CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"},
      {CUDA_ERROR_NOT_FOUND, "named symbol not found"},
      {CUDA_ERROR_NOT_READY, "device not ready"},
      {CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"},
      {CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure"},
      {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
       "operation not permitted when stream is capturing"},
      {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
       "operation failed due to a previous error during capture"},
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (texts[i].status == status) {
      *text = texts[i].text;
      return CUDA_SUCCESS;
    }
  *text = NULL;
  return CUDA_ERROR_INVALID_VALUE;
}
