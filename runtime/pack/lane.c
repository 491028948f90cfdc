#include "pack/lane.h"

#include <stdlib.h>
#include <string.h>

#include "pack/deflate.h"

void ett_lane_free(ett_lane *lane) {
  for (size_t i = 0; i < lane->chunk_count; i++)
    free(lane->chunks[i].text);
  free(lane->chunks);
  free(lane->overview);
  free(lane->row);
  *lane = (ett_lane){0};
}

/* Times are at most half of what 64 bits hold, so that their differences fit. */
static int is_time(int64_t t) {
  return t >= INT64_MIN / 2 && t <= INT64_MAX / 2;
}

static int check(const ett_lane_events *e, int64_t from, int64_t to, ett_err *err) {
  if (!is_time(from) || !is_time(to))
    return ett_err_set(err, ETT_ERR_ARGUMENT, "a lane ends beyond 2^62");
  for (size_t i = 0; i < e->count; i++) {
    int64_t d = e->duration[i], end;
    if (!is_time(e->start[i]) || __builtin_add_overflow(e->start[i], d, &end) ||
        !is_time(end))
      return ett_err_set(err, ETT_ERR_ARGUMENT, "event %zu of a lane ends beyond 2^62",
                         i + 1);
    if (d < 0 || e->label[i] >= e->labels)
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "event %zu of a lane has a wrong duration or label", i + 1);
    if (e->wait && (e->wait[i] < 0 || e->wait[i] > d))
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "the wait of event %zu must be 0 to its duration", i + 1);
  }
  for (size_t i = 0; i < e->labels; i++)
    if (e->kind[i] >= ETT_LANE_KINDS)
      return ett_err_set(err, ETT_ERR_ARGUMENT, "a lane has at most %d kinds",
                         ETT_LANE_KINDS);
  return 0;
}

typedef struct place {
  int64_t start, duration;
  size_t index;
} place;

static int by_place(const void *a, const void *b) {
  const place *x = a, *y = b;
  if (x->start != y->start)
    return x->start < y->start ? -1 : 1;
  if (x->duration != y->duration)
    return x->duration > y->duration ? -1 : 1;
  return x->index < y->index ? -1 : 1;
}

/* Sorts events by start; equal starts: longer events first. Arrays are in one block,
 * which the caller frees. */
static void *sort_events(ett_lane_events *out, const ett_lane_events *e) {
  size_t n = e->count;
  place *places = malloc((n + 1) * sizeof *places);
  int64_t *block = malloc((n + 1) * (3 * sizeof *block + sizeof *out->label));
  if (!places || !block) {
    free(places);
    free(block);
    return NULL;
  }
  for (size_t i = 0; i < n; i++)
    places[i] = (place){e->start[i], e->duration[i], i};
  qsort(places, n, sizeof *places, by_place);
  int64_t *start = block, *duration = start + n, *wait = duration + n;
  uint32_t *label = (uint32_t *)(void *)(wait + n);
  for (size_t i = 0; i < n; i++) {
    start[i] = places[i].start;
    duration[i] = places[i].duration;
    wait[i] = e->wait ? e->wait[places[i].index] : 0;
    label[i] = e->label[places[i].index];
  }
  free(places);
  *out = *e;
  out->start = start;
  out->duration = duration;
  out->wait = e->wait ? wait : NULL;
  out->label = label;
  return block;
}

/* Assigns each event the first row that is free at its start. */
static void lay_rows(ett_lane *lane, const ett_lane_events *e) {
  int64_t end[ETT_LANE_ROWS];
  lane->rows = 1;
  for (int r = 0; r < ETT_LANE_ROWS; r++)
    end[r] = INT64_MIN;
  for (size_t i = 0; i < e->count; i++) {
    uint32_t r = 0;
    while (r < ETT_LANE_ROWS - 1 && end[r] > e->start[i])
      r++;
    lane->row[i] = (uint8_t)r;
    end[r] = e->start[i] + e->duration[i];
    if (r >= lane->rows)
      lane->rows = r + 1;
  }
}

/* Adds the part of one event to each bin it touches; sums[row][bin][kind]. */
static void cover(float *sums, size_t kinds, uint32_t bins, double scale, double a,
                  double b, uint8_t kind) {
  double first = a * scale, last = b * scale;
  if (first < 0)
    first = 0;
  if (last > bins)
    last = bins;
  if (!(last > first))
    return;
  uint32_t i = (uint32_t)first, n = (uint32_t)last;
  for (; i <= n && i < bins; i++) {
    double low = first > i ? first : i, high = last < i + 1.0 ? last : i + 1.0;
    sums[i * kinds + kind] += (float)(high - low);
  }
}

