#include "step/demand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

/* A placement and what all its messages share; its address is constant. Placements are
 * large and few, entries are many: a sweep asks for thousands of messages. */
typedef struct {
  ett_placement of;
  size_t first; /* its first entry */
  size_t price; /* index + 1 of its last price; 0: none */
} place;

typedef struct {
  ett_demand demand; /* its place is that of *place */
  place *place;
  ett_demand_time time;
  int timed;
} entry;

/* The price of messages of one kind and element size in one placement. */
typedef struct {
  ett_demand_kind kind;
  int32_t element_bytes;
  size_t before; /* index + 1 of the previous price of this placement; 0: none */
  ett_message_price of;
} price;

struct ett_demands {
  entry *entries;
  size_t count;
  size_t timed; /* all entries before this index have a time */
  place **places;
  size_t place_count;
  uint32_t capacity, place_capacity;
  size_t
      *slots; /* open addressing: 0 empty, else index + 1; the length is a power of two */
  size_t slot_count;
  uint64_t edition;
  price *prices;
  ett_update_price updates[ETT_STAGE_LAST + 1];
  uint32_t price_count, price_capacity;
};

static _Atomic uint64_t editions;

ett_demands *ett_demands_new(void) {
  ett_demands *d = calloc(1, sizeof *d);
  if (d)
    d->edition = ++editions;
  return d;
}

void ett_demands_free(ett_demands *d) {
  if (!d)
    return;
  for (size_t i = 0; i < d->place_count; i++)
    free(d->places[i]);
  free(d->entries);
  free(d->places);
  free(d->slots);
  free(d->prices);
  free(d);
}

static uint64_t mix(uint64_t h, uint64_t value) {
  h = (h ^ value) * 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}

static uint64_t hash(const ett_demand *d) {
  uint64_t bits;
  memcpy(&bits, &d->amount, sizeof bits);
  uint64_t h = mix((uint64_t)d->kind + 1, bits);
  h = mix(h, (uint64_t)(uint32_t)d->layers << 32 | (uint32_t)d->stage);
  h = mix(h, (uint64_t)(uint32_t)d->place->ranks << 32 | (uint32_t)d->element_bytes |
                 (uint64_t)(uint32_t)d->parts << 8);
  for (int k = 0; k < d->place->tiers; k++) {
    const ett_placement_tier *t = &d->place->tier[k];
    h = mix(h, (uint64_t)(uint32_t)t->units << 32 | (uint32_t)t->groups);
    h = mix(h, (uint64_t)(uint32_t)t->members << 32 | (uint32_t)t->sharing);
  }
  return h;
}

static int same_place(const ett_placement *a, const ett_placement *b) {
  return a->ranks == b->ranks && a->tiers == b->tiers &&
         memcmp(a->tier, b->tier, (size_t)a->tiers * sizeof *a->tier) == 0;
}

static int same(const ett_demand *a, const ett_demand *b) {
  return a->kind == b->kind && a->amount == b->amount && a->layers == b->layers &&
         a->stage == b->stage && a->element_bytes == b->element_bytes &&
         a->parts == b->parts && same_place(a->place, b->place);
}

static int no_memory(const ett_demands *d, ett_err *err) {
  return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for %zu messages",
                     d->count + 1);
}

static int grow(ett_demands *d, ett_err *err) {
  if (ett_grow(&d->entries, (uint32_t)d->count, &d->capacity, 64, sizeof *d->entries) ||
      ett_grow(&d->places, (uint32_t)d->place_count, &d->place_capacity, 64,
               sizeof *d->places))
    return no_memory(d, err);
  if (d->count * 2 < d->slot_count)
    return 0;
  size_t slot_count = d->slot_count ? d->slot_count * 2 : 128;
  size_t *slots = calloc(slot_count, sizeof *slots);
  if (!slots)
    return no_memory(d, err);
  for (size_t i = 0; i < d->count; i++) {
    size_t at = hash(&d->entries[i].demand) & (slot_count - 1);
    while (slots[at])
      at = (at + 1) & (slot_count - 1);
    slots[at] = i + 1;
  }
  free(d->slots);
  d->slots = slots;
  d->slot_count = slot_count;
  return 0;
}

/* The record of a placement, made for the entry `first` if it is new; NULL if memory runs
 * out. */
