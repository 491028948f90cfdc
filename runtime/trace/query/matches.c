#include "trace/query/matches.h"

/* Clocks may be invalid; the difference wraps without an error. */
static int64_t minus(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a - (uint64_t)b);
}

void ett_matches_fill(ett_matches *m) {
  for (size_t i = 0; i < m->count; i++)
    m->items[i] = (ett_match){INT64_MAX, INT64_MIN, INT64_MAX, INT64_MIN, 0, 0};
  for (uint32_t r = 0; r < m->ranks; r++) {
    const int64_t *starts = m->lists[r]->starts + m->first[r], clock = m->clocks[r];
    const int64_t *ends = m->lists[r]->ends + m->first[r];
    for (size_t i = 0; i < m->count; i++) {
      ett_match *x = &m->items[i];
      const int64_t start = minus(starts[i], clock), end = minus(ends[i], clock);
      if (start < x->first_start)
        x->first_start = start;
      if (start > x->last_start) {
        x->last_start = start;
        x->late = r;
      }
      if (start == x->last_start)
        x->late_highest = r;
      if (end < x->first_end)
        x->first_end = end;
      if (end > x->last_end)
        x->last_end = end;
    }
  }
}

/* Length of a set inside [from, to). *place is an interval such that all earlier ones end
 * before `from`; it only advances. */
static int64_t inside(const ett_intervals *s, size_t *place, int64_t from, int64_t to) {
  while (*place < s->count && s->items[*place].to <= from)
    ++*place;
  uint64_t sum = 0;
  for (size_t i = *place; i < s->count && s->items[i].from < to; i++) {
    const int64_t a = s->items[i].from > from ? s->items[i].from : from;
    const int64_t b = s->items[i].to < to ? s->items[i].to : to;
    if (b > a)
      sum += (uint64_t)b - (uint64_t)a;
  }
  return (int64_t)sum;
}

void ett_matches_charge(ett_charges *out, const ett_matches *m, size_t rank,
                        const ett_intervals *exposed) {
  const ett_sequence *s = m->lists[rank];
  size_t place = 0;
  for (size_t i = 0; i < m->count; i++) {
    const size_t at = m->first[rank] + i;
    const int64_t start = s->starts[at], end = s->ends[at];
    int64_t middle = minus(m->items[i].last_start, minus(0, m->clocks[rank]));
    middle = middle < start ? start : middle > end ? end : middle;
    const int64_t wait = inside(exposed, &place, start, middle);
    size_t further = place;
    const int64_t transfer = inside(exposed, &further, middle, end);
    out->waiting += wait;
    out->transfer += transfer;
    out->by_rank[m->items[i].late] += wait;
    out->waiting_of[s->sorts[at]] += wait;
    out->transfer_of[s->sorts[at]] += transfer;
    out->count_of[s->sorts[at]]++;
  }
}

int64_t ett_matches_longest(const ett_matches *m, size_t i) {
  int64_t longest = 0;
  for (size_t r = 0; r < m->ranks; r++) {
    const size_t at = m->first[r] + i;
    const int64_t dur = m->lists[r]->ends[at] - m->lists[r]->starts[at];
    longest = dur > longest ? dur : longest;
  }
  return longest;
}
