#include "comm/placement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

ett_rank_group ett_rank_group_of(ett_axis axis) {
  return (ett_rank_group){axis.degree, {axis, {1, 1}}};
}

ett_rank_group ett_rank_group_both(ett_axis one, ett_axis other) {
  ett_axis inner = one.stride <= other.stride ? one : other;
  ett_axis outer = one.stride <= other.stride ? other : one;
  if (inner.degree == 1)
    return ett_rank_group_of(outer);
  if (outer.degree == 1)
    return ett_rank_group_of(inner);
  if (outer.stride == inner.stride * inner.degree)
    return ett_rank_group_of((ett_axis){inner.degree * outer.degree, inner.stride});
  return (ett_rank_group){inner.degree * outer.degree, {inner, outer}};
}

int ett_tiers_check(const ett_tiers *t, ett_err *err) {
  if (t->count < 1 || t->count > ETT_TIERS_MOST || t->node < 0 || t->node >= t->count)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "a cluster has 1 to %d tiers, got %d",
                       ETT_TIERS_MOST, t->count);
  for (int k = 0; k < t->count; k++) {
    int64_t below = k > 0 ? t->size[k - 1] : 1;
    if (t->size[k] < 1 || (t->size[k] != ETT_TIER_ALL && t->size[k] % below != 0) ||
        t->card[k] < 1 || below % t->card[k] != 0)
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "tier %d of %lld devices with cards of %lld does not nest with "
                         "units of %lld devices",
                         k + 1, (long long)t->size[k], (long long)t->card[k],
                         (long long)below);
  }
  return 0;
}

int32_t ett_place_nodes(const ett_placement *p) {
  return p->tier[p->node].units;
}

int32_t ett_place_per_node(const ett_placement *p) {
  return p->tier[p->node].units > 1 && p->node + 1 < p->tiers
             ? p->tier[p->node + 1].members
             : p->ranks;
}

static int64_t below(const ett_tiers *t, int k) {
  return k > 0 ? t->size[k - 1] : 1;
}

/* Ranks of an axis per block of `size` devices; 0 if blocks differ. */
static int64_t inside(ett_axis a, int64_t size) {
  int64_t block = a.degree * a.stride;
  if (a.degree == 1 || a.stride >= size)
    return 1;
  if (size % block == 0)
    return a.degree;
  return size % a.stride == 0 && block % size == 0 ? size / a.stride : 0;
}

static int64_t group_inside(const ett_ranks *r, ett_rank_group g, int64_t size) {
  if (size >= r->world)
    return g.degree;
  return inside(g.axis[0], size) * inside(g.axis[1], size);
}

/* Computes the counts by division. 0: some groups are not aligned with units. */
static int place_aligned(const ett_ranks *r, ett_rank_group g, ett_placement *p) {
  for (int k = 0; k < r->tiers.count; k++) {
    int64_t size = below(&r->tiers, k), card = r->tiers.card[k];
    int64_t whole = group_inside(r, g, r->tiers.size[k]);
    int64_t members = group_inside(r, g, size), on_card = group_inside(r, g, card);
    if (whole == 0 || members == 0 || on_card == 0)
      return 0;
    p->tier[k] = (ett_placement_tier){.units = (int32_t)(g.degree / whole),
                                      .inside = (int32_t)members,
                                      .branches = (int32_t)(whole / members)};
    if (members == g.degree)
      continue;
    p->tier[k].members = p->tier[k].most = (int32_t)members;
    p->tier[k].groups = (int32_t)(size / members);
    p->tier[k].cards = (int32_t)(members / on_card);
    p->tier[k].sharing = (int32_t)(card / on_card);
  }
  return 1;
}

typedef struct slice {
  int64_t now[ETT_TORUS_MOST], best[ETT_TORUS_MOST], least; /* sum of the best lengths */
} slice;

/* Tries all lengths of axes from `axis` on for `left` devices, long first axes first. */
static void try_lengths(const ett_tiers *t, int axis, int64_t left, int64_t sum,
                        slice *s) {
  if (sum >= s->least)
    return;
  if (axis == t->axes) {
    if (left == 1) {
      memcpy(s->best, s->now, sizeof s->best);
      s->least = sum;
    }
    return;
  }
  for (int64_t n = left < t->axis[axis] ? left : t->axis[axis]; n >= 1; n--) {
    s->now[axis] = n;
    if (left % n == 0)
      try_lengths(t, axis + 1, left / n, sum + n, s);
  }
}

