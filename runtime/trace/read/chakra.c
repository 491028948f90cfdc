/* Chakra execution traces (.et): length-prefixed messages of et_def.proto (MLCommons),
 * first GlobalMetadata, then Nodes.
 *
 * A node is a row: computing on a device or the host, a copy, a message or a collective.
 * Chakra's own converters write durations and dependencies but no start times. Start
 * times are then computed: a node starts when its dependencies have ended and its stream
 * or thread is free (ETT_DAMAGE_NO_STARTS). */
#include <stdio.h>
#include <stdlib.h>

#include "trace/read/wire.h"
#include "trace/table/index.h"

enum { METADATA = 1, LOAD = 2, STORE = 3, COMP = 4, SEND = 5, RECV = 6, COLL = 7 };

/* Longest valid duration in microseconds. */
#define LONGEST ((uint64_t)ETT_TRACE_LONGEST_S * 1000000)

typedef struct node {
  slice message, name;
  uint64_t id, start, duration;
  uint32_t type, track;
  uint32_t waits;   /* number of unfinished dependencies */
  uint64_t ready;   /* end of the last finished dependency */
  size_t out, outs; /* dependents, in chakra.edges */
  int32_t stream;
  bool host, placed;
} node;

typedef struct chakra {
  const ett_reading *r;
  node *nodes;
  uint32_t count, capacity;
  ett_index by_id; /* the number of the first node of each id */
  uint32_t *edges;
  uint64_t tick; /* ticks per microsecond */
} chakra;

/* An attribute: an arg, with its text. */
typedef struct value {
  slice name, text;
  ett_trace_arg arg;
} value;

/* AttributeProto. Lists are not supported. */
static value attribute(slice s) {
  static const uint8_t kinds[] = {
      [3] = DOUBLE,    [5] = SINGLE,  [7] = SIGNED,  [9] = SIGNED,    [11] = UNSIGNED,
      [13] = UNSIGNED, [15] = ZIGZAG, [17] = ZIGZAG, [19] = UNSIGNED, [21] = UNSIGNED,
      [23] = SIGNED32, [25] = SIGNED, [27] = SIGNED, [29] = TEXT};
  value v = {.name = s, .text = s, .arg.type = ETT_ARG_NONE};
  v.name.end = s.at;
  field f;
  while (next(&s, &f) > 0) {
    if (f.number == 1 && f.wire == 2)
      v.name = f.bytes;
    take_value(&f, kinds, sizeof kinds, &v.arg, &v.text);
  }
  return v;
}

/* Reads one message: a node, or something else. -1 if memory runs out. */
static int take_message(chakra *x, slice message) {
  node n = {.message = message, .stream = -1};
  n.name = (slice){message.at, message.at};
  slice s = message, attributes = message;
  field f;
  bool cpu = false;
  uint64_t id = ABSENT, type = ABSENT, duration = ABSENT;
  int64_t thread = 0, stream = -1;
  if (READ_WANTED(&s, {1, 0, &id}, {2, 2, &n.name}, {3, 0, &type}, {6, 0, &n.start},
                  {7, 0, &duration})) {
    ett_reading_damage(x->r, ETT_DAMAGE_BAD_MESSAGE, s.at);
    return 0;
  }
  if ((id == ABSENT && type == ABSENT && duration == ABSENT) || type == METADATA)
    return 0;
  n.id = id == ABSENT ? 0 : id;
  n.duration = duration == ABSENT ? 0 : duration;
  n.type = type == ABSENT ? 0 : type > 99 ? 99 : (uint32_t)type;
  while (next(&attributes, &f) > 0) {
    if (f.number != 10 || f.wire != 2)
      continue;
    value v = attribute(f.bytes);
    if (v.arg.type != ETT_ARG_INTEGER)
      continue;
    if (slice_is(v.name, "is_cpu_op"))
      cpu = v.arg.value.integer != 0;
    if (slice_is(v.name, "tid"))
      thread = v.arg.value.integer;
    if (slice_is(v.name, "stream") && v.arg.value.integer >= 0 &&
        v.arg.value.integer <= INT32_MAX)
      stream = v.arg.value.integer;
  }
  x->r->part->seen++;
  n.host = (n.type == COMP && cpu) || n.type < LOAD || n.type > COLL;
  if (!n.host)
    n.stream = stream >= 0 ? (int32_t)stream : n.type >= SEND ? 1 : 0;
  n.track = ett_part_track(x->r->part, n.host, ETT_ID_INTEGER,
                           n.host ? thread : (int64_t)n.stream, ETT_ID_INTEGER);
  if (n.track == ETT_TRACE_NONE ||
      ett_grow(&x->nodes, x->count, &x->capacity, 256, sizeof *x->nodes))
    return -1;
  x->nodes[x->count++] = n;
  return 0;
}

