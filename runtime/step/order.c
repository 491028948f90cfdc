/* Orders of the built-in schedules, checks of every order, and what an order keeps in
 * memory. */
#include "step/order.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int ett_pipeline_check(const ett_pipeline *p, ett_err *err) {
  if (p->stages < 1 || p->stages > ETT_PIPELINE_MAX_STAGES)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "pipeline stages must be 1 to %d, got %d",
                       ETT_PIPELINE_MAX_STAGES, p->stages);
  if (p->chunks < 1 || p->chunks > ETT_PIPELINE_MAX_CHUNKS)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "chunks a stage must be 1 to %d, got %d",
                       ETT_PIPELINE_MAX_CHUNKS, p->chunks);
  if (p->micro_batches < 1 || p->micro_batches > UINT32_MAX)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "micro-batches must be 1 to 2^32-1, got %lld",
                       (long long)p->micro_batches);
  if ((double)p->micro_batches * p->stages * p->chunks > ETT_PIPELINE_MAX_UNITS)
    return ett_err_set(err, ETT_ERR_LIMIT,
                       "micro-batches * stages * chunks must be at most %d, got %.0f",
                       ETT_PIPELINE_MAX_UNITS,
                       (double)p->micro_batches * p->stages * p->chunks);
  if ((p->schedule == ETT_SCHEDULE_GPIPE || p->schedule == ETT_SCHEDULE_1F1B) &&
      p->chunks != 1)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "this schedule holds one chunk a stage, got %d; use interleaved",
                       p->chunks);
  if (p->blocking_receives && !p->blocking_sends)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "blocking receives need blocking sends");
  if (p->forward_hidden &&
      ((p->schedule != ETT_SCHEDULE_1F1B && p->schedule != ETT_SCHEDULE_INTERLEAVED) ||
       p->weight || !p->backward_hidden))
    return ett_err_set(
        err, ETT_ERR_ARGUMENT,
        "paired units need the schedule 1f1b or interleaved, without W units");
  if (p->schedule == ETT_SCHEDULE_INTERLEAVED && p->micro_batches % p->stages != 0)
    return ett_err_set(
        err, ETT_ERR_ARGUMENT,
        "the interleaved schedule needs micro-batches to be a multiple of %d stages, got "
        "%lld",
        p->stages, (long long)p->micro_batches);
  return 0;
}

size_t ett_pipeline_unit_count(const ett_pipeline *p, int rank) {
  if (p->schedule == ETT_SCHEDULE_CUSTOM)
    return p->first_unit[rank + 1] - p->first_unit[rank];
  return 2 * (size_t)p->micro_batches * (size_t)p->chunks;
}

ett_unit ett_pipeline_unit(const ett_pipeline *p, int rank, size_t k) {
  return ett_order_unit(p, rank, ett_order_warm_up(p, rank), (int64_t)k);
}

double ett_pipeline_unit_seconds(const ett_pipeline *p, int rank, size_t k) {
  int64_t warm = ett_order_warm_up(p, rank), at = (int64_t)k;
  int opens = ett_order_opens_pair(p, warm, at);
  if (opens || (at > 0 && ett_order_opens_pair(p, warm, at - 1))) {
    ett_unit f = ett_order_unit(p, rank, warm, opens ? at : at - 1);
    ett_unit b = ett_order_unit(p, rank, warm, opens ? at + 1 : at);
    int fs = f.chunk * p->stages + rank, bs = b.chunk * p->stages + rank;
    return p->forward[fs] + p->backward[bs] -
           ett_order_hidden(p->forward_hidden, fs, bs) -
           ett_order_hidden(p->backward_hidden, fs, bs);
  }
  ett_unit u = ett_order_unit(p, rank, warm, at);
  int slice = u.chunk * p->stages + rank;
  return u.kind == ETT_UNIT_FORWARD    ? p->forward[slice]
         : u.kind == ETT_UNIT_BACKWARD ? p->backward[slice]
                                       : p->weight[slice];
}