/* The lengths of the axes that `world` devices use: those of the torus, or of the slice
 * of this number of devices with the least sum of lengths, if there is one. */
static slice slice_of(const ett_tiers *t, int64_t world) {
  slice s = {.least = INT64_MAX};
  memcpy(s.best, t->axis, sizeof s.best);
  if (world < t->size[0])
    try_lengths(t, 0, world, 0, &s);
  return s;
}

static int nests(int64_t a, int64_t b) {
  return a % b == 0 || b % a == 0;
}

/* Sets the box of an aligned group on the innermost tier's torus. 0: some groups do not
 * fill their box. */
static int place_on_torus(const ett_ranks *r, ett_rank_group g, const slice *s,
                          ett_placement_tier *t) {
  int64_t at = 1, found = 1; /* devices of the axes before; ranks on them */
  for (int j = 0; j < r->tiers.axes; j++) {
    int64_t end = at * s->best[j], along = 1, last = at;
    for (int i = 0; i < 2; i++) {
      int64_t low = g.axis[i].stride, high = g.axis[i].degree * low;
      if (g.axis[i].degree == 1)
        continue;
      if (!nests(low, end) || !nests(high, end))
        return 0;
      low = low > at ? low : at;
      high = high < end ? high : end;
      if (low >= high)
        continue;
      along *= high / low;
      last = high > last ? high : last;
    }
    if (last % (at * along) != 0)
      return 0;
    t->along[j] = (int32_t)along;
    t->apart[j] = (int32_t)(last / at / along);
    found *= along;
    at = end;
  }
  t->placed = (int32_t)found;
  return found == group_inside(r, g, r->tiers.size[0]);
}

/* Replaces the tier's box by that of `n` devices of one unit, if it is worse: if it has
 * fewer ranks per position, or equally many and is longer. */
static void worse_box(const ett_ranks *r, const slice *s, const int64_t *devices,
                      int64_t n, ett_placement_tier *t) {
  ett_placement_tier own = {.placed = (int32_t)n};
  double positions = 1, before = 1;
  int64_t at = 1, length = 0, length_before = 0;
  for (int j = 0; j < r->tiers.axes; j++) {
    uint64_t taken[ETT_AXIS_MOST / 64 + 1];
    memset(taken, 0, (size_t)(s->best[j] / 64 + 1) * sizeof *taken);
    int64_t first = s->best[j], last = 0, gap = 0, previous = -1;
    for (int64_t i = 0; i < n; i++) {
      int64_t x = devices[i] % r->tiers.size[0] / at % s->best[j];
      taken[x / 64] |= (uint64_t)1 << x % 64;
      first = x < first ? x : first;
      last = x > last ? x : last;
    }
    for (int64_t x = first; x <= last; x++) {
      if (!(taken[x / 64] >> x % 64 & 1))
        continue;
      if (previous >= 0 && (gap == 0 || x - previous < gap))
        gap = x - previous;
      previous = x;
    }
    own.apart[j] = gap > 0 ? (int32_t)gap : 1;
    own.along[j] = (int32_t)((last - first) / own.apart[j] + 1);
    positions *= own.along[j];
    before *= t->along[j];
    length += last - first;
    length_before += (int64_t)(t->along[j] - 1) * t->apart[j];
    at *= s->best[j];
  }
  double worse = positions * t->placed - before * (double)n;
  if (t->placed > 0 && (worse < 0 || (worse == 0 && length <= length_before)))
    return;
  t->placed = own.placed;
  memcpy(t->along, own.along, sizeof t->along);
  memcpy(t->apart, own.apart, sizeof t->apart);
}

static int64_t common_multiple(int64_t a, int64_t b, int64_t most) {
  int64_t x = a, y = b;
  while (y != 0) {
    int64_t rest = x % y;
    x = y;
    y = rest;
  }
  int64_t times = b / x;
  return times > most / a ? most : a * times;
}