/* Counts a dependency of node i; stores it once the edges are allocated. */
static void depend(chakra *x, uint32_t i, uint64_t id) {
  const uint32_t *found = ett_index_find(&x->by_id, &id, sizeof id, sizeof *found);
  if (!found || *found == i)
    return;
  const uint32_t on = *found;
  if (x->edges)
    x->edges[x->nodes[on].out + x->nodes[on].outs] = i;
  else
    x->nodes[i].waits++;
  x->nodes[on].outs++;
}

static void dependencies(chakra *x) {
  for (uint32_t i = 0; i < x->count; i++) {
    slice s = x->nodes[i].message;
    field f;
    uint64_t id;
    while (next(&s, &f) > 0) {
      if (f.number != 4 && f.number != 5)
        continue;
      if (f.wire == 0)
        depend(x, i, f.value);
      while (f.wire == 2 && varint(&f.bytes, &id))
        depend(x, i, id);
    }
  }
}

/* The nodes that may start, the earliest on top. */
typedef struct queue {
  uint32_t *items, count;
  const node *nodes;
} queue;

static bool before(const queue *q, uint32_t a, uint32_t b) {
  const node *x = &q->nodes[a], *y = &q->nodes[b];
  return x->ready != y->ready ? x->ready < y->ready : a < b;
}

static void push(queue *q, uint32_t item) {
  uint32_t at = q->count++;
  for (; at && before(q, item, q->items[(at - 1) / 2]); at = (at - 1) / 2)
    q->items[at] = q->items[(at - 1) / 2];
  q->items[at] = item;
}

static uint32_t pop(queue *q) {
  uint32_t top = q->items[0], last = q->items[--q->count], at = 0;
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= q->count)
      break;
    if (child + 1 < q->count && before(q, q->items[child + 1], q->items[child]))
      child++;
    if (!before(q, q->items[child], last))
      break;
    q->items[at] = q->items[child];
    at = child;
  }
  q->items[at] = last;
  return top;
}

/* Computes all start times. Nodes of a cycle start after all others. */
static void start_all(chakra *x, queue *q, uint64_t *free_at) {
  uint64_t last = 0;
  uint32_t left = x->count, rest = 0;
  for (uint32_t i = 0; i < x->count; i++)
    if (x->nodes[i].waits == 0)
      push(q, i);
  for (; left; left--) {
    uint32_t i;
    if (q->count) {
      i = pop(q);
    } else {
      while (x->nodes[rest].placed)
        rest++;
      i = rest;
      ett_reading_damage(x->r, ETT_DAMAGE_BAD_MESSAGE, x->nodes[i].message.at);
      if (x->nodes[i].ready < last)
        x->nodes[i].ready = last;
    }
    node *n = &x->nodes[i];
    uint64_t *lane = &free_at[n->track];
    n->placed = true;
    n->start = n->ready > *lane ? n->ready : *lane;
    uint64_t stop;
    if (n->duration > LONGEST || __builtin_add_overflow(n->start, n->duration, &stop))
      stop = n->start;
    *lane = stop;
    if (stop > last)
      last = stop;
    for (size_t e = 0; e < n->outs; e++) {
      node *then = &x->nodes[x->edges[n->out + e]];
      if (then->ready < stop)
        then->ready = stop;
      if (--then->waits == 0 && !then->placed)
        push(q, x->edges[n->out + e]);
    }
  }
}

static int place(chakra *x) {
  queue q = {.nodes = x->nodes};
  uint64_t *free_at = calloc(x->r->part->track_count + 1, sizeof *free_at);
  q.items = malloc((x->count + 1) * sizeof *q.items);
  int status = -1;
  if (!free_at || !q.items)
    goto done;
  for (uint32_t i = 0; i < x->count; i++) {
    int fresh;
    uint32_t *item = ett_index_put(&x->by_id, &x->nodes[i].id, sizeof x->nodes[i].id,
                                   sizeof *item, &fresh);
    if (!item)
      goto done;
    if (fresh)
      *item = i;
  }
  dependencies(x);
  size_t edges = 0;
  for (uint32_t i = 0; i < x->count; i++) {
    x->nodes[i].out = edges;
    edges += x->nodes[i].outs;
    x->nodes[i].outs = 0;
  }
  x->edges = malloc((edges + 1) * sizeof *x->edges);
  if (!x->edges)
    goto done;
  dependencies(x);
  start_all(x, &q, free_at);
  status = 0;
done:
  free(free_at);
  free(q.items);
  return status;
}

/* Stores a text under an arg's name if it was requested; -1 if memory runs out. */
static int keep_text(const chakra *x, const char *name, slice text) {
  const ett_trace_arg arg = {.type = ETT_ARG_TEXT};
  return ett_reading_arg(x->r, slice_of(name), arg, text);
}

/* Names of CollectiveCommType. */
static const char *const collectives[] = {
    "all_reduce", "reduce",     "all_gather",     "gather",         "scatter",
    "broadcast",  "all_to_all", "reduce_scatter", "reduce_scatter", "barrier"};

