/* Tensors of a work list: buffers on the device, filled there. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "samplers/cuda/work.h"

/* Fills buffers on the device, because copying gigabytes of random numbers would take
 * longer than the measurement. Kind 4 is fp8 (e4m3): 1/4 to 9/8 with both signs, because
 * random bits would contain NaNs. A counter-based generator (splitmix64) makes element i
 * independent of the launch shape. */
static const char fill_source[] =
    "extern \"C\" __global__ void ett_fill(void *out, long long n, long long kind,\n"
    "                                     long long high, double deviation,\n"
    "                                     long long seed) {\n"
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
    "    else if (kind == 4) ((unsigned char *)out)[i] = (z & 0x80) | (0x28 + (z >> 40) "
    "% 18);\n"
    "    else store((T *)out, i, kind == 1 ? u\n"
    "               : (float)deviation * sqrtf(-2.0f * logf(u)) * cosf(6.2831853f * "
    "w));\n"
    "  }\n"
    "}\n";

/* Typical deviation of activations; a model may set its own. */
static const double USUAL_DEVIATION = 0.5;

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

static int fill_tensor(ett_cuda_work *work, int index, ett_cuda_fill fill, long long high,
                       double deviation, uint64_t seed, ett_err *err) {
  ett_cuda_device *device = work->device;
  const ett_cuda_tensor *t = &work->tensors[index];
  CUresult status;
  if (fill == ETT_CUDA_FILL_ZERO) {
    status = device->driver->cuMemsetD8Async(
        t->address, 0, (size_t)t->count * ett_cuda_dtype_bytes(t->dtype), device->stream);
    return ett_cuda_device_check(device, status, "filling a tensor", err);
  }
  CUfunction function;
  ett_cuda_dtype element =
      t->dtype == ETT_CUDA_INT64 || t->dtype == ETT_CUDA_FP8 ? ETT_CUDA_FP32 : t->dtype;
  if (ett_cuda_device_function(device, fill_source, "fill", 1, element, "ett_fill",
                               &function, err) != 0)
    return -1;
  CUdeviceptr address = t->address;
  long long kind = t->dtype == ETT_CUDA_FP8 ? 4 : (long long)fill;
  long long n = t->count, start = (long long)seed;
  void *args[] = {&address, &n, &kind, &high, &deviation, &start};
  long long blocks = (n + 255) / 256;
  status =
      device->driver->cuLaunchKernel(function, blocks < 2048 ? (unsigned)blocks : 2048u,
                                     1, 1, 256, 1, 1, 0, device->stream, args, NULL);
  return ett_cuda_device_check(device, status, "filling a tensor", err);
}

static int check_fill(ett_cuda_dtype dtype, ett_cuda_fill fill, long long high,
                      ett_err *err) {
  if (fill == ETT_CUDA_FILL_INDEX && (dtype != ETT_CUDA_INT64 || high <= 0))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "an index tensor is int64 and needs a positive 'high'");
  if (dtype == ETT_CUDA_INT64 && fill != ETT_CUDA_FILL_INDEX &&
      fill != ETT_CUDA_FILL_ZERO)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "an int64 tensor is filled with 'index' or 'zero'");
  return 0;
}

int ett_cuda_work_tensor(ett_cuda_work *work, long long count, ett_cuda_dtype dtype,
                         ett_cuda_fill fill, long long high, uint64_t seed,
                         ett_err *err) {
  ett_cuda_device *device = work->device;
  if (ett_cuda_device_use(device, err) != 0)
    return -1;
  if (count <= 0 || count > (long long)(SIZE_MAX / 16))
    return ett_err_set(err, ETT_ERR_ARGUMENT, "a tensor of %lld elements is impossible",
                       count);
  if (check_fill(dtype, fill, high, err) != 0)
    return -1;
  if (ett_cuda_grow(&work->tensors, work->tensor_count, &work->tensor_room,
                    sizeof *work->tensors, err) != 0)
    return -1;
  ett_cuda_tensor *t = &work->tensors[work->tensor_count];
  if (ett_cuda_device_allocate(device, (size_t)count * ett_cuda_dtype_bytes(dtype),
                               "a tensor", &t->address, err) != 0)
    return -1;
  t->count = count;
  t->dtype = dtype;
  t->is_view = 0;
  int index = work->tensor_count++;
  return fill_tensor(work, index, fill, high, USUAL_DEVIATION, seed, err) == 0 ? index
                                                                               : -1;
}

int ett_cuda_work_view(ett_cuda_work *work, int tensor, long long first, long long count,
                       ett_err *err) {
  long long all = ett_cuda_work_count(work, tensor);
  if (first < 0 || count <= 0 || first > all || count > all - first)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "a view of %lld elements from element %lld: tensor %d has %lld",
                       count, first, tensor, all);
  if (ett_cuda_grow(&work->tensors, work->tensor_count, &work->tensor_room,
                    sizeof *work->tensors, err) != 0)
    return -1;
  ett_cuda_tensor view = work->tensors[tensor];
  view.address += (CUdeviceptr)first * ett_cuda_dtype_bytes(view.dtype);
  view.count = count;
  view.is_view = 1;
  work->tensors[work->tensor_count] = view;
  return work->tensor_count++;
}