/* Blocks of `block` ranks are placed alike after this number of ranks. */
static int64_t period(const ett_ranks *r, int64_t block) {
  int64_t largest = 1;
  for (int k = 0; k < r->tiers.count; k++)
    if (r->tiers.size[k] < r->world)
      largest = r->tiers.size[k];
  if (r->map || block >= r->world || (r->tiers.axes > 0 && largest == 1))
    return r->world; /* on one torus, each group may have another box */
  return common_multiple(block, largest, r->world);
}

/* Scratch for counting rank by rank: the devices of a group; for each tier, the number of
 * groups that leave each lower unit and that use each card. */
typedef struct counts {
  int64_t *devices;
  int32_t *units[ETT_TIERS_MOST], *cards[ETT_TIERS_MOST];
  slice slice;
  void *memory;
} counts;

static int counts_new(counts *c, const ett_ranks *r, int64_t degree, int64_t devices,
                      ett_err *err) {
  if (devices > ETT_RANKS_MOST) {
    ett_err_set(
        err, ETT_ERR_LIMIT,
        "groups that do not align with nodes cannot be placed among %lld ranks: at most "
        "%lld; choose degrees that divide the devices of a node",
        (long long)devices, (long long)ETT_RANKS_MOST);
    return -1;
  }
  size_t total = 0;
  for (int k = 0; k < r->tiers.count; k++)
    total += (size_t)(devices / below(&r->tiers, k) + devices / r->tiers.card[k]) + 2;
  c->memory = calloc(1, (size_t)degree * sizeof *c->devices + total * sizeof(int32_t));
  if (!c->memory) {
    ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to place %lld ranks",
                (long long)devices);
    return -1;
  }
  c->slice = slice_of(&r->tiers, r->world);
  c->devices = c->memory;
  int32_t *at = (int32_t *)(c->devices + degree);
  for (int k = 0; k < r->tiers.count; k++) {
    c->units[k] = at;
    at += devices / below(&r->tiers, k) + 1;
    c->cards[k] = at;
    at += devices / r->tiers.card[k] + 1;
  }
  return 0;
}

static int ascending(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Number of runs of equal devices[i] / size; *fewest, *most: length of the shortest and
 * the longest run. */
static int32_t runs(const int64_t *devices, int64_t n, int64_t size, int32_t *fewest,
                    int32_t *most) {
  int32_t count = 0, length = 0;
  *fewest = INT32_MAX;
  *most = 0;
  for (int64_t i = 0; i < n; i++) {
    length++;
    if (i + 1 < n && devices[i + 1] / size == devices[i] / size)
      continue;
    count++;
    *fewest = length < *fewest ? length : *fewest;
    *most = length > *most ? length : *most;
    length = 0;
  }
  return count;
}

static void less(int32_t *to, int32_t value) {
  if (*to == 0 || value < *to)
    *to = value;
}

static void more(int32_t *to, int32_t value) {
  if (value > *to)
    *to = value;
}

/* Adds the group in c->devices, ascending, to the counts of tier k. */
static void count_tier(const ett_ranks *r, const counts *c, int64_t n, int k,
                       ett_placement_tier *tier) {
  int64_t size = below(&r->tiers, k), card = r->tiers.card[k], whole = r->tiers.size[k];
  int32_t fewest, most;
  more(&tier->units, runs(c->devices, n, whole, &fewest, &most));
  int32_t lower = runs(c->devices, n, size, &fewest, &most);
  more(&tier->inside, most);
  more(&tier->branches, 1);
  if (lower == 1)
    return;
  less(&tier->members, fewest);
  more(&tier->most, most);
  int32_t cards = 0, branches = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t device = c->devices[i];
    int last_of_unit = i + 1 == n || c->devices[i + 1] / size != device / size;
    int last_of_card = i + 1 == n || c->devices[i + 1] / card != device / card;
    if (last_of_card) {
      cards++;
      more(&tier->sharing, ++c->cards[k][device / card]);
    }
    if (last_of_unit) {
      more(&tier->groups, ++c->units[k][device / size]);
      less(&tier->cards, cards);
      cards = 0;
      more(&tier->branches, ++branches);
    }
    if (i + 1 < n && c->devices[i + 1] / whole != device / whole)
      branches = 0;
  }
}

