/* ledger.h - tensors on parallel axes, and the cost of every operation on them.
 *
 * An axis has a degree. P, the product of all degrees, is the number of ranks. A
 * dimension has a global size and at most one axis. Its local size is size / degree,
 * which must be an integer. On a rotational axis (a pipeline) the local size is 1, the
 * size is the degree, and a virtual size (the layers) must be a multiple of the degree. A
 * tensor is a set of dimensions and a set of axes over which it is scattered. For each
 * tensor, an axis is carried (by a dimension), scattered (the elements are split without
 * a dimension) or broadcast (every rank has a full copy).
 *
 * Counts are over all ranks, in FLOP and in words sent (Tx) and received (Rx), forward
 * and backward. I is a product of global sizes, J a product of broadcast degrees, K a
 * product of scattered degrees, nu a crossing frequency:
 *
 *   multiply   FLOP S, backward 4 S;
 *              S = |union| x degrees of the axes that no dimension carries
 *   broadcast  Tx I max([K > 1], nu), Rx I J (K + nu - 1);
 *              backward FLOP = Tx = Rx = the forward Rx
 *   reduce     FLOP I (J - 1), Tx = Rx = I (K - 1);
 *              backward Tx I [K > 1], Rx I (K - 1);
 *              J is the size of the reduced dimension, K the degree of its axis
 *
 * (source: the public ml_par_sim programs' model, restated.)
 *
 * Sizes, degrees and multipliers are nodes of the ledger's graph, so a ledger has counts
 * at the current values and can be compiled for other values. Violated value rules
 * (divisibility, two dimensions on one axis, limits) are recorded as checks, so that all
 * are reported at once. Impossible requests (an unknown dimension) fail. One thread at a
 * time may use a ledger; ledgers are independent of each other. */
#ifndef ETT_LEDGER_LEDGER_H
#define ETT_LEDGER_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ledger/graph.h"

enum { ETT_LEDGER_MAX = 64 }; /* axes of one ledger; also its dimensions */

typedef uint64_t ett_set; /* set of axes or dimensions, one bit per index */

enum { /* counts of a meter or entry */
       ETT_FLOP_FORWARD,
       ETT_TX_FORWARD,
       ETT_RX_FORWARD,
       ETT_FLOP_BACKWARD,
       ETT_TX_BACKWARD,
       ETT_RX_BACKWARD,
       ETT_COUNTS
};

typedef enum ett_operation {
  ETT_MULTIPLY,
  ETT_BROADCAST,
  ETT_REDUCE,
} ett_operation;

typedef enum ett_relation {
  ETT_DIVIDES,  /* left is a multiple of right */
  ETT_AT_MOST,  /* left <= right */
  ETT_AT_LEAST, /* left >= right */
  ETT_EQUAL,    /* left == right */
  ETT_DISJOINT, /* a set rule; left and right are unused */
} ett_relation;

/* The cost of one operation, before the multipliers of its meters. */
typedef struct ett_entry {
  ett_operation operation;
  const char *label; /* the part of the model; owned by the ledger */
  int meter;
  int left, right; /* input tensors; right: -1 if there is one input */
  int result;      /* tensor */
  int reduced;     /* dimension, or -1 */
  ett_node counts[ETT_COUNTS];
} ett_entry;

/* The traffic of an entry that one axis causes; the shares of all axes sum to the
 * entry. */
typedef struct ett_share {
  int entry, axis;
  ett_node counts[ETT_COUNTS]; /* FLOP counts are -1 */
} ett_share;

typedef struct ett_check {
  ett_relation relation;
  const char *subject, *object; /* names of left and right */
  const char *stage;            /* label at that time */
  ett_node left, right, ok;     /* ok: 1 or 0 */
} ett_check;

typedef struct ett_ledger ett_ledger;

ett_ledger *ett_ledger_new(void); /* NULL if memory runs out. */
void ett_ledger_free(ett_ledger *ledger);
ett_graph *ett_ledger_graph(ett_ledger *ledger);

/* All of these return an index >= 0, or -1 and *err. Names are copied. */
int ett_ledger_axis(ett_ledger *ledger, const char *name, ett_node degree,
                    bool rotational, ett_err *err);
