/* comm.h - kinds of collectives, their factors, and measured curves.
 *
 * Conventions are those of nccl-tests (derived in its doc/PERFORMANCE.md). bytes is the
 * size of the whole buffer: the result of all_gather, the input of reduce_scatter, the
 * data that one rank of all_to_all sends. Then seconds = alpha + bytes * factor /
 * bus_bandwidth
 *     factor: all_reduce 2 (n-1)/n; all_gather, reduce_scatter, all_to_all (n-1)/n;
 *             broadcast, send_recv 1
 * so that bus_bandwidth is a property of the links and does not depend on n.
 * lua/collectives holds the models of algorithms; placement.h places groups on tiers. */
#ifndef ETT_COMM_COMM_H
#define ETT_COMM_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum ett_comm_kind {
  ETT_COMM_ALL_REDUCE,
  ETT_COMM_ALL_GATHER,
  ETT_COMM_REDUCE_SCATTER,
  ETT_COMM_ALL_TO_ALL,
  ETT_COMM_SEND_RECV,
  ETT_COMM_BROADCAST,
  ETT_COMM_KINDS
} ett_comm_kind;

#define ETT_COMM_MAX_POINTS 64

/* Bus bandwidth over message size: ascending bytes, log-log interpolated. Below the first
 * point the time follows the line through the first two (latency and bandwidth); above
 * the last point the bandwidth is constant. */
typedef struct ett_comm_curve {
  size_t points;
  double bytes[ETT_COMM_MAX_POINTS], bandwidth[ETT_COMM_MAX_POINTS]; /* bytes/s */
} ett_comm_curve;

/* The time of messages in one placement by a model of communication: `start` plus the
 * slowest of several streams. A stream moves `moved` bytes for each byte of the
 * buffer. */
enum { ETT_COMM_STREAMS = 16, ETT_COMM_LINES = 8 };
typedef struct ett_comm_stream {
  double moved, bandwidth;
  const ett_comm_curve
      *curve; /* NULL: bandwidth in bytes/s; else bandwidth is a fraction of the curve */
} ett_comm_stream;
typedef struct ett_comm_line {
  double start; /* seconds */
  int streams;
  const ett_comm_stream *stream;
} ett_comm_line;

/* Alternative models; the fastest one counts. */
typedef struct ett_comm_law {
  int lines;
  ett_comm_line line[ETT_COMM_LINES];
} ett_comm_law;

/* Time of a message by a law: by its fastest line, and by the slowest stream of that
 * line. */
typedef struct ett_comm_law_time {
  double seconds;
  int line;
  double stream_seconds, moved, bandwidth; /* 0: the line has no stream */
} ett_comm_law_time;

/* bytes > 0. The law has at least one line; ties go to the first. */
ett_comm_law_time ett_comm_law_at(const ett_comm_law *law, double bytes);

/* The standard name of a kind ("all_reduce", ...), and the kind of a name, or -1. */
const char *ett_comm_kind_name(ett_comm_kind kind);
int ett_comm_kind_of(const char *name);

/* factor of `kind` for n ranks. */
double ett_comm_factor(ett_comm_kind kind, int64_t ranks);

/* Fails on a curve without points, or whose sizes do not ascend. */
int ett_comm_curve_check(const ett_comm_curve *curve, ett_err *err);

/* Bus bandwidth of a checked curve at a size of more than 0 bytes. */
double ett_comm_curve_at(const ett_comm_curve *curve, double bytes);

#endif