static int make_overview(ett_lane *lane, const ett_lane_events *e, int64_t from,
                         int64_t to, uint32_t bins, ett_err *err) {
  size_t kinds = 1;
  for (size_t i = 0; i < e->labels; i++)
    if (e->kind[i] >= kinds)
      kinds = e->kind[i] + (size_t)1;
  size_t size = (size_t)lane->rows * bins * 2;
  float *sums = malloc(bins * kinds * sizeof *sums);
  uint8_t *bytes = malloc(size);
  double scale = to > from ? bins / ((double)to - (double)from) : 0;
  for (uint32_t r = 0; sums && bytes && r < lane->rows; r++) {
    memset(sums, 0, bins * kinds * sizeof *sums);
    for (size_t i = 0; i < e->count; i++) {
      double a = (double)(e->start[i] - from);
      if (lane->row[i] == r)
        cover(sums, kinds, bins, scale, a, a + (double)e->duration[i],
              e->kind[e->label[i]]);
    }
    for (uint32_t b = 0; b < bins; b++) {
      float total = 0;
      size_t best = 0;
      for (size_t k = 0; k < kinds; k++) {
        total += sums[b * kinds + k];
        if (sums[b * kinds + k] > sums[b * kinds + best])
          best = k;
      }
      float share = total >= 1 ? 255 : total * 255;
      bytes[((size_t)r * bins + b) * 2] =
          (uint8_t)(share > 0 && share < 1 ? 1 : share + 0.5F);
      bytes[((size_t)r * bins + b) * 2 + 1] = (uint8_t)best;
    }
  }
  if (sums && bytes)
    lane->overview = ett_pack_deflate(bytes, size, &lane->overview_length, err);
  else
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory for a page");
  free(bytes);
  free(sums);
  return lane->overview ? 0 : -1;
}

static uint8_t *put(uint8_t *to, uint64_t value) {
  while (value >= 128) {
    *to++ = (uint8_t)(value | 128);
    value >>= 7;
  }
  *to++ = (uint8_t)value;
  return to;
}

/* Packs the events of a chunk; scratch needs 10 bytes per number. */
static int pack_chunk(ett_lane_chunk *c, const ett_lane *lane, const ett_lane_events *e,
                      uint8_t *scratch, ett_err *err) {
  uint8_t *to = put(scratch, c->count);
  int64_t last = e->start[c->first];
  c->from = last;
  c->to = last;
  for (size_t i = c->first; i < c->first + c->count; i++) {
    to = put(to, (uint64_t)(e->start[i] - last));
    last = e->start[i];
    if (last + e->duration[i] > c->to)
      c->to = last + e->duration[i];
  }
  for (size_t i = c->first; i < c->first + c->count; i++)
    to = put(to, (uint64_t)e->duration[i]);
  for (size_t i = c->first; i < c->first + c->count; i++)
    to = put(to, e->label[i]);
  for (size_t i = c->first; lane->rows > 1 && i < c->first + c->count; i++)
    to = put(to, lane->row[i]);
  for (size_t i = c->first; e->wait && i < c->first + c->count; i++)
    to = put(to, (uint64_t)e->wait[i]);
  c->text = ett_pack_deflate(scratch, (size_t)(to - scratch), &c->length, err);
  return c->text ? 0 : -1;
}

static int make_chunks(ett_lane *lane, const ett_lane_events *e, size_t most,
                       ett_err *err) {
  size_t count = most ? (e->count + most - 1) / most : 0;
  if (!count)
    return 0;
  uint8_t *scratch = malloc((most * 5 + 1) * 10);
  lane->chunks = calloc(count, sizeof *lane->chunks);
  if (!scratch || !lane->chunks) {
    free(scratch);
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory for a page");
  }
  int status = 0;
  for (size_t i = 0; i < count && !status; i++) {
    ett_lane_chunk *c = &lane->chunks[lane->chunk_count++];
    c->first = i * most;
    c->count = e->count - c->first < most ? e->count - c->first : most;
    status = pack_chunk(c, lane, e, scratch, err);
  }
  free(scratch);
  return status;
}

int ett_lane_pack(ett_lane *out, const ett_lane_events *events, int64_t from, int64_t to,
                  uint32_t bins, size_t chunk_events, ett_err *err) {
  *out = (ett_lane){0};
  if (check(events, from, to, err))
    return -1;
  ett_lane_events sorted;
  void *block = sort_events(&sorted, events);
  out->row = malloc(events->count ? events->count : 1);
  int status = block && out->row ? 0 : -1;
  if (status) {
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory for a page");
  } else {
    lay_rows(out, &sorted);
    status = make_overview(out, &sorted, from, to, bins, err);
    if (!status)
      status = make_chunks(out, &sorted, chunk_events, err);
  }
  free(block);
  if (status)
    ett_lane_free(out);
  return status;
}
