#include "trace/table/part.h"

#include <stdlib.h>
#include <string.h>

#include "base/large.h"

void ett_trace_free(ett_trace *t) {
  if (!t)
    return;
  ett_workers_free(t->workers);
  for (uint32_t i = 0; i < t->file_count; i++) {
    free(t->files[i].path);
    for (uint32_t k = 0; k < t->files[i].member_count; k++) {
      free(t->files[i].members[k].key);
      free(t->files[i].members[k].value);
    }
    free(t->files[i].members);
  }
  free(t->files);
  ett_blocks_unmap(t->blocks, t->block_count);
  free(t->blocks);
  if (t->strings)
    ett_strings_free(t->strings);
  free(t->strings);
  free(t->categories);
  free(t->category_class);
  free(t->tracks);
  for (uint32_t i = 0; i < t->arg_count; i++) {
    free((void *)(uintptr_t)t->arg_names[i]);
    if (t->args)
      free(t->args[i]);
  }
  free(t->arg_names);
  free(t->args);
  free(t->arg_lengths);
  free(t->arg_hints);
  for (int c = 0; t->class_rows && c < ETT_CLASS_COUNT; c++)
    free(t->class_rows[c]);
  free(t->class_rows);
  free(t->class_starts);
  for (uint32_t i = 0; i < t->warning_count; i++)
    free(t->warnings[i].message);
  free(t->warnings);
  free(t);
}

int ett_trace_arg_find(const ett_trace *t, const char *name) {
  for (uint32_t i = 0; i < t->arg_count; i++)
    if (strcmp(t->arg_names[i], name) == 0)
      return (int)i;
  return -1;
}

const ett_trace_arg *ett_trace_arg_at(const ett_trace *t, uint32_t arg, uint32_t row) {
  const ett_trace_arg *items = t->args[arg];
  uint32_t n = t->arg_lengths[arg], low = t->arg_hints[arg], high = n;
  if (low < n && items[low].row == row)
    return &items[low];
  if (low + 1 < n && items[low + 1].row == row) { /* rows are usually read in sequence */
    t->arg_hints[arg] = low + 1;
    return &items[low + 1];
  }
  if (low < n && items[low].row <= row) {
    uint32_t step = 1; /* forward from the hint: exponential search, then bisection */
    while (low + step < n && items[low + step].row <= row) {
      low += step;
      step *= 2;
    }
    if (low + step < n)
      high = low + step;
  } else {
    high = low < n ? low : n;
    low = 0;
  }
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (items[middle].row < row)
      low = middle + 1;
    else
      high = middle;
  }
  t->arg_hints[arg] = low;
  return low < n && items[low].row == row ? &items[low] : NULL;
}

typedef struct class_index {
  const ett_trace *t;
  uint32_t *rows[ETT_CLASS_COUNT]; /* NULL: not wanted */
} class_index;

static void index_block(void *context, uint32_t b) {
  const class_index *x = context;
  const ett_trace_block *k = &x->t->blocks[b];
  uint32_t used[ETT_CLASS_COUNT];
  memcpy(used, x->t->class_starts + (size_t)b * ETT_CLASS_COUNT, sizeof used);
  for (uint32_t i = 0; i < k->count; i++) {
    const uint8_t c = x->t->category_class[k->category[i]];
    if (x->rows[c])
      x->rows[c][used[c]++] = b << 16 | i;
  }
}

int ett_trace_index_classes(ett_trace *t, const uint8_t *wanted) {
  class_index x = {.t = t};
  if (!t->class_rows && !(t->class_rows = calloc(ETT_CLASS_COUNT, sizeof *t->class_rows)))
    return -1;
  int missing = 0;
  for (int c = 0; c < ETT_CLASS_COUNT; c++) {
    const size_t count = ett_trace_class_count(t, c);
    if (!wanted[c] || t->class_rows[c] || !count)
      continue;
    missing++;
    if (!(x.rows[c] = ett_large_alloc(count * sizeof *x.rows[c]))) {
      while (c--)
        free(x.rows[c]);
      return -1;
    }
  }
  if (missing)
    ett_workers_run(t->workers, t->block_count, index_block, &x, NULL);
  for (int c = 0; c < ETT_CLASS_COUNT; c++)
    if (x.rows[c])
      t->class_rows[c] = x.rows[c];
  return 0;
}
