#include "samplers/cuda/peer.h"

/* Seconds of one copy by events on the stream of `from`, whose context is current. */
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
  if (status != CUDA_SUCCESS)
    return ett_cuda_device_fail(from, status, "copying to another device", err);
  if (ett_cuda_device_wait(from, limit, err) != 0)
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

/* Lets the device of the current context write into the other's memory, where it can. */
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
  return status == CUDA_SUCCESS
             ? 0
             : ett_cuda_device_fail(from, status, "opening the way to another device",
                                    err);
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
