#include "samplers/cuda/device.h"

#include <string.h>

int ett_cuda_device_count(ett_err *err) {
  const ett_cuda_driver *driver = ett_cuda_driver_open(err);
  int count = 0;
  if (!driver)
    return -1;
  CUresult status = driver->cuInit(0);
  if (status == CUDA_ERROR_NO_DEVICE)
    return 0;
  if (status != CUDA_SUCCESS)
    return ett_cuda_fail(driver, status, "starting the driver", err);
  status = driver->cuDeviceGetCount(&count);
  if (status != CUDA_SUCCESS)
    return ett_cuda_fail(driver, status, "counting devices", err);
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
    if (status != CUDA_SUCCESS)
      return ett_cuda_fail(driver, status, "reading the device's attributes", err);
  }
  device->capability = major * 10 + minor;
  CUresult status =
      driver->cuDeviceGetName(device->name, sizeof device->name, device->ordinal);
  if (status == CUDA_SUCCESS)
    status = driver->cuDeviceTotalMem(&device->memory_bytes, device->ordinal);
  if (status == CUDA_SUCCESS)
    status = driver->cuDriverGetVersion(&device->driver_version);
  if (status != CUDA_SUCCESS)
    return ett_cuda_fail(driver, status, "reading the device's name and memory", err);
  return 0;
}

static int open_parts(ett_cuda_device *device, int ordinal, ett_err *err) {
  const ett_cuda_driver *driver = device->driver;
  CUresult status = driver->cuDeviceGet(&device->ordinal, ordinal);
  if (status != CUDA_SUCCESS)
    return ett_cuda_fail(driver, status, "opening the device", err);
  if (read_facts(device, err) != 0)
    return -1;
  status = driver->cuDevicePrimaryCtxRetain(&device->context, device->ordinal);
  if (status == CUDA_SUCCESS)
    status = driver->cuCtxSetCurrent(device->context);
  if (status == CUDA_SUCCESS)
    status = driver->cuStreamCreate(&device->stream, CU_STREAM_NON_BLOCKING);
  if (status != CUDA_SUCCESS)
    return ett_cuda_fail(driver, status, "making a context", err);
  device->flush_bytes = 2 * (size_t)device->l2_bytes;
  if (device->flush_bytes > 0) {
    status = driver->cuMemAlloc(&device->flush, device->flush_bytes);
    if (status != CUDA_SUCCESS)
      return ett_cuda_fail(driver, status, "allocating the cache-flush buffer", err);
  }
  return 0;
}

int ett_cuda_device_open(ett_cuda_device *device, int ordinal, ett_err *err) {
  memset(device, 0, sizeof *device);
  int count = ett_cuda_device_count(err);
  if (count < 0)
    return -1;
  if (ordinal < 0 || ordinal >= count)
    return ett_err_set(err, ETT_ERR_MISSING,
                       "device %d is not there: this machine has %d CUDA device%s",
                       ordinal, count, count == 1 ? "" : "s");
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
  memset(device, 0, sizeof *device);
}
