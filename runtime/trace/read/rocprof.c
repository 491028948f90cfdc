/* JSON of rocprofv3 (--output-format json): an array "rocprofiler-sdk-tool" with a
 * process each. Source of the fields: "JSON output schema" of the manual
 * (ROCm/rocprofiler-sdk, source/docs/how-to/using-rocprofv3.rst).
 *
 * Read are the arrays of "buffer_records" whose records have start_timestamp and
 * end_timestamp (ns): the array's name is the category. A dispatch has the name of its
 * kernel, other records that of their operation in "strings", a marker its message. A
 * device's number is its place among the agents that are GPUs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "trace/read/json/json_scan.h"
#include "trace/read/load.h"

/* A value's text, or a string between its quotes. */
typedef struct text {
  const char *at, *end;
  bool escaped;
} text;

/* Iterates over the members of an object or the items of an array. */
typedef struct walk {
  const char *at, *end;
  bool begun, damaged;
} walk;

/* An id with a text (a kernel's name, a marker's message) or with a device's number. */
typedef struct named {
  uint64_t id;
  text name;
  int16_t device;
} named;

typedef struct table {
  named *items;
  uint32_t count, capacity;
} table;

typedef struct rocprof {
  ett_trace_part *part;
  const char *start;
  const char *const *args;
  uint32_t arg_count;
  int64_t base_ns, tick, pid;
  table devices, kernels, markers;
  table operations; /* id: kind << 32 | operation */
  char *scratch;
  size_t scratch_size;
  const char *cut; /* end of the document's valid structure, or NULL */
} rocprof;

/* The fields of a record. */
typedef struct record {
  uint64_t kind, operation, thread, correlation, start, stop, kernel, stream, queue;
  uint64_t from, to; /* agents */
  bool has_start, has_stop, has_stream, has_queue, has_correlation, has_kernel;
} record;

static const char *space(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
    p++;
  return p;
}

/* The position after the string whose opening quote is p; NULL if it does not end. */
static const char *behind_string(const char *p, const char *end, text *out) {
  *out = (text){.at = ++p};
  for (; p < end && *p != '"'; p++)
    if (*p == '\\') {
      out->escaped = true;
      if (++p >= end)
        return NULL;
    }
  if (p >= end)
    return NULL;
  out->end = p;
  return p + 1;
}

/* The position after the value at p; NULL if it does not end. */
static const char *behind_value(const char *p, const char *end) {
  size_t depth = 0;
  text ignored;
  do {
    p = space(p, end);
    if (p >= end)
      return NULL;
    if (*p == '"') {
      p = behind_string(p, end, &ignored);
      if (!p)
        return NULL;
    } else if (*p == '{' || *p == '[') {
      depth++;
      p++;
    } else if (*p == '}' || *p == ']') {
      if (depth-- == 0)
        return NULL;
      p++;
    } else if (*p == ',' || *p == ':') {
      if (depth == 0)
        return NULL;
      p++;
    } else {
      while (p < end && (*p == '\0' || !strchr(",:]}{[\" \n\r\t", *p)))
        p++;
    }
  } while (depth);
  return p;
}

static walk inside(text value) {
  return (walk){value.at, value.end, false, false};
}

/* The next member (key not NULL) or item; false at the end, or with damaged set. */
static bool next(walk *w, text *key, text *value) {
  const char *p = space(w->at, w->end);
  const char open = key ? '{' : '[', close = key ? '}' : ']';
  if (p >= w->end || (!w->begun && *p != open))
    goto damaged;
  if (w->begun && *p == close)
    return false;
  if (w->begun && *p != ',')
    goto damaged;
  p = space(p + 1, w->end);
  if (p < w->end && !w->begun && *p == close)
    return false;
  w->begun = true;
  if (key) {
    if (p >= w->end || *p != '"' || !(p = behind_string(p, w->end, key)))
      goto damaged;
    p = space(p, w->end);
    if (p >= w->end || *p++ != ':')
      goto damaged;
  }
  value->at = space(p, w->end);
  value->end = behind_value(value->at, w->end);
  value->escaped = false;
  if (!value->end) {
    value->end = w->end; /* the available part can still be read */
    w->damaged = true;
  }
  w->at = value->end;
  return true;
damaged:
  w->damaged = true;
  return false;
}

