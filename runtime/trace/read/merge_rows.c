/* Rows of a trace: the parts' blocks with the trace's numbers, pairs joined, one time
 * axis. */
#include "trace/read/merge.h"

#include <stdlib.h>
#include <string.h>

#define HOUR 3600

/* Joins begin and end events of a file into complete ones: a stack per track. */
static int join_pairs(ett_merge *m, uint32_t file) {
  ett_trace *t = m->t;
  struct open {
    uint32_t row, below;
  } *stack = NULL;
  uint32_t used = 0, capacity = 0;
  uint64_t unmatched = 0;
  uint32_t *top = malloc((t->track_count ? t->track_count : 1) * sizeof *top);
  if (!top)
    return ett_merge_memory(m);
  memset(top, 0xFF, t->track_count * sizeof *top);
  for (uint32_t b = 0; b < t->block_count; b++) {
    ett_trace_block *k = &t->blocks[b];
    if (k->file != file)
      continue;
    for (uint32_t i = 0; i < k->count; i++) {
      uint32_t track = k->track[i];
      if (k->ph[i] == 'B') {
        if (used == capacity) {
          uint32_t n = capacity ? capacity * 2 : 256;
          struct open *grown = realloc(stack, n * sizeof *grown);
          if (!grown) {
            free(stack);
            free(top);
            return ett_merge_memory(m);
          }
          stack = grown;
          capacity = n;
        }
        stack[used] = (struct open){b << 16 | i, top[track]};
        top[track] = used++;
      } else if (k->ph[i] == 'E') {
        k->ph[i] |= ETT_PH_INVALID;
        if (top[track] == UINT32_MAX) {
          unmatched++;
          continue;
        }
        struct open o = stack[top[track]];
        top[track] = o.below;
        ett_trace_block *from = &t->blocks[o.row >> 16];
        uint32_t f = o.row & 0xFFFF;
        int64_t dur;
        if (__builtin_sub_overflow(k->ts[i], from->ts[f], &dur) || dur < 0) {
          unmatched++;
          continue;
        }
        from->dur[f] = dur;
        from->ph[f] = 'X';
      }
    }
  }
  for (uint32_t i = 0; i < used; i++) {
    ett_trace_block *k = &t->blocks[stack[i].row >> 16];
    if (k->ph[stack[i].row & 0xFFFF] == 'B') {
      k->ph[stack[i].row & 0xFFFF] |= ETT_PH_INVALID;
      unmatched++;
    }
  }
  free(stack);
  free(top);
  if (!unmatched)
    return 0;
  return ett_merge_warn(m, file, ett_trace_damage_name(ETT_DAMAGE_UNMATCHED_BEGIN),
                        unmatched, 0, 0, "%s",
                        ett_trace_damage_text(ETT_DAMAGE_UNMATCHED_BEGIN));
}

int ett_merge_pairs(ett_merge *m) {
  const ett_trace *t = m->t;
  for (uint32_t i = 0; i < t->file_count; i++) {
    bool pairs = false;
    for (uint32_t b = 0; b < t->block_count && !pairs; b++)
      if (t->blocks[b].file == i)
        for (uint32_t r = 0; r < t->blocks[b].count && !pairs; r++)
          pairs = t->blocks[b].ph[r] == 'B' || t->blocks[b].ph[r] == 'E';
    if (pairs && join_pairs(m, i))
      return -1;
  }
  return 0;
}

int ett_merge_zero_is_damage(const ett_merge *m, uint32_t file) {
  int64_t least = INT64_MAX;
  const ett_trace *t = m->t;
  for (uint32_t b = 0; b < t->block_count; b++)
    if (t->blocks[b].file == file)
      for (uint32_t i = 0; i < t->blocks[b].count; i++)
        if (t->blocks[b].ts[i] > 0 && t->blocks[b].ts[i] < least)
          least = t->blocks[b].ts[i];
  return least != INT64_MAX && least / t->ticks_per_second >= HOUR;
}

