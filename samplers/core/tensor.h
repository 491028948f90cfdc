/* A host buffer of 4-byte elements that several loadable modules (cpu, dist, cuda) share
 * through Lua userdata "ett.tensor"; made by the binding of ett.sample. */
#ifndef ETT_SAMPLE_TENSOR_H
#define ETT_SAMPLE_TENSOR_H

#include <stddef.h>

#define ETT_TENSOR_TYPE "ett.tensor"

typedef struct {
  float *data; /* NULL once closed; its memory lives as long as user value 1 */
  size_t count;
} ett_tensor;

#endif
