/* Databases of rocprofv3 (rocpd, its default output since ROCm 7). Their tables differ
 * between versions, so this reads the views that every version has: kernels,
 * memory_copies and regions. Source: ROCm/rocprofiler-sdk,
 * source/share/rocprofiler-sdk-rocpd/data_views.sql. Categories and numbers are those of
 * the JSON reader (rocprof.c). */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "trace/read/nsys.h"
#include "trace/read/whole.h"

/* The columns of a query; the args follow from COLUMN_ARGS on. */
enum {
  COLUMN_START,
  COLUMN_END,
  COLUMN_DEVICE,
  COLUMN_STREAM,
  COLUMN_CORRELATION,
  COLUMN_PID,
  COLUMN_TID,
  COLUMN_NAME,
  COLUMN_CATEGORY,
  COLUMN_ARGS
};

typedef struct view {
  const char *name, *device, *stream, *label, *category;
  const char *needs[8]; /* columns */
} view;

/* A row's stream, or its queue without one. Calls have no device. */
#define STREAM "coalesce(t.stream_id, t.queue_id)"
#define MESSAGE                                                                          \
  "CASE WHEN t.category LIKE 'MARKER%' AND json_valid(t.extdata) THEN "                  \
  "coalesce(nullif(json_extract(t.extdata, '$.message'), ''), t.name) ELSE t.name END"
#define REGION                                                                           \
  "CASE WHEN t.category LIKE 'HIP%' THEN 'hip_api' WHEN t.category LIKE 'MARKER%' THEN " \
  "'marker_api' WHEN t.category LIKE 'HSA%' THEN 'hsa_api' ELSE lower(t.category) END"

static const view views[] = {
    {"kernels",
     "t.agent_type_index",
     STREAM,
     "t.name",
     "'kernel_dispatch'",
     {"agent_type_index", "stream_id", "queue_id"}},
    {"memory_copies",
     "CASE 'GPU' WHEN t.dst_agent_type THEN t.dst_agent_type_index "
     "WHEN t.src_agent_type THEN t.src_agent_type_index END",
     STREAM,
     "t.name",
     "'memory_copy'",
     {"dst_agent_type_index", "src_agent_type_index", "dst_agent_type", "src_agent_type",
      "stream_id", "queue_id"}},
    {"regions", "NULL", "NULL", MESSAGE, REGION, {"category", "extdata"}},
};
#define VIEWS (sizeof views / sizeof *views)

typedef struct rocpd {
  sqlite3 *db;
  const ett_reading *r;
  ett_err *err;
  ett_strings processes; /* those with correlation ids */
  int64_t base_ns;
} rocpd;

static bool has(sqlite3 *db, const char *name, const char *column) {
  sqlite3_stmt *s = NULL;
  static const char sql[] =
      "SELECT 1 FROM pragma_table_info(?1) WHERE name = ?2 COLLATE NOCASE";
  bool found = false;
  if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK) {
    sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 2, column, -1, SQLITE_STATIC);
    found = sqlite3_step(s) == SQLITE_ROW;
  }
  sqlite3_finalize(s);
  return found;
}

/* Whether the database has the view with all columns that this reads. */
static bool readable(sqlite3 *db, const view *v) {
  static const char *const all[] = {"start", "end", "name", "pid", "tid", "stack_id"};
  bool whole = true;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    whole = whole && has(db, v->name, all[i]);
  for (size_t i = 0; whole && i < sizeof v->needs / sizeof *v->needs && v->needs[i]; i++)
    whole = has(db, v->name, v->needs[i]);
  return whole;
}

bool ett_rocpd_is(void *database) {
  for (size_t i = 0; i < VIEWS; i++)
    if (readable(database, &views[i]))
      return true;
  return false;
}

/* The rows of a view as SQL, freed by sqlite3_free; NULL when memory ran out. */
static char *query_of(const rocpd *x, const view *v) {
  sqlite3_str *sql = sqlite3_str_new(x->db);
  sqlite3_str_appendf(sql, "SELECT t.start, t.\"end\", %s, %s, t.stack_id, t.pid, t.tid",
                      v->device, v->stream);
  sqlite3_str_appendf(sql, ", %s, %s", v->label, v->category);
  for (uint32_t i = 0; i < x->r->arg_count; i++) {
    const char *arg = x->r->args[i];
    if (strcmp(arg, "bytes") == 0 && !has(x->db, v->name, arg))
      arg = "size";
    if (has(x->db, v->name, arg))
      sqlite3_str_appendf(sql, ", t.\"%w\"", arg);
    else
      sqlite3_str_appendall(sql, ", NULL");
  }
  sqlite3_str_appendf(sql, " FROM \"%w\" t", v->name);
  return sqlite3_str_finish(sql);
}

