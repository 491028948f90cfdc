/* A host buffer of 4-byte elements, shared by the back ends as userdata "ett.tensor".
 * Created by the binding of ett.sample. */
#ifndef ETT_SAMPLE_TENSOR_H
#define ETT_SAMPLE_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#define ETT_TENSOR_TYPE "ett.tensor"

typedef struct {
  float *data; /* NULL once closed; user value 1 owns the memory */
  size_t count;
} ett_tensor;

void ett_tensor_fill(ett_tensor *tensor, float value);
void ett_tensor_scale(ett_tensor *tensor, float factor);

/* Seeded normal deviates (Box and Muller 1958). */
void ett_tensor_normal(ett_tensor *tensor, uint64_t seed, double deviation);

double ett_tensor_sum(const ett_tensor *tensor);

/* Over the common elements. */
double ett_tensor_dot(const ett_tensor *a, const ett_tensor *b);

#endif
