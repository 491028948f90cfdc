/* Checks of pipelines and orders, and the memory held by an order. */
#include "step/pipeline/order.h"

#define XXH_INLINE_ALL
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <xxhash.h>

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
  if (p->schedule == ETT_SCHEDULE_CUSTOM &&
      (p->orders->stages != p->stages || p->orders->chunks != p->chunks))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "the orders hold %d stages of %d chunks, the plan %d of %d",
                       p->orders->stages, p->orders->chunks, p->stages, p->chunks);
  if (p->blocking_receives && !p->blocking_sends)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "blocking receives need blocking sends");
  if (p->forward_hidden && p->schedule != ETT_SCHEDULE_CUSTOM &&
      (p->schedule == ETT_SCHEDULE_GPIPE || p->weight || !p->backward_hidden))
    return ett_err_set(
        err, ETT_ERR_ARGUMENT,
        "paired units need the schedule 1f1b or interleaved, without W units");
  if (p->schedule == ETT_SCHEDULE_INTERLEAVED && p->group < 1)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "a group of the interleaved schedule has at least 1 micro-batch, "
                       "got %lld",
                       (long long)p->group);
  return 0;
}

size_t ett_pipeline_unit_count(const ett_pipeline *p, int rank) {
  if (p->schedule == ETT_SCHEDULE_CUSTOM)
    return p->orders->first_unit[rank + 1] - p->orders->first_unit[rank];
  return 2 * (size_t)p->micro_batches * (size_t)p->chunks;
}

void ett_pipeline_units(const ett_pipeline *p, int rank, ett_unit *units) {
  for (ett_cursor c = ett_order_open(p, rank, p->group); !ett_order_done(&c);
       ett_order_next(&c))
    *units++ = ett_order_peek(&c);
}

const char *ett_order_describe(ett_unit u, char text[ETT_ORDER_TEXT]) {
  static const char *const names[] = {"F", "B", "W", "BW"};
  snprintf(text, ETT_ORDER_TEXT, "{\"%s\", %" PRIu64 ", %d}",
           u.kind < ETT_UNIT_KINDS ? names[u.kind] : "?", (uint64_t)u.micro_batch + 1,
           u.chunk + 1);
  return text;
}

int ett_orders_link(const int32_t *slice, int stages, int chunks, int ways, int32_t *next,
                    int32_t *prev, ett_err *err) {
  int slots = stages * chunks, slices = slots / ways;
  int32_t *holder = malloc((size_t)slices * sizeof *holder);
  if (!holder)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for %d slices", slices);
  int status = 0;
  for (int way = 0; way < ways && status == 0; way++) {
    for (int s = 0; s < slices; s++)
      holder[s] = -1;
    for (int v = way * slices; v < (way + 1) * slices && status == 0; v++) {
      int32_t s = slice[v];
      if (s < 0 || s >= slices)
        status = ett_err_set(err, ETT_ERR_ARGUMENT,
                             "stage %d: chunk %d holds slice %d; slices are 1 to %d",
                             v % stages + 1, v / stages + 1, s + 1, slices);
      else if (holder[s] >= 0)
        status =
            ett_err_set(err, ETT_ERR_ARGUMENT,
                        "slice %d is twice in one way: on stage %d, chunk %d, and on "
                        "stage %d, chunk %d",
                        s + 1, holder[s] % stages + 1, holder[s] / stages + 1,
                        v % stages + 1, v / stages + 1);
      else
        holder[s] = v;
      for (int u = v % stages; u < way * slices && status == 0; u += stages)
        if (slice[u] == s)
          status = ett_err_set(err, ETT_ERR_ARGUMENT,
                               "stage %d holds slice %d in chunks %d and %d; ways must "
                               "hold it on different stages",
                               v % stages + 1, s + 1, u / stages + 1, v / stages + 1);
    }
    for (int s = 0; s < slices && status == 0; s++) {
      next[holder[s]] = s + 1 < slices ? holder[s + 1] : -1;
      prev[holder[s]] = s > 0 ? holder[s - 1] : -1;
    }
  }
  free(holder);
  return status;
}

uint64_t ett_orders_identity(const ett_orders *o) {
  uint64_t hash = 0;
  size_t slots = (size_t)o->stages * (size_t)o->chunks;
  const struct {
    const void *at;
    size_t bytes;
  } parts[] = {{o->first_unit, (size_t)(o->stages + 1) * sizeof *o->first_unit},
               {o->units, o->first_unit[o->stages] * sizeof *o->units},
               {o->slice, slots * sizeof *o->slice},
               {o->most, o->most ? (size_t)o->stages * sizeof *o->most : 0}};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    hash = XXH3_64bits_withSeed(parts[i].at, parts[i].bytes, hash);
  return (hash ^ (uint64_t)o->ways) | 1;
}

