/* JSON of rocprofv3 (--output-format json): an array "rocprofiler-sdk-tool" with a
 * process each. Source of the fields: "JSON output schema" of the manual
 * (ROCm/rocprofiler-sdk, source/docs/how-to/using-rocprofv3.rst).
 *
 * This reads the arrays of "buffer_records" whose records have start_timestamp and
 * end_timestamp (ns). The name of the array is the category. The name of a row is the
 * kernel of a dispatch, the message of a marker, or else the operation's name in
 * "strings". A device's number is its place among the agents that are GPUs. */
#include <stdio.h>
#include <stdlib.h>

#include "trace/read/json/json_scan.h"
#include "trace/read/walk.h"
#include "trace/table/index.h"

typedef struct rocprof {
  const ett_reading *r;
  int64_t base_ns, tick, pid;
  int64_t process;            /* its number in the file, from 1 */
  ett_index devices;          /* int16_t by agent */
  ett_index kernels, markers; /* names: slices, by id */
  ett_index operations;       /* the same; id: kind << 32 | operation */
  const char *cut;            /* end of the document's valid structure, or NULL */
} rocprof;

#define ABSENT UINT64_MAX

/* The fields of a record. */
typedef struct record {
  uint64_t kind, operation, thread, correlation, start, stop, kernel, stream, queue;
  uint64_t from, to; /* agents */
} record;

static ett_walk inside(slice value) {
  return (ett_walk){.rest = value};
}