/* Appends the devices of the group whose first rank is `first`. Returns their number. */
static int64_t append_group(const ett_ranks *r, ett_rank_group g, int64_t first,
                            int64_t *devices) {
  ett_axis a = g.axis[0], b = g.axis[1];
  int64_t n = 0;
  for (int64_t j = 0; j < b.degree; j++)
    for (int64_t i = 0; i < a.degree; i++) {
      int64_t rank = first + j * b.stride + i * a.stride;
      devices[n++] = r->map ? r->map[rank] : rank;
    }
  return n;
}

/* Whether a rank has index 0 on the axes of the group. */
static int starts(ett_rank_group g, int64_t rank) {
  ett_axis a = g.axis[0], b = g.axis[1];
  return (a.degree == 1 || rank / a.stride % a.degree == 0) &&
         (b.degree == 1 || rank / b.stride % b.degree == 0);
}

static void count_group(const ett_ranks *r, counts *c, int64_t n, int sorted,
                        ett_placement *p) {
  if (!sorted)
    qsort(c->devices, (size_t)n, sizeof *c->devices, ascending);
  for (int k = 0; k < r->tiers.count; k++)
    count_tier(r, c, n, k, &p->tier[k]);
  for (int64_t i = 0, part = 0; r->tiers.axes > 0 && i < n; i++) {
    int64_t unit = c->devices[i] / r->tiers.size[0];
    if (i + 1 < n && c->devices[i + 1] / r->tiers.size[0] == unit)
      continue;
    worse_box(r, &c->slice, c->devices + part, i + 1 - part, &p->tier[0]);
    part = i + 1;
  }
}

/* Ranks from one block of the group to the next. */
static int64_t block_of(ett_rank_group g) {
  ett_axis outer = g.axis[g.axis[1].degree > 1];
  return outer.degree * outer.stride;
}

int ett_place_group(const ett_ranks *r, ett_rank_group g, ett_placement *p,
                    ett_err *err) {
  *p = (ett_placement){
      .ranks = (int32_t)g.degree, .tiers = r->tiers.count, .node = r->tiers.node};
  const slice s = slice_of(&r->tiers, r->world);
  const int32_t part = r->tiers.axes > 0 && r->world < r->tiers.size[0];
  if (!r->map && place_aligned(r, g, p) &&
      (r->tiers.axes == 0 || place_on_torus(r, g, &s, &p->tier[0]))) {
    p->tier[0].slice = part;
    return 0;
  }
  memset(p->tier, 0, sizeof p->tier);
  p->tier[0].slice = part;
  int64_t devices = period(r, block_of(g));
  counts c;
  if (counts_new(&c, r, g.degree, devices, err) != 0)
    return -1;
  for (int64_t first = 0; first < devices; first++)
    if (starts(g, first))
      count_group(r, &c, append_group(r, g, first, c.devices), !r->map, p);
  free(c.memory);
  return 0;
}

/* Adds the copies on other stages to the placement of a group of one stage. 0: stages do
 * not fill whole units, so the copies must be counted. */
static int add_aligned(const ett_ranks *r, ett_rank_group g, const ett_copies *copies,
                       ett_placement *p) {
  for (int k = 0; k < r->tiers.count; k++)
    if ((r->tiers.size[k] < r->world &&
         copies->pipeline.stride % r->tiers.size[k] != 0) ||
        group_inside(r, g, r->tiers.card[k]) == 0)
      return 0;
  for (int k = 0; k < r->tiers.count; k++) {
    ett_placement_tier *t = &p->tier[k];
    int64_t size = below(&r->tiers, k), on_card = group_inside(r, g, r->tiers.card[k]);
    if (r->tiers.size[k] < r->world)
      t->units *= copies->ways;
    else if (size < r->world)
      t->branches *= copies->ways;
    if (size >= r->world || t->groups > 0)
      continue;
    t->members = t->most = p->ranks;
    t->groups = (int32_t)(size / p->ranks);
    t->cards = (int32_t)(p->ranks / on_card);
    t->sharing = (int32_t)(r->tiers.card[k] / on_card);
  }
  p->ranks *= copies->ways;
  return 1;
}