static int failed(rocpd *x) {
  int code = sqlite3_errcode(x->db);
  if (code == SQLITE_NOMEM)
    return ett_err_set(x->err, ETT_ERR_MEMORY, "out of memory");
  if (code == SQLITE_INTERRUPT)
    return ett_err_set(x->err, ETT_ERR_LIMIT,
                       "its views take too long for its size; convert it with `rocpd "
                       "convert --output-format pftrace` and read that file");
  return ett_err_set(x->err, ETT_ERR_FORMAT, "%s", sqlite3_errmsg(x->db));
}

static slice text_of(sqlite3_stmt *s, int column) {
  const char *text = (const char *)sqlite3_column_text(s, column);
  return text ? (slice){text, text + sqlite3_column_bytes(s, column)} : slice_of("");
}

static int32_t number_of(sqlite3_stmt *s, int column, int32_t most) {
  int64_t value = sqlite3_column_int64(s, column);
  const bool integer = sqlite3_column_type(s, column) == SQLITE_INTEGER;
  return integer && value >= 0 && value <= most ? (int32_t)value : -1;
}

static int take_args(rocpd *x, sqlite3_stmt *s) {
  for (uint32_t i = 0; i < x->r->arg_count; i++) {
    ett_trace_arg arg = {.row = ett_part_next(x->r->part), .type = ETT_ARG_INTEGER};
    const int column = COLUMN_ARGS + (int)i, type = sqlite3_column_type(s, column);
    if (type == SQLITE_INTEGER) {
      arg.value.integer = sqlite3_column_int64(s, column);
    } else if (type == SQLITE_TEXT) {
      const slice text = text_of(s, column);
      arg.type = ETT_ARG_TEXT;
      arg.value.text =
          ett_part_intern(x->r->part, text.at, (size_t)(text.end - text.at), 0);
      if (arg.value.text == ETT_STRING_NONE)
        return -1;
    } else {
      continue;
    }
    if (ett_part_arg(x->r->part, i, arg))
      return -1;
  }
  return 0;
}

/* The correlation id, with the number of its process above 32 bits. */
static int take_correlation(rocpd *x, sqlite3_stmt *s, int64_t *correlation) {
  const int64_t id = sqlite3_column_int64(s, COLUMN_CORRELATION),
                pid = sqlite3_column_int64(s, COLUMN_PID);
  if (sqlite3_column_type(s, COLUMN_CORRELATION) != SQLITE_INTEGER || id <= 0)
    return 0;
  const uint32_t number =
      ett_strings_put(&x->processes, (const char *)&pid, sizeof pid, 0, NULL);
  *correlation = id > UINT32_MAX ? id : id | (int64_t)(number & INT32_MAX) << 32;
  return number == ETT_STRING_NONE ? -1 : 0;
}

static uint32_t track_of(rocpd *x, sqlite3_stmt *s, const ett_row *row) {
  const int64_t tid = row->device < 0 ? sqlite3_column_int64(s, COLUMN_TID)
                                      : INT64_C(1) << 62 | (int64_t)row->device << 33 |
                                            ((int64_t)row->stream + 1);
  ett_trace_part *part = x->r->part;
  uint32_t track = ett_part_track(part, sqlite3_column_int64(s, COLUMN_PID),
                                  ETT_ID_INTEGER, tid, ETT_ID_INTEGER);
  if (track == ETT_TRACE_NONE || row->device < 0 ||
      part->tracks[track].thread != ETT_STRING_NONE)
    return track;
  char words[48];
  int n = snprintf(words, sizeof words, "GPU %d stream %d", row->device, row->stream);
  part->tracks[track].thread = ett_part_intern(part, words, (size_t)n, 0);
  return part->tracks[track].thread == ETT_STRING_NONE ? ETT_TRACE_NONE : track;
}