/* Moves the blocks and args of the parts over; maps their numbers. */
int ett_merge_rows(ett_merge *m) {
  ett_load *l = m->load;
  ett_trace *t = m->t;
  size_t blocks = 0;
  for (uint32_t i = 0; i < l->part_count; i++)
    blocks += l->parts[i].block_count;
  if (blocks > 65535)
    return ett_err_set(m->err, ETT_ERR_LIMIT, "more than %u events", 65535u * 65536u);
  t->blocks = malloc((blocks ? blocks : 1) * sizeof *t->blocks);
  t->args = calloc(t->arg_count ? t->arg_count : 1, sizeof *t->args);
  t->arg_lengths = calloc(t->arg_count ? t->arg_count : 1, sizeof *t->arg_lengths);
  t->arg_hints = calloc(t->arg_count ? t->arg_count : 1, sizeof *t->arg_hints);
  if (!t->blocks || !t->args || !t->arg_lengths || !t->arg_hints)
    return ett_merge_memory(m);
  for (uint32_t i = 0; i < l->part_count; i++) {
    ett_trace_part *p = &l->parts[i];
    const uint32_t *track = m->part_tracks[i];
    const uint32_t *string = p->lexicon ? m->string_map[p->lexicon - l->lexicons] : NULL;
    const uint16_t *cat = p->lexicon ? m->category_map[p->lexicon - l->lexicons] : NULL;
    uint32_t shift = t->block_count << 16;
    for (uint32_t b = 0; b < p->block_count; b++) {
      ett_trace_block *k = &p->blocks[b];
      for (uint32_t r = 0; r < k->count; r++) {
        uint32_t w = k->track[r] = track[k->track[r]];
        if (string)
          k->name[r] = string[k->name[r]];
        if (k->category[r] == ETT_CATEGORY_NONE)
          k->category[r] = m->line_category[w];
        else
          k->category[r] = cat[k->category[r]];
        if (m->line_device[w] >= 0) { /* XLA: the process is the device */
          if (k->device[r] < 0)
            k->device[r] = (int16_t)m->line_device[w];
          if (k->stream[r] < 0 && t->tracks[w].tid_type == ETT_ID_INTEGER)
            k->stream[r] = (int32_t)t->tracks[w].tid;
        }
      }
      t->files[p->file].event_count += k->count;
      t->event_count += k->count;
      t->blocks[t->block_count++] = *k;
    }
    p->block_count = 0;
    t->files[p->file].seen_count += p->seen;
    for (uint32_t a = 0; a < t->arg_count; a++) {
      ett_args_column *c = &p->args[a];
      if (!p->args || !c->count)
        continue;
      ett_trace_arg *grown =
          realloc(t->args[a], ((size_t)t->arg_lengths[a] + c->count) * sizeof *grown);
      if (!grown)
        return ett_merge_memory(m);
      t->args[a] = grown;
      grown += t->arg_lengths[a];
      for (uint32_t k = 0; k < c->count; k++) {
        grown[k] = c->items[k];
        grown[k].row += shift;
        if (grown[k].type == ETT_ARG_TEXT)
          grown[k].value.text = ett_merge_text(m, p->lexicon, grown[k].value.text);
      }
      t->arg_lengths[a] += c->count;
      free(c->items);
      memset(c, 0, sizeof *c);
    }
  }
  return 0;
}

/* Every file's base and the first event of all become tick 0. */
int ett_merge_times(ett_merge *m) {
  ett_trace *t = m->t;
  const int64_t per_ns = t->ticks_per_second / 1000000000;
  int64_t base = INT64_MAX;
  for (uint32_t i = 0; i < t->file_count; i++)
    if (t->files[i].event_count && t->files[i].base_ns < base)
      base = t->files[i].base_ns;
  if (base == INT64_MAX)
    base = 0;
  int64_t *shift = calloc(t->file_count ? t->file_count : 1, sizeof *shift);
  if (!shift)
    return ett_merge_memory(m);
  for (uint32_t i = 0; i < t->file_count; i++) {
    int64_t ns;
    if (!t->files[i].event_count)
      continue;
    if (__builtin_sub_overflow(t->files[i].base_ns, base, &ns) ||
        __builtin_mul_overflow(ns, per_ns, &shift[i])) {
      shift[i] = 0;
      if (ett_merge_warn(
              m, i, "clock_mismatch", 1, 0, 0,
              "its clock has another origin than the others'; its times cannot be "
              "compared with theirs")) {
        free(shift);
        return -1;
      }
    }
  }
  int64_t first = INT64_MAX;
  for (uint32_t b = 0; b < t->block_count; b++) {
    ett_trace_block *k = &t->blocks[b];
    for (uint32_t i = 0; i < k->count; i++) {
      int64_t end;
      if (k->ts[i] == 0 && m->zero_bad[k->file])
        k->ph[i] |= ETT_PH_INVALID;
      if (__builtin_add_overflow(k->ts[i], shift[k->file], &k->ts[i]) ||
          __builtin_add_overflow(k->ts[i], k->dur[i], &end))
        k->ph[i] |= ETT_PH_INVALID;
      if (!(k->ph[i] & ETT_PH_INVALID) && k->ph[i] == 'X' && k->ts[i] < first)
        first = k->ts[i];
    }
  }
  free(shift);
  if (first == INT64_MAX)
    first = 0;
  int64_t last = INT64_MIN;
  for (uint32_t b = 0; b < t->block_count; b++) {
    ett_trace_block *k = &t->blocks[b];
    for (uint32_t i = 0; i < k->count; i++) {
      int64_t end;
      if (__builtin_sub_overflow(k->ts[i], first, &k->ts[i]) ||
          __builtin_add_overflow(k->ts[i], k->dur[i], &end)) {
        k->ts[i] = 0;
        k->dur[i] = 0;
        k->ph[i] |= ETT_PH_INVALID;
        continue;
      }
      if (k->ph[i] == 'X' && end > last)
        last = end;
    }
  }
  t->start = 0;
  t->stop = last == INT64_MIN ? 0 : last;
  t->origin_ns = base + first / per_ns;
  return 0;
}
