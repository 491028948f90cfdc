/* internal.h - the structure of a ledger; private to runtime/ledger. */
#ifndef ETT_LEDGER_INTERNAL_H
#define ETT_LEDGER_INTERNAL_H

#include "ledger/ledger.h"

typedef struct axis {
  char *name;
  ett_node degree;
  bool rotational;
} axis;

typedef struct dimension {
  char *name;
  ett_node size, local, virtual_size;
  int axis;
  bool autoreduce;
} dimension;

typedef struct tensor {
  char *name; /* of a result: its label */
  ett_set dimensions, scattered, carried;
} tensor;

typedef struct meter {
  char *name;
  int parent;
  ett_node multiplier, factor;
  ett_node counts[ETT_COUNTS];
} meter;

/* A growing array of one kind. */
typedef struct list {
  void *items;
  size_t size, capacity;
} list;

struct ett_ledger {
  ett_graph *graph;
  axis axes[ETT_LEDGER_MAX];
  dimension dimensions[ETT_LEDGER_MAX];
  int axis_count, dimension_count;
  list tensors, meters, entries, shares, checks, labels; /* labels: char * */
  int meter;                                             /* index of the open meter */
  const char *label;
};

#define ETT_IN(set, index) (((set) >> (index)) & 1u)
#define ETT_BIT(index) ((ett_set)1 << (index))
#define ETT_ALL(count) ((count) >= 64 ? ~(ett_set)0 : ETT_BIT(count) - 1)

/* A new zeroed item at the end, or NULL and *err. */
void *ett_list_add(list *l, size_t item_size, ett_err *err);

/* ledger.c */
ett_node ett_ledger_constant(ett_ledger *ledger, double value, ett_err *err);
ett_node ett_ledger_apply(ett_ledger *ledger, ett_op op, ett_node a, ett_node b,
                          ett_err *err);

/* Product of the global sizes of a set of dimensions; of the degrees of a set of axes. */
ett_node ett_ledger_sizes(ett_ledger *ledger, ett_set dimensions, ett_err *err);
ett_node ett_ledger_degrees(ett_ledger *ledger, ett_set axes, ett_err *err);

/* tensor.c */
tensor *ett_ledger_tensor_at(const ett_ledger *ledger, int index);
/* 0, or -1 and *err if the tensor does not exist; the same for a dimension. */
int ett_ledger_known(const ett_ledger *ledger, int index, ett_err *err);
int ett_ledger_known_dimension(const ett_ledger *ledger, int index, ett_err *err);
/* Axes of the dimensions. */
ett_set ett_ledger_carried(const ett_ledger *ledger, ett_set dimensions);
/* Adds a tensor of known dimensions. A result (name NULL) is named by the label. */
int ett_ledger_add_tensor(ett_ledger *ledger, const char *name, ett_set dimensions,
                          ett_set scattered, ett_err *err);

#endif