/* axis -1: none. virtual_size is used only on a rotational axis (else -1). */
int ett_ledger_dimension(ett_ledger *ledger, const char *name, ett_node size, int axis,
                         ett_node virtual_size, bool autoreduce, ett_err *err);
int ett_ledger_tensor(ett_ledger *ledger, const char *name, ett_set dimensions,
                      ett_set scattered, ett_err *err);

int ett_ledger_multiply(ett_ledger *ledger, int a, int b, ett_err *err);
/* Gathers the scattered axes; rotate: dimensions whose axes the data moves along. */
int ett_ledger_broadcast(ett_ledger *ledger, int tensor, ett_set rotate, ett_err *err);
/* from, to: -1, or two dimensions of equal size, `to` on the axis of `dimension`. After
 * the sum, `to` replaces `from` at no cost. */
int ett_ledger_reduce(ett_ledger *ledger, int tensor, int dimension, int from, int to,
                      ett_err *err);
/* Renames `from` to a dimension of equal size without an axis, and scatters the axis of
 * `from`. No cost. */
int ett_ledger_scatter_transpose(ett_ledger *ledger, int tensor, int from, int to,
                                 ett_err *err);
/* Concatenates two unscattered tensors. They differ in one dimension each, both on the
 * same axis. *joint: the joint dimension. No cost. */
int ett_ledger_concatenate(ett_ledger *ledger, int a, int b, int *joint, ett_err *err);
/* Multiplies, then reduces and broadcasts each common autoreduce dimension, those without
 * an axis first. */
int ett_ledger_dot(ett_ledger *ledger, int a, int b, ett_err *err);

/* Meters nest; closing a meter adds multiplier x counts to the enclosing meter. */
int ett_ledger_open(ett_ledger *ledger, const char *name, ett_node multiplier,
                    ett_err *err);
int ett_ledger_close(ett_ledger *ledger, ett_err *err);
/* Sets the label of later entries and checks. */
int ett_ledger_label(ett_ledger *ledger, const char *label, ett_err *err);
int ett_ledger_check(ett_ledger *ledger, ett_relation relation, const char *subject,
                     ett_node left, const char *object, ett_node right, ett_err *err);

/* The records. Pointers stay valid until the next recording call. */
size_t ett_ledger_axes(const ett_ledger *ledger);
const char *ett_ledger_axis_name(const ett_ledger *ledger, int axis);
ett_node ett_ledger_axis_degree(const ett_ledger *ledger, int axis);
ett_node ett_ledger_clusters(ett_ledger *ledger, ett_err *err);            /* P */
int ett_ledger_find_dimension(const ett_ledger *ledger, const char *name); /* or -1 */
int ett_ledger_find_axis(const ett_ledger *ledger, const char *name);      /* or -1 */
const char *ett_ledger_dimension_name(const ett_ledger *ledger, int dimension);
ett_node ett_ledger_dimension_size(const ett_ledger *ledger, int dimension);
/* Results are named by their label; a broadcast keeps its operand's name. */
const char *ett_ledger_tensor_name(const ett_ledger *ledger, int tensor);
ett_set ett_ledger_tensor_dimensions(const ett_ledger *ledger, int tensor);
/* Number of elements per rank. */
ett_node ett_ledger_tensor_local(ett_ledger *ledger, int tensor, ett_err *err);
const ett_entry *ett_ledger_entries(const ett_ledger *ledger, size_t *count);
/* Words of memory that a rank accesses in one forward run of an entry. A product reads
 * its inputs and is not stored. A sum or copy writes its result, unless only another sum
 * or copy reads it (both form one kernel). */
ett_node ett_ledger_entry_touched(ett_ledger *ledger, size_t index, ett_err *err);
const ett_share *ett_ledger_shares(const ett_ledger *ledger, size_t *count);
const ett_check *ett_ledger_checks(const ett_ledger *ledger, size_t *count);
/* Meter 0 is the root. */
const char *ett_ledger_meter_name(const ett_ledger *ledger, int meter);
/* Product of the multipliers of a meter and its enclosing meters. */
ett_node ett_ledger_meter_factor(const ett_ledger *ledger, int meter);
/* Current sum of a meter, before its own multiplier. */
ett_node ett_ledger_meter_count(const ett_ledger *ledger, int meter, int count);

#endif