uint64_t ett_orders_places(const ett_orders *o) {
  if (!o || o->ways == 1)
    return 0;
  return XXH3_64bits(o->slice, (size_t)o->stages * (size_t)o->chunks * sizeof *o->slice);
}

/* Units of a micro-batch that have run on a slot: bits by kind. A whole backward sets
 * BACKWARD and WEIGHT. */
enum { FORWARD = 1, BACKWARD = 2, WEIGHT = 4 };

static int bits_of(const ett_orders *o, int kind) {
  if (kind == ETT_UNIT_WHOLE)
    return BACKWARD | WEIGHT;
  if (kind == ETT_UNIT_BACKWARD && !o->has_weight)
    return BACKWARD | WEIGHT;
  return 1 << kind;
}

static int check_unit(const ett_orders *o, size_t micro_batches, unsigned char *seen,
                      int rank, size_t k, ett_err *err) {
  char text[ETT_ORDER_TEXT];
  ett_unit u = o->units[k];
  size_t at = k - o->first_unit[rank] + 1;
  if (u.kind >= ETT_UNIT_KINDS || u.chunk >= o->chunks || u.micro_batch >= micro_batches)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "stage %d: unit %zu, %s, is outside the plan, which has %zu "
                       "micro-batches and %d chunks a stage",
                       rank + 1, at, ett_order_describe(u, text), micro_batches,
                       o->chunks);
  unsigned char *mark =
      &seen[((size_t)u.chunk * (size_t)o->stages + (size_t)rank) * micro_batches +
            u.micro_batch];
  int bits = bits_of(o, u.kind);
  if (*mark & bits)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "stage %d: unit %zu, %s, appears twice",
                       rank + 1, at, ett_order_describe(u, text));
  *mark |= (unsigned char)bits;
  return 0;
}

/* Checks that each micro-batch runs on exactly one way and that no unit of that way is
 * missing. */
static int check_ways(const ett_orders *o, size_t micro_batches,
                      const unsigned char *seen, ett_err *err) {
  char text[ETT_ORDER_TEXT];
  size_t stages = (size_t)o->stages, slots = stages * (size_t)o->chunks;
  size_t slices = slots / (size_t)o->ways;
  for (size_t m = 0; m < micro_batches; m++) {
    size_t way = SIZE_MAX, v;
    for (v = 0; v < slots; v++) {
      if (!seen[v * micro_batches + m])
        continue;
      if (way != SIZE_MAX && v / slices != way)
        return ett_err_set(err, ETT_ERR_ARGUMENT,
                           "stage %zu: micro-batch %zu runs on chunks %zu and %zu, which "
                           "belong to different ways",
                           v % stages + 1, m + 1, way * slices / stages + 1,
                           v / stages + 1);
      way = v / slices;
    }
    if (way == SIZE_MAX)
      way = 0;
    for (v = way * slices; v < (way + 1) * slices; v++) {
      int mark = seen[v * micro_batches + m];
      if (mark == (FORWARD | BACKWARD | WEIGHT))
        continue;
      int kind = !(mark & FORWARD)    ? ETT_UNIT_FORWARD
                 : !(mark & BACKWARD) ? ETT_UNIT_BACKWARD
                                      : ETT_UNIT_WEIGHT;
      ett_unit u = {(uint8_t)kind, 0, (uint16_t)(v / stages), (uint32_t)m};
      return ett_err_set(err, ETT_ERR_ARGUMENT, "stage %zu lacks unit %s", v % stages + 1,
                         ett_order_describe(u, text));
    }
  }
  return 0;
}

/* Checks that a rank holds no more forwards than its declared maximum. */
static int check_most(const ett_orders *o, int rank, ett_err *err) {
  int64_t held = 0;
  for (size_t k = o->first_unit[rank]; k < o->first_unit[rank + 1]; k++) {
    ett_unit u = o->units[k];
    held += u.kind == ETT_UNIT_FORWARD;
    if (held > o->most[rank]) {
      char text[ETT_ORDER_TEXT];
      return ett_err_set(
          err, ETT_ERR_ARGUMENT,
          "stage %d: unit %zu, %s, keeps the activations of %lld forwards, "
          "the schedule declares at most %lld",
          rank + 1, k - o->first_unit[rank] + 1, ett_order_describe(u, text),
          (long long)held, (long long)o->most[rank]);
    }
    held -= (bits_of(o, u.kind) & WEIGHT) != 0;
  }
  return 0;
}