static place *find_place(ett_demands *d, const ett_placement *of, size_t first) {
  for (size_t k = d->place_count; k-- > 0;)
    if (same_place(&d->places[k]->of, of))
      return d->places[k];
  place *one = calloc(1, sizeof *one);
  if (!one)
    return NULL;
  one->of = *of;
  one->first = first;
  return d->places[d->place_count++] = one;
}

/* Limits the time of a message outside the samples, as within_links of
 * lua/ett/profile/of_cluster.lua. The limits continue the times at the end of the samples
 * without a step. seconds_end: the samples' time at their smallest or largest message;
 * links_end: the links' time there. Lower limit: half of the links' time. It is less if
 * the samples at the end are faster than that half. For smaller messages it is less by
 * the same ratio. For larger messages it is less by the same number of seconds, because
 * a ratio of latencies is no ratio of bandwidths. Only smaller messages have an upper
 * limit, because regressors are constant there. It is the links' time, or more if the
 * samples are slower. */
static double within_links(double by_links, double seconds_end, double links_end,
                           int below, double seconds) {
  double ratio = seconds_end / links_end;
  double slow = by_links * fmax(1.0, ratio);
  double least = below ? fmin(0.5, ratio) * by_links
                       : fmin(0.5 * by_links, by_links - (1 - ratio) * links_end);
  return fmax(least, below ? fmin(seconds, slow) : seconds);
}

static int sampled(const ett_message_price *p, double bytes, double *seconds) {
  double size = bytes / p->element_bytes / p->ranks;
  ett_prediction found, at_end;
  if (!(size > 0) || ett_model_value(p->model, &size, &found, NULL) != 0)
    return 0;
  *seconds = found.value;
  const ett_model_facts *facts = &p->model->facts;
  double by_links = ett_comm_law_at(p->law, bytes).seconds;
  double largest = facts->size_most * p->element_bytes * p->ranks;
  if (found.value < 0.5 * by_links && fmin(bytes, largest) >= 1e6) /* damaged samples */
    return 0;
  if (found.provenance == ETT_EXTRAPOLATED) {
    int below = size < facts->size_least;
    double end = below ? facts->size_least : facts->size_most;
    double links = ett_comm_law_at(p->law, end * p->element_bytes * p->ranks).seconds;
    if (ett_model_value(p->model, &end, &at_end, NULL) != 0)
      return 0;
    *seconds = within_links(by_links, at_end.value, links, below, *seconds);
  }
  double least = p->bandwidth > 0 ? bytes * p->share * p->groups / p->bandwidth : 0;
  *seconds = fmax(*seconds, least);
  return 1;
}

static int message_time(const ett_message_price *p, double bytes, double *seconds) {
  if (p->model)
    return sampled(p, bytes, seconds);
  *seconds = ett_comm_law_at(p->law, bytes).seconds;
  return 1;
}

static int update_time(const ett_update_price *p, double parameters, int32_t layers,
                       double *seconds) {
  double all = layers > 1 ? layers : 1;
  parameters = floor(parameters) > 1 ? floor(parameters) : 1;
  const double dims[] = {parameters, 12 * all, all, p->hidden}; /* ett.profile.samples */
  ett_prediction found;
  if (!p->model || ett_model_value(p->model, dims, &found, NULL) != 0 ||
      !(found.value >= p->bytes * parameters / p->bandwidth))
    return 0;
  *seconds = found.value;
  return 1;
}

/* Sets the time of an entry by the price of its placement. 0: no price applies. */
static int set_by_price(ett_demands *d, size_t index) {
  const ett_demand *demand = &d->entries[index].demand;
  double found;
  if (demand->parts != 0)
    return 0;
  if (demand->kind == ETT_DEMAND_OPTIMIZER) {
    if (!update_time(&d->updates[demand->stage], demand->amount, demand->layers, &found))
      return 0;
  } else {
    size_t at = d->entries[index].place->price;
    while (at > 0 && (d->prices[at - 1].kind != demand->kind ||
                      d->prices[at - 1].element_bytes != demand->element_bytes))
      at = d->prices[at - 1].before;
    if (at == 0 || !message_time(&d->prices[at - 1].of, demand->amount, &found))
      return 0;
  }
  ett_err why; /* the caller reports the entry as untimed */
  return ett_demands_set(d, index, (ett_demand_time){found, found, found}, &why) == 0;
}

