#include "comm/comm.h"

#include <math.h>
#include <string.h>

static const char *const kind_names[ETT_COMM_KINDS] = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast"};

const char *ett_comm_kind_name(ett_comm_kind kind) {
  return kind_names[kind];
}

int ett_comm_kind_of(const char *name) {
  for (int kind = 0; kind < ETT_COMM_KINDS; kind++)
    if (strcmp(name, kind_names[kind]) == 0)
      return kind;
  return -1;
}

double ett_comm_factor(ett_comm_kind kind, int64_t ranks) {
  double n = (double)ranks;
  switch (kind) {
  case ETT_COMM_ALL_REDUCE:
    return 2 * (n - 1) / n;
  case ETT_COMM_ALL_GATHER:
  case ETT_COMM_REDUCE_SCATTER:
  case ETT_COMM_ALL_TO_ALL:
    return (n - 1) / n;
  default:
    return ranks > 1 ? 1 : 0;
  }
}

/* Time below the first point, on the line through the first two points. A curve that
 * starts at small messages has a large share of latency there; one that starts at large
 * messages has almost none. */
static double seconds_below(const ett_comm_curve *curve, double bytes) {
  double first = curve->bytes[0] / curve->bandwidth[0];
  if (curve->points < 2)
    return first;
  double slope = (curve->bytes[1] / curve->bandwidth[1] - first) /
                 (curve->bytes[1] - curve->bytes[0]);
  slope = fmin(fmax(slope, 0), 1 / curve->bandwidth[0]); /* no negative latency */
  return first - slope * (curve->bytes[0] - bytes);
}

int ett_comm_curve_check(const ett_comm_curve *curve, ett_err *err) {
  for (size_t i = 0; i < curve->points; i++)
    if (!(isfinite(curve->bytes[i]) && curve->bytes[i] > 0) ||
        !(isfinite(curve->bandwidth[i]) && curve->bandwidth[i] > 0) ||
        (i > 0 && curve->bytes[i] <= curve->bytes[i - 1]))
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "a curve needs ascending sizes and positive bandwidths, point "
                         "%zu is %g bytes at %g bytes/s",
                         i + 1, curve->bytes[i], curve->bandwidth[i]);
  return curve->points > 0
             ? 0
             : ett_err_set(err, ETT_ERR_ARGUMENT, "a curve needs at least one point");
}

double ett_comm_curve_at(const ett_comm_curve *curve, double bytes) {
  size_t n = curve->points;
  if (bytes <= curve->bytes[0])
    return bytes / seconds_below(curve, bytes);
  if (bytes >= curve->bytes[n - 1])
    return curve->bandwidth[n - 1];
  size_t i = 1;
  while (curve->bytes[i] < bytes)
    i++;
  double t =
      log(bytes / curve->bytes[i - 1]) / log(curve->bytes[i] / curve->bytes[i - 1]);
  return curve->bandwidth[i - 1] * pow(curve->bandwidth[i] / curve->bandwidth[i - 1], t);
}

static ett_comm_law_time line_at(const ett_comm_line *line, double bytes) {
  ett_comm_law_time t = {0};
  for (int k = 0; k < line->streams; k++) {
    const ett_comm_stream *s = &line->stream[k];
    double bandwidth =
        s->curve ? s->bandwidth * ett_comm_curve_at(s->curve, bytes) : s->bandwidth;
    double own = s->moved * bytes / bandwidth;
    if (own > t.stream_seconds) {
      t.stream_seconds = own;
      t.moved = s->moved;
      t.bandwidth = bandwidth;
    }
  }
  t.seconds = line->start + t.stream_seconds;
  return t;
}

ett_comm_law_time ett_comm_law_at(const ett_comm_law *law, double bytes) {
  ett_comm_law_time best = line_at(&law->line[0], bytes);
  for (int i = 1; i < law->lines; i++) {
    ett_comm_law_time own = line_at(&law->line[i], bytes);
    if (own.seconds < best.seconds) {
      best = own;
      best.line = i;
    }
  }
  return best;
}