/* The communication of a node: a name of collectives, "send", "recv"; NULL for others. */
static const char *communicates(const node *n) {
  if (n->type == SEND || n->type == RECV)
    return n->type == SEND ? "send" : "recv";
  if (n->type != COLL)
    return NULL;
  slice s = n->message;
  field f;
  while (next(&s, &f) > 0) {
    if (f.number != 10 || f.wire != 2)
      continue;
    value v = attribute(f.bytes);
    if (v.arg.type == ETT_ARG_INTEGER && slice_is(v.name, "comm_type") &&
        v.arg.value.integer >= 0 &&
        v.arg.value.integer < (int64_t)(sizeof collectives / sizeof *collectives))
      return collectives[v.arg.value.integer];
  }
  return "collective";
}

/* Stores attributes under the names of the corresponding PyTorch args. */
static int take_args(chakra *x, const node *n, const char *what) {
  static const char *const said[][2] = {{"comm_size", "In msg nelems"},
                                        {"pg_name", "Process Group Name"},
                                        {"comm_src", "Src Rank"},
                                        {"comm_dst", "Dst Rank"}};
  slice s = n->message;
  field f, g;
  if (what && (keep_text(x, "Collective name", slice_of(what)) ||
               keep_text(x, "dtype", slice_of("Byte")))) /* comm_size counts bytes */
    return -1;
  while (next(&s, &f) > 0) {
    slice inner = f.bytes;
    while (f.number == 8 && f.wire == 2 && next(&inner, &g) > 0)
      if (g.number == 2 && g.wire == 2 && keep_text(x, "Input Dims", g.bytes))
        return -1;
    if (f.number != 10 || f.wire != 2)
      continue;
    value v = attribute(f.bytes);
    if (ett_reading_arg(x->r, v.name, v.arg, v.text))
      return -1;
    for (size_t i = 0; what && i < sizeof said / sizeof *said; i++)
      if (slice_is(v.name, said[i][0]) &&
          ett_reading_arg(x->r, slice_of(said[i][1]), v.arg, v.text))
        return -1;
  }
  return 0;
}

/* A node's name. A message that is not a library kernel is named by its kind. */
static uint32_t name_of(chakra *x, const node *n, const char *what) {
  size_t length = (size_t)(n->name.end - n->name.at);
  if (!what || memmem(n->name.at, length, "nccl", 4) ||
      memmem(n->name.at, length, "rccl", 4))
    return ett_reading_intern(x->r, n->name);
  char *whole = NULL;
  if (asprintf(&whole, "chakra::%s %.*s", what, (int)length, n->name.at) < 0)
    return ETT_STRING_NONE;
  uint32_t id = ett_reading_intern(x->r, slice_of(whole));
  free(whole);
  return id;
}

static int take_row(chakra *x, const node *n) {
  const char *what = communicates(n);
  const char *category = n->host                               ? "cpu_op"
                         : n->type == LOAD || n->type == STORE ? "gpu_memcpy"
                                                               : "kernel";
  ett_row row = {.correlation = -1,
                 .track = n->track,
                 .stream = n->stream,
                 .device = n->host ? -1 : 0,
                 .ph = 'X'};
  row.category = ett_reading_category(x->r, slice_of(category));
  row.name = name_of(x, n, what);
  if (row.name == ETT_STRING_NONE)
    return -1;
  if (n->start > INT64_MAX / x->tick / 2)
    ett_reading_spoil(x->r, &row, ETT_DAMAGE_INTEGER_OVERFLOW, n->message.at);
  else
    row.ts = (int64_t)(n->start * x->tick);
  if (n->duration > LONGEST)
    ett_reading_spoil(x->r, &row, ETT_DAMAGE_LONG_DUR, n->message.at);
  else
    row.dur = (int64_t)(n->duration * x->tick);
  return take_args(x, n, what) || ett_part_append(x->r->part, &row) ? -1 : 0;
}

int ett_chakra_parse(const ett_reading *r) {
  chakra x = {.r = r, .tick = (uint64_t)r->ticks_per_second / 1000000};
  slice s = r->bytes;
  int result = -1;
  bool starts = false;
  uint64_t length;
  while (s.at < s.end) {
    const char *at = s.at;
    if (!varint(&s, &length) || length > (uint64_t)(s.end - s.at)) {
      ett_reading_damage(r, ETT_DAMAGE_TRUNCATED, at);
      break;
    }
    if (take_message(&x, (slice){s.at, s.at + length}))
      goto done;
    s.at += length;
  }
  for (uint32_t i = 0; i < x.count && !starts; i++)
    starts = x.nodes[i].start > 0;
  if (!starts && x.count) {
    ett_reading_damage(r, ETT_DAMAGE_NO_STARTS, r->bytes.at);
    if (place(&x))
      goto done;
  }
  result = 0;
  for (uint32_t i = 0; i < x.count && !result; i++)
    result = take_row(&x, &x.nodes[i]);
done:
  free(x.nodes);
  ett_index_free(&x.by_id);
  free(x.edges);
  return result;
}
