#include "samplers/core/tensor.h"

#include <math.h>

#include "samplers/core/random.h"

void ett_tensor_fill(ett_tensor *t, float value) {
  for (size_t i = 0; i < t->count; i++)
    t->data[i] = value;
}

void ett_tensor_scale(ett_tensor *t, float factor) {
  for (size_t i = 0; i < t->count; i++)
    t->data[i] *= factor;
}

void ett_tensor_normal(ett_tensor *t, uint64_t seed, double deviation) {
  uint64_t state = seed * 0x2545f4914f6cdd1du;
  for (size_t i = 0; i < t->count; i++) {
    double u = (double)((ett_sample_random(&state) >> 11) + 1) * 0x1p-53;
    double v = (double)(ett_sample_random(&state) >> 11) * 0x1p-53;
    t->data[i] = (float)(deviation * sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
  }
}

double ett_tensor_sum(const ett_tensor *t) {
  double sum = 0;
  for (size_t i = 0; i < t->count; i++)
    sum += t->data[i];
  return sum;
}

double ett_tensor_dot(const ett_tensor *a, const ett_tensor *b) {
  const size_t count = a->count < b->count ? a->count : b->count;
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += (double)a->data[i] * b->data[i];
  return sum;
}