int ett_cuda_work_fill(ett_cuda_work *work, int tensor, ett_cuda_fill fill,
                       long long high, double deviation, uint64_t seed, ett_err *err) {
  if (ett_cuda_work_count(work, tensor) <= 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "no tensor %d to fill", tensor);
  if (check_fill(work->tensors[tensor].dtype, fill, high, err) != 0 ||
      ett_cuda_device_use(work->device, err) != 0)
    return -1;
  return fill_tensor(work, tensor, fill, high, deviation, seed, err);
}

static double half_value(uint16_t h) {
  int exponent = (h >> 10) & 31, fraction = h & 1023;
  double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? ldexp(fraction, -24)
                                 : ldexp(1024 + fraction, exponent - 25);
  return h & 0x8000 ? -value : value;
}

static double fp8_value(uint8_t byte) { /* e4m3 has no infinity; 0x7f is NaN */
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

/* Rounds to the nearest half, ties to even. */
static uint16_t half_bits(double value) {
  const uint16_t sign = signbit(value) ? 0x8000 : 0;
  const double a = fabs(value);
  if (isnan(value))
    return 0x7e00;
  if (a >= 65520)
    return sign | 0x7c00;
  if (a < ldexp(1, -14))
    return (uint16_t)(sign | (unsigned)nearbyint(ldexp(a, 24)));
  const int exponent = ilogb(a);
  const unsigned fraction = (unsigned)nearbyint(ldexp(a, 10 - exponent)) - 1024;
  return (uint16_t)(sign | ((unsigned)(exponent + 15) * 1024 + fraction));
}

/* The fp8 byte with the nearest value. */
static uint8_t fp8_bits(double value) {
  unsigned best = 0;
  for (unsigned byte = 0; byte < 0x7f; byte++)
    if (fabs(fp8_value((uint8_t)byte) - fabs(value)) <
        fabs(fp8_value((uint8_t)best) - fabs(value)))
      best = byte;
  return (uint8_t)(best | (signbit(value) ? 0x80 : 0));
}

/* bf16 rounds to nearest even, as the kernels do. */
static void set_element(void *data, long long i, ett_cuda_dtype dtype, double value) {
  float f = (float)value;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  if (dtype == ETT_CUDA_FP32)
    ((float *)data)[i] = f;
  else if (dtype == ETT_CUDA_INT64)
    ((int64_t *)data)[i] = (int64_t)value;
  else if (dtype == ETT_CUDA_FP16)
    ((uint16_t *)data)[i] = half_bits(value);
  else if (dtype == ETT_CUDA_FP8)
    ((uint8_t *)data)[i] = fp8_bits(value);
  else
    ((uint16_t *)data)[i] = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/* Reads the first elements of a tensor into `to`, or writes them from `from`, after the
 * launches of the list. */
static int transfer(ett_cuda_work *work, int index, double *to, const double *from,
                    long long count, ett_err *err) {
  const char *doing = to ? "reading a tensor" : "writing a tensor";
  if (index < 0 || index >= work->tensor_count || count <= 0 ||
      count > work->tensors[index].count)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "no tensor %d of %lld elements", index,
                       count);
  if (ett_cuda_device_use(work->device, err) != 0 ||
      ett_cuda_device_wait(work->device, 60, 0, err) != 0)
    return -1;
  const ett_cuda_driver *driver = work->device->driver;
  const ett_cuda_tensor *t = &work->tensors[index];
  size_t bytes = (size_t)count * ett_cuda_dtype_bytes(t->dtype);
  void *copy = malloc(bytes);
  if (!copy)
    return ett_err_set(err, ETT_ERR_MEMORY, "%s: not enough memory", doing);
  for (long long i = 0; from && i < count; i++)
    set_element(copy, i, t->dtype, from[i]);
  CUresult status = to ? driver->cuMemcpyDtoH(copy, t->address, bytes)
                       : driver->cuMemcpyHtoD(t->address, copy, bytes);
  if (from && status == CUDA_SUCCESS) /* the copy may be asynchronous */
    status = driver->cuCtxSynchronize();
  for (long long i = 0; to && status == CUDA_SUCCESS && i < count; i++)
    to[i] = element(copy, i, t->dtype);
  free(copy);
  return ett_cuda_device_check(work->device, status, doing, err);
}

int ett_cuda_work_read(ett_cuda_work *work, int index, double *values, long long count,
                       ett_err *err) {
  return transfer(work, index, values, NULL, count, err);
}

int ett_cuda_work_write(ett_cuda_work *work, int index, const double *values,
                        long long count, ett_err *err) {
  return transfer(work, index, NULL, values, count, err);
}