ptrdiff_t ett_demands_find(ett_demands *d, const ett_demand *demand, ett_err *err) {
  static const ett_placement nowhere; /* of updates */
  ett_demand wanted = *demand;
  if (!wanted.place)
    wanted.place = &nowhere;
  if (grow(d, err) != 0)
    return -1;
  size_t at = hash(&wanted) & (d->slot_count - 1);
  while (d->slots[at]) {
    if (same(&d->entries[d->slots[at] - 1].demand, &wanted))
      return (ptrdiff_t)d->slots[at] - 1;
    at = (at + 1) & (d->slot_count - 1);
  }
  place *where = find_place(d, wanted.place, d->count);
  if (!where)
    return no_memory(d, err);
  wanted.place = &where->of;
  d->entries[d->count] = (entry){.demand = wanted, .place = where};
  d->slots[at] = ++d->count;
  set_by_price(d, d->count - 1);
  return (ptrdiff_t)d->count - 1;
}

static void set_untimed(ett_demands *d) {
  for (size_t i = ett_demands_untimed(d, 0); i < d->count;
       i = ett_demands_untimed(d, i + 1))
    set_by_price(d, i);
}

void ett_demands_price_updates(ett_demands *d, ett_stage_place stage,
                               const ett_update_price *of) {
  d->updates[stage] = *of;
  set_untimed(d);
}

int ett_demands_price(ett_demands *d, size_t index, const ett_message_price *of,
                      ett_err *err) {
  if (index >= d->count)
    return ett_err_set(err, ETT_ERR_INTERNAL, "internal error: no message %zu", index);
  if (ett_grow(&d->prices, d->price_count, &d->price_capacity, 16, sizeof *d->prices))
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory for %u prices",
                       d->price_count);
  const entry *one = &d->entries[index];
  d->prices[d->price_count] = (price){.kind = one->demand.kind,
                                      .element_bytes = one->demand.element_bytes,
                                      .before = one->place->price,
                                      .of = *of};
  one->place->price = ++d->price_count;
  set_untimed(d);
  return 0;
}

size_t ett_demands_count(const ett_demands *d) {
  return d->count;
}

const ett_demand *ett_demands_at(const ett_demands *d, size_t index) {
  return index < d->count ? &d->entries[index].demand : NULL;
}

size_t ett_demands_place(const ett_demands *d, size_t index) {
  return d->entries[index].place->first;
}

const ett_demand_time *ett_demands_time(const ett_demands *d, size_t index) {
  return index < d->count && d->entries[index].timed ? &d->entries[index].time : NULL;
}

int ett_time_check(ett_demand_time t, const char *what, ett_err *err) {
  if (!isfinite(t.seconds) || t.seconds < 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "the time of %s must be finite and at least 0, got %g s", what,
                       t.seconds);
  if (!(t.low >= 0 && t.low <= t.seconds && t.high >= t.seconds && isfinite(t.high)))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "the interval of %s must hold its time, got %g s in [%g, %g]",
                       what, t.seconds, t.low, t.high);
  return 0;
}

int ett_demands_set(ett_demands *d, size_t index, ett_demand_time time, ett_err *err) {
  static const char *const names[ETT_DEMAND_KINDS] = {"send_recv",      "all_reduce",
                                                      "reduce_scatter", "all_gather",
                                                      "all_to_all",     "the optimizer"};
  if (index >= d->count)
    return ett_err_set(err, ETT_ERR_INTERNAL, "internal error: no message %zu", index);
  if (ett_time_check(time, names[d->entries[index].demand.kind], err) != 0)
    return -1;
  if (d->entries[index].timed)
    d->edition = ++editions;
  d->entries[index].time = time;
  d->entries[index].timed = 1;
  while (d->timed < d->count && d->entries[d->timed].timed)
    d->timed++;
  return 0;
}

uint64_t ett_demands_edition(const ett_demands *d) {
  return d->edition;
}

size_t ett_demands_untimed(const ett_demands *d, size_t from) {
  from = from > d->timed ? from : d->timed;
  while (from < d->count && d->entries[from].timed)
    from++;
  return from;
}