static bool is(text t, const char *name) {
  size_t n = strlen(name);
  return (size_t)(t.end - t.at) == n && memcmp(t.at, name, n) == 0;
}

/* An unsigned 64-bit integer; false for other values. */
static bool natural(text t, uint64_t *value) {
  uint64_t v = 0;
  const char *p = t.at;
  for (; p < t.end && *p >= '0' && *p <= '9'; p++)
    if (__builtin_mul_overflow(v, 10u, &v) ||
        __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
      return false;
  if (p == t.at || p < t.end)
    return false;
  *value = v;
  return true;
}

/* The number in a member of an object, as in {"handle": 3}. */
static bool number_in(text object, const char *name, uint64_t *value) {
  walk w = inside(object);
  text key, v;
  while (next(&w, &key, &v))
    if (is(key, name))
      return natural(v, value);
  return false;
}

/* The text of a string value; false for other values. */
static bool string_of(text value, text *out) {
  text inner;
  if (value.at >= value.end || *value.at != '"' ||
      !behind_string(value.at, value.end, &inner))
    return false;
  *out = inner;
  return true;
}

static void damaged(rocprof *x, ett_trace_damage kind, const char *at) {
  ett_part_damage(x->part, kind, (uint64_t)(at - x->start));
}

static int put(table *t, named item) {
  if (ett_grow(&t->items, t->count, &t->capacity, 64, sizeof *t->items))
    return -1;
  t->items[t->count++] = item;
  return 0;
}

static int by_id(const void *a, const void *b) {
  const named *x = a, *y = b;
  if (x->id != y->id)
    return x->id < y->id ? -1 : 1;
  return x->name.at < y->name.at ? -1 : x->name.at > y->name.at;
}

static const named *find(const table *t, uint64_t id) {
  uint32_t low = 0, high = t->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (t->items[middle].id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low < t->count && t->items[low].id == id ? &t->items[low] : NULL;
}

static uint32_t intern(rocprof *x, text t) {
  size_t length = (size_t)(t.end - t.at);
  const char *bytes = t.at;
  int bad = 0;
  if (t.escaped) {
    if (x->scratch_size < length) {
      char *grown = realloc(x->scratch, length * 2);
      if (!grown)
        return ETT_STRING_NONE;
      x->scratch = grown;
      x->scratch_size = length * 2;
    }
    length = ett_json_unescape(bytes, length, x->scratch, &bad);
    bytes = x->scratch;
  }
  if (bad)
    damaged(x, ETT_DAMAGE_BAD_STRING, t.at);
  return ett_part_intern(x->part, bytes, length, (uint64_t)(t.at - x->start));
}

/* GPUs in the order of the agents: agents are {"id": {"handle"}, "type": 2 for a GPU}. */
static int take_agents(rocprof *x, text value) {
  walk w = inside(value);
  text agent, key, v;
  int16_t gpus = 0;
  while (next(&w, NULL, &agent)) {
    walk members = inside(agent);
    uint64_t handle = 0, type = 0;
    bool known = false;
    while (next(&members, &key, &v)) {
      if (is(key, "id"))
        known = number_in(v, "handle", &handle);
      if (is(key, "type"))
        natural(v, &type);
    }
    if (known && type == 2 && gpus < INT16_MAX &&
        put(&x->devices, (named){.id = handle, .device = gpus++}))
      return -1;
  }
  return 0;
}

static int take_kernels(rocprof *x, text value) {
  walk w = inside(value);
  text symbol, key, v;
  while (next(&w, NULL, &symbol)) {
    walk members = inside(symbol);
    uint64_t id = 0;
    bool known = false;
    text name = {x->start, x->start, false}, formatted = name;
    while (next(&members, &key, &v)) {
      if (is(key, "kernel_id"))
        known = natural(v, &id);
      if (is(key, "kernel_name"))
        string_of(v, &name);
      if (is(key, "formatted_kernel_name"))
        string_of(v, &formatted);
    }
    named kernel = {.id = id, .name = formatted.at < formatted.end ? formatted : name};
    if (known && put(&x->kernels, kernel))
      return -1;
  }
  return 0;
}

/* "strings": names of operations by kind, messages of markers. */
static int take_strings(rocprof *x, text value) {
  walk w = inside(value);
  text key, list, item, v, name;
  while (next(&w, &key, &list)) {
    walk items = inside(list);
    const bool kinds = is(key, "buffer_records"), markers = is(key, "marker_api");
    for (uint64_t kind = 0; (kinds || markers) && next(&items, NULL, &item); kind++) {
      walk members = inside(item);
      uint64_t marker = 0;
      text message = {x->start, x->start, false};
      while (next(&members, &key, &v)) {
        walk operations = inside(v);
        if (kinds && is(key, "operations") && kind < UINT32_MAX)
          for (uint64_t k = 0; next(&operations, NULL, &name) && k < UINT32_MAX; k++)
            if (string_of(name, &name) &&
                put(&x->operations, (named){.id = kind << 32 | k, .name = name}))
              return -1;
        if (is(key, "key"))
          natural(v, &marker);
        if (is(key, "value"))
          string_of(v, &message);
      }
      if (markers && put(&x->markers, (named){.id = marker, .name = message}))
        return -1;
    }
  }
  return 0;
}

static void take_field(record *r, text key, text v) {
  if (is(key, "kind"))
    natural(v, &r->kind);
  else if (is(key, "operation"))
    natural(v, &r->operation);
  else if (is(key, "thread_id"))
    natural(v, &r->thread);
  else if (is(key, "start_timestamp"))
    r->has_start = natural(v, &r->start);
  else if (is(key, "end_timestamp"))
    r->has_stop = natural(v, &r->stop);
  else if (is(key, "correlation_id"))
    r->has_correlation = number_in(v, "internal", &r->correlation);
  else if (is(key, "stream_id"))
    r->has_stream = number_in(v, "handle", &r->stream) || r->has_stream;
  else if (is(key, "dst_agent_id"))
    number_in(v, "handle", &r->to);
  else if (is(key, "src_agent_id"))
    number_in(v, "handle", &r->from);
}

/* The requested args of the row appended next: the record's unsigned integers. */
static int take_args(rocprof *x, text value) {
  walk w = inside(value);
  text key, v;
  uint64_t number;
  while (x->arg_count && next(&w, &key, &v))
    for (uint32_t a = 0; a < x->arg_count; a++)
      if (is(key, x->args[a]) && natural(v, &number) && number <= INT64_MAX &&
          ett_part_arg(x->part, a,
                       (ett_trace_arg){.row = ett_part_next(x->part),
                                       .type = ETT_ARG_INTEGER,
                                       .value.integer = (int64_t)number}))
        return -1;
  return 0;
}

static void take_dispatch(record *r, text dispatch) {
  walk w = inside(dispatch);
  text key, v;
  uint64_t queue;
  while (next(&w, &key, &v)) {
    if (is(key, "kernel_id"))
      r->has_kernel = natural(v, &r->kernel);
    if (is(key, "agent_id"))
      number_in(v, "handle", &r->to);
    if (is(key, "queue_id") && number_in(v, "handle", &queue)) {
      r->queue = queue;
      r->has_queue = true;
    }
  }
}

static int16_t device_of(const rocprof *x, const record *r) {
  const named *device = find(&x->devices, r->to);
  if (!device)
    device = find(&x->devices, r->from);
  return device ? device->device : -1;
}

static uint32_t name_of(rocprof *x, const record *r, text category, bool dispatch) {
  const named *found = NULL;
  if (dispatch && r->has_kernel)
    found = find(&x->kernels, r->kernel);
  else if (is(category, "marker_api") && r->has_correlation)
    found = find(&x->markers, r->correlation);
  if (!found && !dispatch && r->kind < UINT32_MAX && r->operation < UINT32_MAX)
    found = find(&x->operations, r->kind << 32 | r->operation);
  return intern(x, found ? found->name : category);
}

/* The track of a row: a thread of the host, or a queue of a device. */
static uint32_t track_of(rocprof *x, const ett_row *row, const record *r,
                         uint64_t offset) {
  const int64_t tid = row->device < 0 ? (int64_t)(r->thread & INT64_MAX)
                                      : INT64_C(1) << 62 | (int64_t)row->device << 33 |
                                            ((int64_t)row->stream + 1);
  uint32_t track = ett_part_track(x->part, x->pid, ETT_ID_INTEGER, tid, ETT_ID_INTEGER);
  if (track == ETT_TRACE_NONE || row->device < 0 ||
      x->part->tracks[track].thread != ETT_STRING_NONE)
    return track;
  char words[48];
  int n = snprintf(words, sizeof words, "GPU %d queue %d", row->device, row->stream);
  x->part->tracks[track].thread = ett_part_intern(x->part, words, (size_t)n, offset);
  return x->part->tracks[track].thread == ETT_STRING_NONE ? ETT_TRACE_NONE : track;
}

/* Times of a row in ticks from the base. */
static void set_times(rocprof *x, ett_row *row, const record *r, const char *at) {
  int64_t length = 0;
  if (r->start == 0) {
    damaged(x, ETT_DAMAGE_ZERO_TS, at);
    row->ph |= ETT_PH_INVALID;
  } else if (r->stop < r->start) {
    damaged(x, ETT_DAMAGE_NEGATIVE_DUR, at);
    row->ph |= ETT_PH_INVALID;
  } else if (r->start > INT64_MAX || r->stop > INT64_MAX ||
             __builtin_mul_overflow((int64_t)r->start - x->base_ns, x->tick, &row->ts) ||
             __builtin_mul_overflow((int64_t)(r->stop - r->start), x->tick, &length)) {
    damaged(x, ETT_DAMAGE_INTEGER_OVERFLOW, at);
    row->ph |= ETT_PH_INVALID;
    row->ts = 0;
  } else {
    row->dur = length;
  }
}

/* The time base is that of the first record. */
static void see_base(rocprof *x, const record *r) {
  if (r->start > 0 && r->start <= INT64_MAX &&
      (x->base_ns == 0 || (int64_t)r->start < x->base_ns))
    x->base_ns = (int64_t)r->start;
}

static int append(rocprof *x, text category, const record *r, text value, bool dispatch) {
  const uint64_t stream = r->has_stream ? r->stream : r->queue;
  ett_row row = {.correlation = -1, .stream = -1, .device = -1, .ph = 'X'};
  if (r->has_correlation && r->correlation <= INT64_MAX)
    row.correlation = (int64_t)r->correlation;
  if ((r->has_stream || r->has_queue) && stream < INT32_MAX)
    row.stream = (int32_t)stream;
  if (dispatch || is(category, "memory_copy"))
    row.device = device_of(x, r);
  set_times(x, &row, r, value.at);
  row.name = name_of(x, r, category, dispatch);
  if (row.name == ETT_STRING_NONE)
    return -1;
  row.track = track_of(x, &row, r, (uint64_t)(value.at - x->start));
  if (row.track == ETT_TRACE_NONE || take_args(x, value))
    return -1;
  row.category = ett_lexicon_category(x->part->lexicon, category.at,
                                      (size_t)(category.end - category.at));
  return ett_part_append(x->part, &row);
}

/* Reads one record of an array in buffer_records; without `rows` only the time base. */
static int take_record(rocprof *x, text category, text value, bool rows) {
  walk w = inside(value);
  text key, v;
  record r = {.to = UINT64_MAX, .from = UINT64_MAX};
  const bool dispatch = is(category, "kernel_dispatch");
  while (next(&w, &key, &v)) {
    if (dispatch && is(key, "dispatch_info"))
      take_dispatch(&r, v);
    else
      take_field(&r, key, v);
  }
  if (w.damaged && rows)
    damaged(x, ETT_DAMAGE_BAD_EVENT, value.at);
  if (!r.has_start || !r.has_stop || w.damaged)
    return 0; /* samples of program counters have one time */
  if (!rows) {
    see_base(x, &r);
    return 0;
  }
  x->part->seen++;
  return append(x, category, &r, value, dispatch);
}

static int take_records(rocprof *x, text value, bool rows) {
  walk w = inside(value);
  text category, list, item;
  while (next(&w, &category, &list)) {
    walk items = inside(list);
    if (list.at < list.end && *list.at == '[')
      while (next(&items, NULL, &item))
        if (take_record(x, category, item, rows))
          return -1;
  }
  return 0;
}

/* Reads the tables of a process, which may come after the records that use them. */
static int take_tables(rocprof *x, text process) {
  walk w = inside(process);
  text key, value;
  uint64_t pid;
  int status = 0;
  x->devices.count = x->kernels.count = x->markers.count = x->operations.count = 0;
  x->pid = 0;
  while (status == 0 && next(&w, &key, &value)) {
    if (is(key, "metadata") && number_in(value, "pid", &pid) && pid <= INT64_MAX)
      x->pid = (int64_t)pid;
    if (is(key, "agents"))
      status = take_agents(x, value);
    else if (is(key, "kernel_symbols"))
      status = take_kernels(x, value);
    else if (is(key, "strings"))
      status = take_strings(x, value);
  }
  table *all[] = {&x->devices, &x->kernels, &x->markers, &x->operations};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]->count)
      qsort(all[i]->items, all[i]->count, sizeof *all[i]->items, by_id);
  return status;
}