int ett_place_copies(const ett_ranks *r, ett_rank_group g, const ett_copies *copies,
                     ett_placement *p, ett_err *err) {
  if (ett_place_group(r, g, p, err) != 0)
    return -1;
  /* Copies on one torus have a box of their own. */
  int one_torus = r->tiers.axes > 0 && r->tiers.size[0] >= r->world;
  if (!r->map && !one_torus && add_aligned(r, g, copies, p))
    return 0;
  *p = (ett_placement){.ranks = (int32_t)g.degree * copies->ways,
                       .tiers = r->tiers.count,
                       .node = r->tiers.node,
                       .tier[0].slice = p->tier[0].slice};
  ett_axis pipeline = copies->pipeline;
  int64_t stages = pipeline.degree * pipeline.stride;
  int64_t block = block_of(g) > stages ? block_of(g) : stages;
  int64_t devices = period(r, block);
  counts c;
  if (counts_new(&c, r, p->ranks, devices, err) != 0)
    return -1;
  for (int64_t first = 0; first < devices; first++)
    for (int s = 0; s < copies->sets && starts(g, first) &&
                    first / pipeline.stride % pipeline.degree == 0;
         s++) {
      int64_t n = 0;
      for (int w = 0; w < copies->ways; w++) {
        int64_t stage = copies->stage[(size_t)s * (size_t)copies->ways + (size_t)w];
        n += append_group(r, g, first + stage * pipeline.stride, c.devices + n);
      }
      count_group(r, &c, n, 0, p);
    }
  free(c.memory);
  return 0;
}

/* Whether some rank at `from` and its partner `delta` further are in different blocks. */
static int crosses(const ett_ranks *r, ett_axis a, int64_t from, int64_t delta,
                   int64_t size) {
  int64_t block = a.degree * a.stride;
  if (size >= r->world)
    return 0;
  if (r->map) {
    for (int64_t start = from * a.stride; start < r->world; start += block)
      for (int64_t rank = start; rank < start + a.stride; rank++)
        if (r->map[rank] / size != r->map[rank + delta] / size)
          return 1;
    return 0;
  }
  if (size % block == 0)
    return 0;
  if (delta >= size)
    return 1;
  int64_t end = common_multiple(block, size, r->world);
  for (int64_t start = from * a.stride; start < end; start += block)
    if (start % size + a.stride - 1 >= size - delta)
      return 1;
  return 0;
}

/* How many of the first `count` ranks are last on their axis. */
static int64_t last_of(ett_axis a, int64_t count) {
  int64_t block = a.degree * a.stride, rest = count % block - (block - a.stride);
  return count / block * a.stride + (rest > 0 ? rest : 0);
}

/* Counts the ranks whose next neighbour is outside their unit, for a unit and for a card,
 * if ranks are numbered as devices. */
static void count_leaving_in_order(ett_axis a, int64_t devices, int64_t size,
                                   int64_t card, ett_placement_tier *tier) {
  for (int64_t unit = 0; unit < devices; unit += size) {
    int64_t end = unit + size < devices ? unit + size : devices;
    int64_t first = a.stride < size ? unit + size - a.stride : unit;
    if (first >= end)
      continue;
    more(&tier->groups, (int32_t)(end - first - (last_of(a, end) - last_of(a, first))));
    for (int64_t at = first; at < end && tier->sharing < card;) {
      int64_t next = at / card * card + card < end ? at / card * card + card : end;
      more(&tier->sharing, (int32_t)(next - at - (last_of(a, next) - last_of(a, at))));
      at = next;
    }
  }
}

/* Counts the ranks whose next neighbour is outside their unit, for a unit and for a card.
 */
static int count_leaving(const ett_ranks *r, ett_axis a, int k, ett_placement_tier *tier,
                         ett_err *err) {
  int64_t size = below(&r->tiers, k), card = r->tiers.card[k];
  int64_t block = a.degree * a.stride;
  int aligned = size % a.stride == 0 ? block % size == 0 : a.stride % size == 0;
  if (!r->map && aligned && (card % a.stride == 0 || a.stride % card == 0)) {
    int64_t leaving = a.stride < size ? a.stride : size;
    tier->groups = (int32_t)leaving;
    tier->sharing = (int32_t)(leaving < card ? leaving : card);
    return 0;
  }
  int64_t devices = period(r, block);
  if (!r->map) {
    count_leaving_in_order(a, devices, size, card, tier);
    return 0;
  }
  counts c;
  if (counts_new(&c, r, 1, devices, err) != 0)
    return -1;
  for (int64_t rank = 0; rank < devices; rank++) {
    if (rank / a.stride % a.degree == a.degree - 1)
      continue;
    int64_t device = r->map[rank], next = r->map[rank + a.stride];
    if (device / size == next / size)
      continue;
    more(&tier->groups, ++c.units[k][device / size]);
    more(&tier->sharing, ++c.cards[k][device / card]);
  }
  free(c.memory);
  return 0;
}