int ett_orders_check(const ett_orders *o, int64_t micro_batches, ett_err *err) {
  size_t slots = (size_t)o->stages * (size_t)o->chunks, m = (size_t)micro_batches;
  unsigned char *seen = calloc(slots * m, 1);
  if (!seen)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to check a schedule");
  int status = 0;
  for (int rank = 0; rank < o->stages && status == 0; rank++)
    for (size_t k = o->first_unit[rank]; k < o->first_unit[rank + 1] && status == 0; k++)
      status = check_unit(o, m, seen, rank, k, err);
  if (status == 0)
    status = check_ways(o, m, seen, err);
  for (int rank = 0; rank < o->stages && status == 0 && o->most; rank++)
    status = check_most(o, rank, err);
  free(seen);
  return status;
}

/* Peak of a rank under the interleaved schedule with complete groups. Evaluated after
 * each forward of the steady state, which repeats for every group. */
static double peak_of_groups(const ett_pipeline *p, int rank, const double *weight) {
  int64_t warm = ett_order_warm_up(p, rank), turn = p->group * p->chunks;
  int64_t later = p->micro_batches * p->chunks - warm;
  double first = weight[rank], held = 0;
  int equal = 1;
  for (int chunk = 1; chunk < p->chunks; chunk++)
    equal &= weight[chunk * p->stages + rank] == first;
  int alone = later > 0 && !p->forward_hidden;
  if (equal)
    return (double)(alone ? warm + 1 : warm) * first;
  for (int64_t n = 0; n < warm; n++)
    held += weight[n % turn / p->group * p->stages + rank];
  double peak = held;
  for (int64_t i = 0; i < later && i < turn; i++) {
    held += weight[(warm + i) % turn / p->group * p->stages + rank];
    if (alone && held > peak)
      peak = held;
    held -= weight[(p->chunks - 1 - i / p->group) * p->stages + rank];
    peak = held > peak ? held : peak;
  }
  return peak;
}

/* Peak of a planned order: all held forwards wait for their weight gradients, or one of
 * them runs its backward. */
static double peak_of_planned(const ett_pipeline *p, int rank, double held, double late,
                              double again) {
  int64_t most = p->orders->most[rank];
  double count = (double)(most < p->micro_batches ? most : p->micro_batches);
  double others = (count - 1) * (held > late ? held : late);
  double own = held + again;
  return others + (own > late ? own : late);
}

double ett_pipeline_peak_in_flight(const ett_pipeline *p, int rank, const double *held,
                                   const double *late, double again) {
  if (p->schedule == ETT_SCHEDULE_GPIPE || p->schedule == ETT_SCHEDULE_1F1B) {
    double in_flight = (double)p->micro_batches;
    double most = (double)ett_order_warm_up(p, rank) + (p->forward_hidden ? 0 : 1);
    if (p->schedule == ETT_SCHEDULE_1F1B && in_flight > most)
      in_flight = most;
    return in_flight * held[rank] + again;
  }
  if (p->schedule == ETT_SCHEDULE_INTERLEAVED && p->micro_batches % p->group == 0)
    return peak_of_groups(p, rank, held) + again;
  if (p->orders && p->orders->planned)
    return peak_of_planned(p, rank, held[rank], late[rank], again);
  double now = 0, peak = 0, in_backward = 0;
  ett_pipeline few = *p;
  if (p->schedule == ETT_SCHEDULE_INTERLEAVED) { /* repeats every group */
    int64_t enough = 2 * (int64_t)p->stages / (p->chunks * p->group) + 4;
    if (p->micro_batches / p->group > enough)
      few.micro_batches = enough * p->group + p->micro_batches % p->group;
  }
  for (ett_cursor c = ett_order_open(&few, rank, p->group); !ett_order_done(&c);
       ett_order_next(&c)) {
    ett_unit u = ett_order_peek(&c);
    int in_pair =
        p->forward_hidden && !c.custom && u.kind == ETT_UNIT_FORWARD && c.k >= c.warm;
    int slot = u.chunk * p->stages + rank;
    if (u.kind == ETT_UNIT_BACKWARD || u.kind == ETT_UNIT_WHOLE)
      in_backward = now > in_backward ? now : in_backward;
    if (u.kind == ETT_UNIT_FORWARD)
      now += held[slot];
    else if (u.kind == ETT_UNIT_WEIGHT)
      now -= late[slot];
    else
      now += (u.kind == ETT_UNIT_BACKWARD && p->weight ? late[slot] : 0) - held[slot];
    peak = now > peak && !in_pair ? now : peak;
  }
  if (!p->weight)
    return peak + again;
  return in_backward + again > peak ? in_backward + again : peak;
}