const char *ett_order_describe(ett_unit u, char text[ETT_ORDER_TEXT]) {
  snprintf(text, ETT_ORDER_TEXT, "{\"%c\", %" PRIu64 ", %d}", "FBW?"[u.kind & 3],
           (uint64_t)u.micro_batch + 1, u.chunk + 1);
  return text;
}

int ett_order_check_custom(const ett_pipeline *p, ett_err *err) {
  char text[ETT_ORDER_TEXT];
  size_t slices = (size_t)p->stages * (size_t)p->chunks;
  size_t m = (size_t)p->micro_batches;
  unsigned char *seen = calloc(slices * m, 1);
  if (!seen)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to check a schedule");
  int wanted = p->weight ? 7 : 3, status = 0;
  for (int rank = 0; rank < p->stages && status == 0; rank++) {
    for (size_t k = p->first_unit[rank]; k < p->first_unit[rank + 1]; k++) {
      ett_unit u = p->units[k];
      if (u.kind > ETT_UNIT_WEIGHT || u.chunk >= p->chunks || u.micro_batch >= m ||
          !(wanted >> u.kind & 1)) {
        status = ett_err_set(err, ETT_ERR_ARGUMENT,
                             "stage %d: unit %zu, %s, is outside the plan, which has %zu "
                             "micro-batches and %d chunks a stage",
                             rank + 1, k - p->first_unit[rank] + 1,
                             ett_order_describe(u, text), m, p->chunks);
        break;
      }
      unsigned char *mark =
          &seen[((size_t)u.chunk * p->stages + rank) * m + u.micro_batch];
      if (*mark >> u.kind & 1) {
        status = ett_err_set(err, ETT_ERR_ARGUMENT,
                             "stage %d: unit %zu, %s, appears twice", rank + 1,
                             k - p->first_unit[rank] + 1, ett_order_describe(u, text));
        break;
      }
      *mark |= (unsigned char)(1 << u.kind);
    }
  }
  for (size_t i = 0; i < slices * m && status == 0; i++)
    if (seen[i] != wanted) {
      int kind = !(seen[i] & 1)   ? ETT_UNIT_FORWARD
                 : !(seen[i] & 2) ? ETT_UNIT_BACKWARD
                                  : ETT_UNIT_WEIGHT;
      ett_unit u = {(uint8_t)kind, (uint16_t)(i / m / (size_t)p->stages),
                    (uint32_t)(i % m)};
      status = ett_err_set(err, ETT_ERR_ARGUMENT, "stage %zu lacks unit %s",
                           i / m % (size_t)p->stages + 1, ett_order_describe(u, text));
    }
  free(seen);
  return status;
}

double ett_pipeline_peak_in_flight(const ett_pipeline *p, int rank,
                                   const double *weight) {
  if (p->schedule == ETT_SCHEDULE_GPIPE || p->schedule == ETT_SCHEDULE_1F1B) {
    double in_flight = (double)p->micro_batches;
    double most = (double)ett_order_warm_up(p, rank) + 1;
    if (p->schedule == ETT_SCHEDULE_1F1B && in_flight > most)
      in_flight = most;
    return in_flight * weight[rank];
  }
  double held = 0, peak = 0;
  size_t count = ett_pipeline_unit_count(p, rank);
  int64_t warm = ett_order_warm_up(p, rank);
  for (size_t k = 0; k < count; k++) {
    ett_unit u = ett_order_unit(p, rank, warm, (int64_t)k);
    double bytes = weight[u.chunk * p->stages + rank];
    if (u.kind == ETT_UNIT_FORWARD)
      held += bytes;
    else if (u.kind == (p->weight ? ETT_UNIT_WEIGHT : ETT_UNIT_BACKWARD))
      held -= bytes;
    peak = held > peak ? held : peak;
  }
  return peak;
}