/* An unsigned 64-bit integer; false for other values. */
static bool natural(slice t, uint64_t *value) {
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

/* A member to read: a number, the number in a member of an object, as in {"handle": 3}, a
 * text or an object. */
typedef struct asked {
  const char *name, *how; /* NULL: a number; a_text; an_object; else the inner name */
  void *to;               /* uint64_t or slice */
} asked;

static const char a_text[] = "text", an_object[] = "object";

/* Reads these members of an object; false if it is damaged. */
static bool read_members(slice object, const asked *list, size_t count) {
  ett_walk w = inside(object);
  slice key, v;
  while (ett_walk_next(&w, &key, &v))
    for (const asked *a = list; a < list + count; a++)
      if (!slice_is(key, a->name))
        continue;
      else if (!a->how)
        natural(v, a->to);
      else if (a->how == a_text)
        ett_walk_text(v, a->to);
      else if (a->how == an_object)
        *(slice *)a->to = v;
      else
        read_members(v, &(asked){a->how, NULL, a->to}, 1);
  return !w.damaged;
}
#define READ_MEMBERS(object, ...)                                                        \
  read_members(object, (const asked[]){__VA_ARGS__},                                     \
               sizeof((const asked[]){__VA_ARGS__}) / sizeof(asked))

static int put_name(ett_index *names, uint64_t id, slice name) {
  int fresh;
  slice *item = ett_index_put(names, &id, sizeof id, sizeof name, &fresh);
  if (item && fresh)
    *item = name;
  return item ? 0 : -1;
}

static const slice *name_at(const ett_index *names, uint64_t id) {
  return ett_index_find(names, &id, sizeof id, sizeof(slice));
}

/* The string id of a text that may hold escapes. */
static uint32_t intern(rocprof *x, slice t) {
  size_t length = (size_t)(t.end - t.at);
  if (!memchr(t.at, '\\', length))
    return ett_reading_intern(x->r, t);
  char *plain = malloc(length);
  int bad = 0;
  if (!plain)
    return ETT_STRING_NONE;
  length = ett_json_unescape(t.at, length, plain, &bad);
  if (bad)
    ett_reading_damage(x->r, ETT_DAMAGE_BAD_STRING, t.at);
  uint32_t id =
      ett_part_intern(x->r->part, plain, length, ett_reading_offset(x->r, t.at));
  free(plain);
  return id;
}

/* GPUs in the order of the agents: agents are {"id": {"handle"}, "type": 2 for a GPU}. */
static int take_agents(rocprof *x, slice value) {
  ett_walk w = inside(value);
  slice agent;
  int16_t gpus = 0;
  while (ett_walk_next(&w, NULL, &agent)) {
    uint64_t handle = ABSENT, type = 0;
    int fresh;
    READ_MEMBERS(agent, {"id", "handle", &handle}, {"type", NULL, &type});
    if (handle == ABSENT || type != 2 || gpus == INT16_MAX)
      continue;
    int16_t *item =
        ett_index_put(&x->devices, &handle, sizeof handle, sizeof *item, &fresh);
    if (!item)
      return -1;
    *item = fresh ? gpus : *item;
    gpus++;
  }
  return 0;
}

static int take_kernels(rocprof *x, slice value) {
  ett_walk w = inside(value);
  slice symbol;
  while (ett_walk_next(&w, NULL, &symbol)) {
    uint64_t id = ABSENT;
    slice name = {symbol.at, symbol.at}, formatted = name;
    READ_MEMBERS(symbol, {"kernel_id", NULL, &id}, {"kernel_name", a_text, &name},
                 {"formatted_kernel_name", a_text, &formatted});
    if (id != ABSENT &&
        put_name(&x->kernels, id, formatted.at < formatted.end ? formatted : name))
      return -1;
  }
  return 0;
}

/* "strings": names of operations by kind, messages of markers. */
static int take_strings(rocprof *x, slice value) {
  ett_walk w = inside(value);
  slice key, list, item, name;
  while (ett_walk_next(&w, &key, &list)) {
    ett_walk items = inside(list);
    const bool kinds = slice_is(key, "buffer_records"),
               markers = slice_is(key, "marker_api");
    for (uint64_t kind = 0; (kinds || markers) && ett_walk_next(&items, NULL, &item);
         kind++) {
      uint64_t marker = 0;
      slice message = {item.at, item.at}, operations = {item.at, item.at};
      READ_MEMBERS(item, {"key", NULL, &marker}, {"value", a_text, &message},
                   {"operations", an_object, &operations});
      ett_walk each = inside(operations);
      for (uint64_t k = 0; kinds && kind < UINT32_MAX && k < UINT32_MAX &&
                           ett_walk_next(&each, NULL, &name);
           k++)
        if (ett_walk_text(name, &name) && put_name(&x->operations, kind << 32 | k, name))
          return -1;
      if (markers && put_name(&x->markers, marker, message))
        return -1;
    }
  }
  return 0;
}

/* Reads the fields of a record, and of its dispatch_info. False if it is damaged. */
static bool take_fields(record *r, slice value, bool dispatch) {
  slice info = {value.at, value.at};
  const bool whole = READ_MEMBERS(
      value, {"kind", NULL, &r->kind}, {"operation", NULL, &r->operation},
      {"thread_id", NULL, &r->thread}, {"start_timestamp", NULL, &r->start},
      {"end_timestamp", NULL, &r->stop}, {"correlation_id", "internal", &r->correlation},
      {"stream_id", "handle", &r->stream}, {"dst_agent_id", "handle", &r->to},
      {"src_agent_id", "handle", &r->from}, {"dispatch_info", an_object, &info});
  if (dispatch)
    READ_MEMBERS(info, {"kernel_id", NULL, &r->kernel}, {"agent_id", "handle", &r->to},
                 {"queue_id", "handle", &r->queue});
  return whole;
}

/* The requested args of the row appended next: the record's unsigned integers. */
static int take_args(rocprof *x, slice value) {
  ett_walk w = inside(value);
  slice key, v;
  uint64_t number;
  while (x->r->arg_count && ett_walk_next(&w, &key, &v)) {
    ett_trace_arg arg = {.type = ETT_ARG_INTEGER};
    if (!natural(v, &number) || number > INT64_MAX)
      continue;
    arg.value.integer = (int64_t)number;
    if (ett_reading_arg(x->r, key, arg, v))
      return -1;
  }
  return 0;
}

static int16_t device_of(const rocprof *x, const record *r) {
  const int16_t *device =
      ett_index_find(&x->devices, &r->to, sizeof r->to, sizeof *device);
  if (!device)
    device = ett_index_find(&x->devices, &r->from, sizeof r->from, sizeof *device);
  return device ? *device : -1;
}

static uint32_t name_of(rocprof *x, const record *r, slice category, bool dispatch) {
  const slice *found = NULL;
  if (dispatch && r->kernel != ABSENT)
    found = name_at(&x->kernels, r->kernel);
  else if (slice_is(category, "marker_api") && r->correlation != ABSENT)
    found = name_at(&x->markers, r->correlation);
  if (!found && !dispatch && r->kind < UINT32_MAX && r->operation < UINT32_MAX)
    found = name_at(&x->operations, r->kind << 32 | r->operation);
  return intern(x, found ? *found : category);
}

/* The track of a row: a thread of the host, or a queue of a device. */
static uint32_t track_of(rocprof *x, const ett_row *row, const record *r) {
  const int64_t tid = row->device < 0 ? (int64_t)(r->thread & INT64_MAX)
                                      : INT64_C(1) << 62 | (int64_t)row->device << 33 |
                                            ((int64_t)row->stream + 1);
  ett_trace_part *part = x->r->part;
  uint32_t track = ett_part_track(part, x->pid, ETT_ID_INTEGER, tid, ETT_ID_INTEGER);
  if (track == ETT_TRACE_NONE || row->device < 0 ||
      part->tracks[track].thread != ETT_STRING_NONE)
    return track;
  char words[48];
  snprintf(words, sizeof words, "GPU %d queue %d", row->device, row->stream);
  part->tracks[track].thread = ett_reading_intern(x->r, slice_of(words));
  return part->tracks[track].thread == ETT_STRING_NONE ? ETT_TRACE_NONE : track;
}

/* Times of a row in ticks from the base. */
static void set_times(rocprof *x, ett_row *row, const record *r, const char *at) {
  int64_t length = 0;
  if (r->start == 0) {
    ett_reading_spoil(x->r, row, ETT_DAMAGE_NO_TS, at);
  } else if (r->stop < r->start) {
    ett_reading_spoil(x->r, row, ETT_DAMAGE_NEGATIVE_DUR, at);
  } else if (r->start > INT64_MAX || r->stop > INT64_MAX ||
             __builtin_mul_overflow((int64_t)r->start - x->base_ns, x->tick, &row->ts) ||
             __builtin_mul_overflow((int64_t)(r->stop - r->start), x->tick, &length)) {
    ett_reading_spoil(x->r, row, ETT_DAMAGE_INTEGER_OVERFLOW, at);
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

static int append(rocprof *x, slice category, const record *r, slice value,
                  bool dispatch) {
  const uint64_t stream = r->stream != ABSENT ? r->stream : r->queue;
  ett_row row = {.correlation = -1, .stream = -1, .device = -1, .ph = 'X'};
  if (r->correlation <= INT64_MAX) /* each process counts from 1 */
    row.correlation = (int64_t)r->correlation ^ (x->process - 1) << 32;
  if (stream < INT32_MAX)
    row.stream = (int32_t)stream;
  if (dispatch || slice_is(category, "memory_copy"))
    row.device = device_of(x, r);
  set_times(x, &row, r, value.at);
  row.name = name_of(x, r, category, dispatch);
  if (row.name == ETT_STRING_NONE)
    return -1;
  row.track = track_of(x, &row, r);
  if (row.track == ETT_TRACE_NONE || take_args(x, value))
    return -1;
  row.category = ett_reading_category(x->r, category);
  return ett_part_append(x->r->part, &row);
}

/* Reads one record of an array in buffer_records; without `rows` only the time base. */
static int take_record(rocprof *x, slice category, slice value, bool rows) {
  record r = {.correlation = ABSENT,
              .start = ABSENT,
              .stop = ABSENT,
              .kernel = ABSENT,
              .stream = ABSENT,
              .queue = ABSENT,
              .from = ABSENT,
              .to = ABSENT};
  const bool dispatch = slice_is(category, "kernel_dispatch");
  const bool whole = take_fields(&r, value, dispatch);
  if (!whole && rows)
    ett_reading_damage(x->r, ETT_DAMAGE_BAD_EVENT, value.at);
  if (r.start == ABSENT || r.stop == ABSENT || !whole)
    return 0; /* samples of program counters have one time */
  if (!rows) {
    see_base(x, &r);
    return 0;
  }
  x->r->part->seen++;
  return append(x, category, &r, value, dispatch);
}

static int take_records(rocprof *x, slice value, bool rows) {
  ett_walk w = inside(value);
  slice category, list, item;
  while (ett_walk_next(&w, &category, &list)) {
    ett_walk items = inside(list);
    if (list.at < list.end && *list.at == '[')
      while (ett_walk_next(&items, NULL, &item))
        if (take_record(x, category, item, rows))
          return -1;
  }
  return 0;
}

static void free_tables(rocprof *x) {
  ett_index_free(&x->devices);
  ett_index_free(&x->kernels);
  ett_index_free(&x->markers);
  ett_index_free(&x->operations);
}

/* Reads the tables of a process, which may come after the records that use them. */
static int take_tables(rocprof *x, slice process) {
  ett_walk w = inside(process);
  slice key, value;
  uint64_t pid = 0;
  int status = 0;
  free_tables(x);
  while (status == 0 && ett_walk_next(&w, &key, &value)) {
    if (slice_is(key, "metadata"))
      READ_MEMBERS(value, {"pid", NULL, &pid});
    else if (slice_is(key, "agents"))
      status = take_agents(x, value);
    else if (slice_is(key, "kernel_symbols"))
      status = take_kernels(x, value);
    else if (slice_is(key, "strings"))
      status = take_strings(x, value);
  }
  x->pid = pid <= INT64_MAX ? (int64_t)pid : 0;
  return status;
}

static int take_process(rocprof *x, slice process, bool rows) {
  ett_walk w = inside(process);
  slice key, value;
  x->process += rows;
  if (rows && take_tables(x, process))
    return -1;
  while (ett_walk_next(&w, &key, &value))
    if (slice_is(key, "buffer_records") && take_records(x, value, rows))
      return -1;
  if (w.damaged && !x->cut)
    x->cut = w.rest.at;
  return 0;
}

/* One pass over all processes: the first finds the time base, the second reads the
 * rows. */
static int pass(rocprof *x, slice all, bool rows) {
  ett_walk w = inside(all);
  slice key, value, process;
  while (ett_walk_next(&w, &key, &value)) {
    if (!slice_is(key, "rocprofiler-sdk-tool"))
      continue;
    if (value.at < value.end && *value.at == '{' && take_process(x, value, rows))
      return -1;
    ett_walk processes = inside(value);
    while (value.at < value.end && *value.at == '[' &&
           ett_walk_next(&processes, NULL, &process))
      if (take_process(x, process, rows))
        return -1;
  }
  if (w.damaged && !x->cut)
    x->cut = w.rest.at;
  return 0;
}

int ett_rocprof_parse(const ett_reading *r) {
  rocprof x = {.r = r, .tick = r->ticks_per_second / 1000000000};
  slice all = r->bytes;
  if (all.end - all.at >= 3 && memcmp(all.at, "\xEF\xBB\xBF", 3) == 0)
    all.at += 3;
  int result = pass(&x, all, false) || pass(&x, all, true) ? -1 : 0;
  if (x.cut)
    ett_reading_damage(r, ETT_DAMAGE_TRUNCATED, x.cut);
  free_tables(&x);
  return result ? -1 : ett_reading_base(r, x.base_ns);
}