static int take_process(rocprof *x, text process, bool rows) {
  walk w = inside(process);
  text key, value;
  if (rows && take_tables(x, process))
    return -1;
  while (next(&w, &key, &value))
    if (is(key, "buffer_records") && take_records(x, value, rows))
      return -1;
  if (w.damaged && !x->cut)
    x->cut = w.at;
  return 0;
}

/* One pass over all processes: the first finds the time base, the second reads the
 * rows. */
static int pass(rocprof *x, text all, bool rows) {
  walk w = inside(all);
  text key, value, process;
  while (next(&w, &key, &value)) {
    if (!is(key, "rocprofiler-sdk-tool"))
      continue;
    if (value.at < value.end && *value.at == '{' && take_process(x, value, rows))
      return -1;
    walk processes = inside(value);
    while (value.at < value.end && *value.at == '[' && next(&processes, NULL, &process))
      if (take_process(x, process, rows))
        return -1;
  }
  if (w.damaged && !x->cut)
    x->cut = w.at;
  return 0;
}

int ett_rocprof_parse(const void *bytes, size_t size, ett_trace_part *part,
                      const char *const *args, uint32_t arg_count,
                      int64_t ticks_per_second, ett_err *err) {
  rocprof x = {.part = part,
               .start = bytes,
               .args = args,
               .arg_count = arg_count,
               .tick = ticks_per_second / 1000000000};
  text all = {bytes, (const char *)bytes + size, false};
  if (size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0)
    all.at += 3;
  int result = -1;
  char words[32];
  if (pass(&x, all, false) == 0 && pass(&x, all, true) == 0) {
    int n = snprintf(words, sizeof words, "%" PRId64, x.base_ns);
    result = ett_part_member(part, "baseTimeNanoseconds", 19, words, (size_t)n);
  }
  if (x.cut)
    damaged(&x, ETT_DAMAGE_TRUNCATED, x.cut);
  free(x.devices.items);
  free(x.kernels.items);
  free(x.markers.items);
  free(x.operations.items);
  free(x.scratch);
  return result ? ett_err_set(err, ETT_ERR_MEMORY, "out of memory") : 0;
}
