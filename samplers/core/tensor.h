/* A host buffer of 4-byte elements, shared by the back ends as userdata "ett.tensor".
 * Created by the binding of ett.sample. */
#ifndef ETT_SAMPLE_TENSOR_H
#define ETT_SAMPLE_TENSOR_H

#include <stddef.h>

#define ETT_TENSOR_TYPE "ett.tensor"

typedef struct {
  float *data; /* NULL once closed; user value 1 owns the memory */
  size_t count;
} ett_tensor;

#endif