/* Times of a row in nanoseconds from the base. */
static void set_times(rocpd *x, sqlite3_stmt *s, ett_row *row) {
  const int64_t start = sqlite3_column_int64(s, COLUMN_START),
                stop = sqlite3_column_int64(s, COLUMN_END);
  if (sqlite3_column_type(s, COLUMN_START) != SQLITE_INTEGER || start <= 0)
    ett_reading_spoil(x->r, row, ETT_DAMAGE_NO_TS, NULL);
  else if (sqlite3_column_type(s, COLUMN_END) != SQLITE_INTEGER || stop < start)
    ett_reading_spoil(x->r, row, ETT_DAMAGE_NEGATIVE_DUR, NULL);
  else if (stop - start > ETT_TRACE_LONGEST_S * 1000000000)
    ett_reading_spoil(x->r, row, ETT_DAMAGE_LONG_DUR, NULL);
  else
    row->dur = stop - start;
  if (start > 0)
    row->ts = start - x->base_ns;
}

static int take_row(rocpd *x, sqlite3_stmt *s) {
  ett_trace_part *part = x->r->part;
  const slice name = text_of(s, COLUMN_NAME), category = text_of(s, COLUMN_CATEGORY);
  ett_row row = {.correlation = -1, .ph = 'X'};
  row.device = (int16_t)number_of(s, COLUMN_DEVICE, INT16_MAX);
  row.stream = number_of(s, COLUMN_STREAM, INT32_MAX - 1);
  part->seen++;
  set_times(x, s, &row);
  row.name = ett_part_intern(part, name.at, (size_t)(name.end - name.at), 0);
  row.category = ett_reading_category(x->r, category);
  row.track = track_of(x, s, &row);
  if (row.name == ETT_STRING_NONE || row.track == ETT_TRACE_NONE ||
      take_correlation(x, s, &row.correlation) || take_args(x, s))
    return -1;
  return ett_part_append(part, &row);
}

static int take_view(rocpd *x, const view *v) {
  char *sql = query_of(x, v);
  sqlite3_stmt *s = NULL;
  int code = SQLITE_NOMEM, status = -1;
  if (sql)
    code = sqlite3_prepare_v2(x->db, sql, -1, &s, NULL);
  if (code == SQLITE_OK) {
    status = 0;
    while (status == 0 && (code = sqlite3_step(s)) == SQLITE_ROW)
      status = take_row(x, s);
  }
  if (status || code == SQLITE_NOMEM)
    status = code == SQLITE_ROW || !sql
                 ? ett_err_set(x->err, ETT_ERR_MEMORY, "out of memory")
                 : failed(x);
  else if (code == SQLITE_TOOBIG || code == SQLITE_INTERRUPT)
    status = failed(x);
  else if (code != SQLITE_DONE) /* damaged pages: keep the rows before them */
    ett_part_damage(x->r->part, ETT_DAMAGE_BAD_MESSAGE, 0);
  sqlite3_finalize(s);
  sqlite3_free(sql);
  return status;
}

/* The time base is that of the first row. */
static void find_base(rocpd *x) {
  for (size_t i = 0; i < VIEWS; i++) {
    sqlite3_stmt *s = NULL;
    char *sql =
        sqlite3_mprintf("SELECT min(start) FROM \"%w\" WHERE start > 0", views[i].name);
    if (sql && readable(x->db, &views[i]) &&
        sqlite3_prepare_v2(x->db, sql, -1, &s, NULL) == SQLITE_OK &&
        sqlite3_step(s) == SQLITE_ROW && sqlite3_column_type(s, 0) == SQLITE_INTEGER) {
      const int64_t first = sqlite3_column_int64(s, 0);
      x->base_ns = x->base_ns && x->base_ns < first ? x->base_ns : first;
    }
    sqlite3_finalize(s);
    sqlite3_free(sql);
  }
}

int ett_rocpd_read_database(void *database, const ett_reading *reads, ett_err *err) {
  rocpd x = {.db = database, .r = reads, .err = err};
  int status = 0;
  find_base(&x);
  for (size_t i = 0; i < VIEWS && !status; i++)
    if (readable(x.db, &views[i]))
      status = take_view(&x, &views[i]);
  ett_strings_free(&x.processes);
  reads->part->kind = ETT_TRACE_ROCPROF;
  if (status == 0 && ett_reading_base(reads, x.base_ns))
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
  return status;
}
