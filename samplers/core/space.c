#include "samplers/core/space.h"

#include "samplers/core/random.h"

int64_t ett_sample_axis_count(const ett_sample_axis *axis, ett_err *err) {
  if (axis->start > axis->end)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "range starts at %lld above its end %lld",
                       (long long)axis->start, (long long)axis->end);
  if (axis->start == axis->end)
    return 1;
  if (axis->op == '+') {
    if (axis->step < 1)
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "step of an 'add' range must be at least 1, got %lld",
                         (long long)axis->step);
    return (int64_t)(((uint64_t)axis->end - (uint64_t)axis->start) /
                     (uint64_t)axis->step) +
           1;
  }
  if (axis->step < 2 || axis->start < 1)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "a 'mul' range needs a step of at least 2 and a start of at "
                       "least 1, got step %lld and start %lld",
                       (long long)axis->step, (long long)axis->start);
  int64_t count = 1;
  for (int64_t value = axis->start; value <= axis->end / axis->step; count++)
    value *= axis->step;
  return count;
}

int64_t ett_sample_axis_value(const ett_sample_axis *axis, int64_t index) {
  if (axis->op == '+')
    return axis->start + index * axis->step;
  int64_t value = axis->start;
  while (index-- > 0)
    value *= axis->step;
  return value;
}

int64_t ett_sample_space_count(const ett_sample_axis *axes, int count, ett_err *err) {
  int64_t total = 1;
  for (int i = 0; i < count; i++) {
    int64_t n = ett_sample_axis_count(&axes[i], err);
    if (n < 0)
      return -1;
    if (__builtin_mul_overflow(total, n, &total))
      return ett_err_set(err, ETT_ERR_LIMIT, "more than 2^63 shapes");
  }
  return total;
}

void ett_sample_space_shape(const ett_sample_axis *axes, const int64_t *counts, int count,
                            int64_t index, int64_t *out) {
  for (int i = count - 1; i >= 0; i--) {
    out[i] = ett_sample_axis_value(&axes[i], index % counts[i]);
    index /= counts[i];
  }
}

double ett_sample_halton(uint64_t index, int dimension, uint64_t seed) {
  static const unsigned char primes[32] = {
      2,  3,  5,  7,  11, 13, 17, 19, 23, 29,  31,  37,  41,  43,  47,  53,
      59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131};
  const unsigned base = primes[dimension & 31];
  double fraction = 1.0, value = 0;
  for (; index > 0; index /= base) {
    fraction /= base;
    value += fraction * (double)(index % base);
  }
  uint64_t state = seed * 64 + (uint64_t)dimension;
  value += (double)(ett_sample_random(&state) >> 11) * 0x1p-53;
  return value >= 1 ? value - 1 : value;
}
