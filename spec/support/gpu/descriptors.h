/* descriptors.h - cuDNN backend descriptors of the stand-in. */
#ifndef ETT_STAND_IN_DESCRIPTORS_H
#define ETT_STAND_IN_DESCRIPTORS_H

#include <cudnn_graph.h>

#include "stand_in.h"

enum { MAX_ATTRIBUTES = 12, MAX_OPERATIONS = 64 };

typedef struct attribute {
  cudnnBackendAttributeName_t name;
  cudnnBackendAttributeType_t type;
  int64_t count;
  void *values;
} attribute;

typedef struct descriptor {
  cudnnBackendDescriptorType_t type;
  int finalized;
  int attribute_count;
  attribute attributes[MAX_ATTRIBUTES];
} descriptor;

/* The attribute of that name; NULL if it was not set. */
const attribute *ett_stand_in_attribute(const descriptor *d,
                                        cudnnBackendAttributeName_t name);

/* The descriptor, number or data type that an attribute holds; ends the process when it
 * is missing. */
descriptor *ett_stand_in_part(const descriptor *d, cudnnBackendAttributeName_t name);
int64_t ett_stand_in_integer(const descriptor *d, cudnnBackendAttributeName_t name,
                             int64_t fallback);

/* Whether the tensors of an operation match. */
cudnnStatus_t ett_stand_in_operation_fits(const descriptor *operation);

/* Whether the engines support the graph (data types, head sizes). */
cudnnStatus_t ett_stand_in_graph_supported(const descriptor *graph);

/* Computes the operations of a graph in their order, on the tensors that ids and pointers
 * bind; checks that all tensors except the virtual ones are bound. */
void ett_stand_in_compute(const descriptor *graph, const int64_t *ids,
                          void *const *pointers, int64_t count);

#endif