int ett_place_level(const ett_ranks *r, ett_axis a, int64_t from, int64_t to) {
  int level = 0;
  while (level < r->tiers.count &&
         crosses(r, a, from, (to - from) * a.stride, r->tiers.size[level]))
    level++;
  return level;
}

int ett_place_pairs(const ett_ranks *r, ett_axis a, int level, ett_placement *p,
                    ett_err *err) {
  *p = (ett_placement){.ranks = 2, .tiers = r->tiers.count, .node = r->tiers.node};
  for (int k = 0; k < r->tiers.count; k++) {
    p->tier[k].units = k < level ? 2 : 1;
    p->tier[k].branches = k == level ? 2 : 1;
    p->tier[k].inside = k <= level ? 1 : 2;
    if (k > level)
      continue;
    p->tier[k].members = p->tier[k].most = p->tier[k].cards = 1;
    if (k > 0 && count_leaving(r, a, k, &p->tier[k], err) != 0)
      return -1;
    if (p->tier[k].groups == 0) /* the pair leaves a device, or only the first and the
                                   last stage are in different units */
      p->tier[k].groups = p->tier[k].sharing = 1;
  }
  return 0;
}

int ett_tiers_lanes(const ett_tiers *t) {
  return t->rates[0].card > 0 ? t->count : 2;
}

int ett_tiers_lane(const ett_tiers *t, int tier) {
  return t->rates[0].card > 0 ? tier : tier > t->node;
}

/* The number of ranks outside a lower unit of tier k with which each of its ranks
 * exchanges. If outer tiers have separate links, only ranks inside the tier count. */
static double peers_of(const ett_tiers *t, const ett_placement *p, int k) {
  int inner = k + 1 < p->tiers && !t->rates[k].through;
  return (inner ? p->tier[k + 1].inside : p->ranks) - p->tier[k].members;
}

/* Seconds of a tier's links for one byte of a rank's buffer, up to a common factor. */
static double seconds_on(const ett_tiers *t, const ett_placement *p, int k,
                         ett_lane_use use) {
  const ett_placement_tier *own = &p->tier[k];
  const struct ett_tier_rates *of = &t->rates[k];
  double card = of->card, unit = of->unit / own->groups;
  if (use == ETT_LANES_SEND) {
    double most = of->send > card ? of->send : card;
    card = fmin(of->send, most / own->sharing);
    unit = of->unit_send / own->groups;
  } else {
    card *= (double)own->cards / own->sharing;
  }
  if (use == ETT_LANES_EXCHANGE)
    return peers_of(t, p, k) / fmin(card / own->members, unit / own->most);
  return 1 / fmin(card, unit);
}

int ett_place_lanes(const ett_tiers *t, const ett_placement *p, ett_lane_use use,
                    double *lanes) {
  int level = 0, first = 0;
  double slowest = 0;
  memset(lanes, 0, ETT_TIERS_MOST * sizeof *lanes);
  for (int k = 1; k < p->tiers; k++)
    if (p->tier[k].groups > 0)
      level = k;
  if (!(t->rates[0].card > 0)) {
    level = ett_place_nodes(p) > 1;
    lanes[level] = 1;
    return level;
  }
  if (level > t->node)
    first = t->node + 1;
  for (int k = first; k <= level; k++) {
    if (p->tier[k].groups == 0 ||
        (k < level && !t->rates[k].through && p->tier[k].branches < 2))
      continue;
    lanes[k] = seconds_on(t, p, k, use);
    slowest = lanes[k] > slowest ? lanes[k] : slowest;
  }
  for (int k = first; k <= level; k++)
    lanes[k] = slowest > 0 ? lanes[k] / slowest : k == level;
  return level;
}
