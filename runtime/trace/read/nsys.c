/* Nsight Systems SQLite exports. Times are nanoseconds since the session's start; its UTC
 * time is the file's base. */
#include "trace/read/nsys.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef enum nsys_place { ON_DEVICE, ON_HOST } nsys_place;

typedef struct nsys_table {
  const char *name;
  nsys_place where;
  const char *ids[3]; /* columns that refer to StringIds, best first */
  const char *text;   /* column with the name's text, second best; or NULL */
  const char *fixed;  /* name if no column has it */
} nsys_table;

/* The columns of a query; the args follow from COLUMN_ARGS on. */
enum {
  COLUMN_START,
  COLUMN_END,
  COLUMN_DEVICE,
  COLUMN_STREAM,
  COLUMN_CORRELATION,
  COLUMN_GLOBAL, /* serialized process; on the host also the thread */
  COLUMN_COPY_KIND,
  COLUMN_TYPE,
  COLUMN_SYNC_TYPE,
  COLUMN_TEXT,
  COLUMN_ARGS
};

/* Synchronisation records get the category, names and args that Kineto gives them. */
#define SYNCHRONIZATION "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
#define CUDA_EVENT "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
#define RECORD_ARG "wait_on_cuda_event_record_corr_id"

static const nsys_table tables[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL", ON_DEVICE, {"demangledName", "shortName"}, NULL, NULL},
    {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", ON_DEVICE, {NULL}, NULL, "CUDA graph"},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", ON_DEVICE, {NULL}, NULL, "Memcpy"},
    {"CUPTI_ACTIVITY_KIND_MEMSET", ON_DEVICE, {NULL}, NULL, "Memset"},
    {SYNCHRONIZATION, ON_DEVICE, {NULL}, NULL, "Unknown Sync"},
    {"CUPTI_ACTIVITY_KIND_RUNTIME", ON_HOST, {"nameId"}, "name", NULL},
    {"NVTX_EVENTS", ON_HOST, {"textId", "jsonTextId"}, "text", NULL},
    {"MPI_COLLECTIVES_EVENTS", ON_HOST, {"textId", "nameId"}, NULL, NULL},
    {"MPI_P2P_EVENTS", ON_HOST, {"textId", "nameId"}, NULL, NULL},
    {"MPI_START_WAIT_EVENTS", ON_HOST, {"textId", "nameId"}, NULL, NULL},
    {"MPI_OTHER_EVENTS", ON_HOST, {"textId", "nameId"}, NULL, NULL},
    {"CUBLAS_EVENTS", ON_HOST, {"nameId"}, NULL, NULL},
    {"CUDNN_EVENTS", ON_HOST, {"nameId"}, NULL, NULL},
    {"OSRT_API", ON_HOST, {"nameId"}, NULL, NULL},
    {NULL, ON_HOST, {NULL}, NULL, NULL},
};

static bool is_synchronisation(const char *table) {
  return strcmp(table, SYNCHRONIZATION) == 0;
}

/* Maximum bytes of a text. Kernel names, the longest texts, have a few thousand. */
#define LONGEST_TEXT (16 << 20)

typedef struct alias {
  const char *arg, *table, *expression; /* of columns a, b, c below */
  const char *columns[3];
} alias;

static const alias aliases[] = {
    {"grid",
     "CUPTI_ACTIVITY_KIND_KERNEL",
     "'[' || a || ', ' || b || ', ' || c || ']'",
     {"gridX", "gridY", "gridZ"}},
    {"block",
     "CUPTI_ACTIVITY_KIND_KERNEL",
     "'[' || a || ', ' || b || ', ' || c || ']'",
     {"blockX", "blockY", "blockZ"}},
    {"registers per thread", "CUPTI_ACTIVITY_KIND_KERNEL", NULL, {"registersPerThread"}},
    {"shared memory",
     "CUPTI_ACTIVITY_KIND_KERNEL",
     "a + b",
     {"staticSharedMemory", "dynamicSharedMemory"}},
};

/* Whether the database has the table, with that column (NULL: any column). */
static bool has_column(sqlite3 *db, const char *name, const char *column) {
  sqlite3_stmt *s = NULL;
  bool found = false;
  static const char sql[] =
      "SELECT c.name FROM sqlite_master m, pragma_table_info(m.name) c "
      "WHERE m.type = 'table' AND m.name = ?1 COLLATE NOCASE";
  if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK) {
    sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    while (!found && sqlite3_step(s) == SQLITE_ROW) {
      const char *text = (const char *)sqlite3_column_text(s, 0);
      found = !column || (text && strcasecmp(text, column) == 0);
    }
  }
  sqlite3_finalize(s);
  return found;
}

/* Appends the column as SQL, or NULL if it is missing. Columns come from the lists above
 * or are quoted. */
static void append_column(sqlite3 *db, sqlite3_str *sql, const char *table,
                          const char *name) {
  if (has_column(db, table, name))
    sqlite3_str_appendf(sql, ", t.\"%w\"", name);
  else
    sqlite3_str_appendall(sql, ", NULL");
}

/* Appends the GPU of a row. deviceId counts the devices that its process sees, which
 * CUDA_VISIBLE_DEVICES limits. */
static void append_device(sqlite3 *db, sqlite3_str *sql, const char *table) {
  static const char *const columns[][2] = {{NULL, "deviceId"},
                                           {NULL, "globalPid"},
                                           {"TARGET_INFO_CUDA_DEVICE", "gpuId"},
                                           {"TARGET_INFO_CUDA_DEVICE", "cudaId"},
                                           {"TARGET_INFO_CUDA_DEVICE", "pid"}};
  bool all = true;
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    all = all && has_column(db, columns[i][0] ? columns[i][0] : table, columns[i][1]);
  if (all)
    sqlite3_str_appendall(sql, ", coalesce((SELECT gpuId FROM TARGET_INFO_CUDA_DEVICE d "
                               "WHERE d.cudaId = t.deviceId AND "
                               "d.pid = (t.globalPid >> 24 & 16777215)), t.deviceId)");
  else
    append_column(db, sql, table, "deviceId");
}

/* Whether the file tells which record of a CUDA event each synchronisation waits for. */
static bool names_records(sqlite3 *db, const char *table) {
  static const char *const columns[] = {"correlationId", "globalPid", "contextId",
                                        "eventId"};
  bool all =
      strcmp(table, SYNCHRONIZATION) == 0 && has_column(db, CUDA_EVENT, "streamId");
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
    all = all && has_column(db, table, columns[i]) &&
          has_column(db, CUDA_EVENT, columns[i]);
  return all;
}

/* Joins to each synchronisation the last record of its CUDA event before it: ids of calls
 * count up. Column recorded: the id of the record's call above 32 bits of its stream. */
static const char records_join[] =
    " LEFT JOIN (SELECT id, max(call) OVER (PARTITION BY globalPid, contextId, eventId "
    "ORDER BY correlationId) AS recorded FROM (SELECT rowid AS id, globalPid, contextId, "
    "eventId, correlationId, NULL AS call FROM " SYNCHRONIZATION
    " UNION ALL SELECT NULL, globalPid, contextId, eventId, correlationId, "
    "correlationId * 4294967296 + streamId FROM " CUDA_EVENT ")) k ON k.id = t.rowid";

static void append_arg(sqlite3 *db, sqlite3_str *sql, const char *table,
                       const char *arg) {
  if (strcmp(arg, "wait_on_stream") == 0 && names_records(db, table)) {
    sqlite3_str_appendall(sql, ", k.recorded & 4294967295");
    return;
  }
  if (strcmp(arg, RECORD_ARG) == 0 && names_records(db, table)) {
    sqlite3_str_appendall(sql, ", k.recorded >> 32");
    return;
  }
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
    const alias *a = &aliases[i];
    if (strcmp(a->arg, arg) != 0 || strcmp(a->table, table) != 0)
      continue;
    bool all = true;
    for (int k = 0; k < 3 && a->columns[k]; k++)
      all = all && has_column(db, table, a->columns[k]);
    if (!all)
      break;
    if (!a->expression) {
      sqlite3_str_appendf(sql, ", t.\"%w\"", a->columns[0]);
      return;
    }
    sqlite3_str_appendall(sql, ", ");
    for (const char *p = a->expression; *p; p++) {
      if (*p >= 'a' && *p <= 'c')
        sqlite3_str_appendf(sql, "t.\"%w\"", a->columns[*p - 'a']);
      else
        sqlite3_str_appendchar(sql, 1, *p);
    }
    return;
  }
  append_column(db, sql, table, arg);
}

/* The rows of a table as SQL, freed by sqlite3_free; NULL when memory ran out. */
static char *query_of(sqlite3 *db, const nsys_table *t, const char *const *args,
                      uint32_t arg_count) {
  const bool strings = has_column(db, "StringIds", "value");
  sqlite3_str *sql = sqlite3_str_new(db);
  sqlite3_str_appendf(sql, "SELECT t.start");
  append_column(db, sql, t->name, "end");
  append_device(db, sql, t->name);
  append_column(db, sql, t->name, "streamId");
  append_column(db, sql, t->name, "correlationId");
  append_column(db, sql, t->name, t->where == ON_DEVICE ? "globalPid" : "globalTid");
  append_column(db, sql, t->name, "copyKind");
  append_column(db, sql, t->name, "eventType");
  append_column(db, sql, t->name, "syncType");
  sqlite3_str_appendall(sql, ", coalesce(NULL");
  for (int i = 0; i < 3 && t->ids[i]; i++) {
    if (strings && has_column(db, t->name, t->ids[i]))
      sqlite3_str_appendf(sql, ", (SELECT value FROM StringIds WHERE id = t.\"%w\")",
                          t->ids[i]);
    if (i == 0 && t->text && has_column(db, t->name, t->text))
      sqlite3_str_appendf(sql, ", t.\"%w\"", t->text);
  }
  sqlite3_str_appendall(sql, ", NULL)");
  for (uint32_t i = 0; i < arg_count; i++)
    append_arg(db, sql, t->name, args[i]);
  sqlite3_str_appendf(sql, " FROM \"%w\" t", t->name);
  if (names_records(db, t->name))
    sqlite3_str_appendall(sql, records_join);
  return sqlite3_str_finish(sql);
}

typedef struct reading {
  sqlite3 *db;
  const ett_reading *r;
  ett_trace_part *part;
  ett_err *err;
  ett_strings processes; /* those with correlation ids */
} reading;

static int failed(reading *r) {
  int code = sqlite3_errcode(r->db);
  if (code == SQLITE_NOMEM)
    return ett_err_set(r->err, ETT_ERR_MEMORY, "out of memory");
  if (code == SQLITE_TOOBIG)
    return ett_err_set(r->err, ETT_ERR_LIMIT, "one of its texts is longer than %d bytes",
                       LONGEST_TEXT);
  if (code == SQLITE_INTERRUPT)
    return ett_err_set(r->err, ETT_ERR_LIMIT,
                       "reading its tables takes too long: they lack the indexes of an "
                       "Nsight export; export it again with nsys");
  return ett_err_set(r->err, ETT_ERR_FORMAT, "%s", sqlite3_errmsg(r->db));
}

static uint32_t intern(reading *r, const char *text, size_t length) {
  return ett_part_intern(r->part, text, length, 0);
}

static uint32_t name_of(reading *r, const nsys_table *t, sqlite3_stmt *s) {
  const char *text = (const char *)sqlite3_column_text(s, COLUMN_TEXT);
  if (text)
    return intern(r, text, (size_t)sqlite3_column_bytes(s, COLUMN_TEXT));
  char copy[40];
  if (t->fixed && strcmp(t->fixed, "Memcpy") == 0) {
    int kind = sqlite3_column_int(s, COLUMN_COPY_KIND);
    const char *way = kind == 1    ? "HtoD"
                      : kind == 2  ? "DtoH"
                      : kind == 8  ? "DtoD"
                      : kind == 10 ? "PtoP"
                                   : NULL;
    int n = way ? snprintf(copy, sizeof copy, "Memcpy %s", way)
                : snprintf(copy, sizeof copy, "Memcpy (kind %d)", kind);
    return intern(r, copy, (size_t)n);
  }
  static const char *const syncs[] = {NULL, "Event Sync", "Stream Wait Event",
                                      "Stream Sync", "Context Sync"};
  int sync = sqlite3_column_int(s, COLUMN_SYNC_TYPE);
  if (is_synchronisation(t->name) && sync > 0 && sync <= 4)
    return intern(r, syncs[sync], strlen(syncs[sync]));
  return t->fixed ? intern(r, t->fixed, strlen(t->fixed)) : intern(r, "", 0);
}

/* correlation: that of the row, with the number of its process. */
static int take_args(reading *r, sqlite3_stmt *s, int64_t correlation) {
  for (uint32_t i = 0; i < r->r->arg_count; i++) {
    ett_trace_arg arg = {.row = ett_part_next(r->part)};
    int column = COLUMN_ARGS + (int)i;
    switch (sqlite3_column_type(s, column)) {
    case SQLITE_INTEGER:
      arg.type = ETT_ARG_INTEGER;
      arg.value.integer = sqlite3_column_int64(s, column);
      if (strcmp(r->r->args[i], RECORD_ARG) == 0 && correlation > 0)
        arg.value.integer |= correlation & ~(int64_t)UINT32_MAX;
      break;
    case SQLITE_FLOAT:
      arg.type = ETT_ARG_FLOAT;
      arg.value.number = sqlite3_column_double(s, column);
      break;
    case SQLITE_TEXT: {
      const char *text = (const char *)sqlite3_column_text(s, column);
      if (!text)
        return -1;
      arg.type = ETT_ARG_TEXT;
      arg.value.text = intern(r, text, (size_t)sqlite3_column_bytes(s, column));
      if (arg.value.text == ETT_STRING_NONE)
        return -1;
      break;
    }
    default:
      continue;
    }
    if (ett_part_arg(r->part, i, arg))
      return -1;
  }
  return 0;
}

/* The correlation id of a record; -1 without one. Each process counts from 1. The number
 * of the process is added above 32 bits. */
static int take_correlation(reading *r, sqlite3_stmt *s, int64_t *correlation) {
  if (sqlite3_column_type(s, COLUMN_CORRELATION) != SQLITE_INTEGER)
    return 0;
  *correlation = sqlite3_column_int64(s, COLUMN_CORRELATION);
  if (sqlite3_column_type(s, COLUMN_GLOBAL) != SQLITE_INTEGER || *correlation < 0 ||
      *correlation > UINT32_MAX)
    return 0;
  const int64_t process = sqlite3_column_int64(s, COLUMN_GLOBAL) >> 24;
  const uint32_t number =
      ett_strings_put(&r->processes, (const char *)&process, sizeof process, 0, NULL);
  *correlation |= (int64_t)(number & INT32_MAX) << 32;
  return number == ETT_STRING_NONE ? -1 : 0;
}

/* Whether an NVTX record of that type is a name, not an event: of a category (33, 64), a
 * thread or process (39, 72 to 74), a domain or device (75 and more). */
static bool is_name(int type) {
  return type == 33 || type == 39 || type == 64 || type >= 72;
}

static int take_row(reading *r, const nsys_table *t, sqlite3_stmt *s, uint16_t category) {
  r->part->seen++;
  if (sqlite3_column_type(s, COLUMN_START) != SQLITE_INTEGER) {
    ett_part_damage(r->part, ETT_DAMAGE_BAD_EVENT, 0);
    return 0;
  }
  ett_row row = {.ts = sqlite3_column_int64(s, COLUMN_START),
                 .category = category,
                 .correlation = -1,
                 .stream = -1,
                 .device = -1,
                 .ph = 'X'};
  if (sqlite3_column_type(s, COLUMN_END) == SQLITE_INTEGER) {
    if (__builtin_sub_overflow(sqlite3_column_int64(s, COLUMN_END), row.ts, &row.dur))
      row.dur = -1;
    if (row.dur < 0)
      ett_reading_spoil(r->r, &row, ETT_DAMAGE_NEGATIVE_DUR, NULL);
    else if (row.dur > ETT_TRACE_LONGEST_S * 1000000000)
      ett_reading_spoil(r->r, &row, ETT_DAMAGE_LONG_DUR, NULL);
  } else {
    if (is_name(sqlite3_column_int(s, COLUMN_TYPE)))
      return 0;
    row.ph = 'i';
  }
  if (take_correlation(r, s, &row.correlation))
    return -1;
  int64_t device = sqlite3_column_int64(s, COLUMN_DEVICE),
          stream = sqlite3_column_int64(s, COLUMN_STREAM);
  int64_t global = sqlite3_column_int64(s, COLUMN_GLOBAL);
  if (t->where == ON_DEVICE) {
    row.device = device >= 0 && device <= INT16_MAX ? (int16_t)device : -1;
    row.stream = stream >= 0 && stream <= INT32_MAX ? (int32_t)stream : -1;
    row.track = ett_part_track(r->part, device, ETT_ID_INTEGER, stream, ETT_ID_INTEGER);
    if (row.track != ETT_TRACE_NONE &&
        r->part->tracks[row.track].process == ETT_STRING_NONE) {
      char text[32];
      int n = snprintf(text, sizeof text, "GPU %" PRId64, device);
      r->part->tracks[row.track].process = intern(r, text, (size_t)n);
    }
  } else { /* serialized ids: hardware 8, VM 8, process 24, thread 24 bits */
    row.track = ett_part_track(r->part, global >> 24 & 0xFFFFFF, ETT_ID_INTEGER,
                               global & 0xFFFFFF, ETT_ID_INTEGER);
  }
  row.name = name_of(r, t, s);
  if (row.track == ETT_TRACE_NONE || row.name == ETT_STRING_NONE ||
      take_args(r, s, row.correlation))
    return -1;
  return ett_part_append(r->part, &row);
}

static int take_table(reading *r, const nsys_table *t) {
  const char *own = is_synchronisation(t->name) ? "cuda_sync" : t->name;
  uint16_t category = ett_lexicon_category(r->part->lexicon, own, strlen(own));
  char *sql = query_of(r->db, t, r->r->args, r->r->arg_count);
  sqlite3_stmt *s = NULL;
  int status = -1, code;
  if (!sql || category == ETT_CATEGORY_NONE) {
    if (sql && r->part->lexicon->categories.count >= ETT_CATEGORY_NONE - 1)
      ett_err_set(r->err, ETT_ERR_LIMIT,
                  "files read before it have 65534 categories, and none is left for "
                  "table %s",
                  t->name);
    else
      ett_err_set(r->err, ETT_ERR_MEMORY, "out of memory");
    goto done;
  }
  if (sqlite3_prepare_v2(r->db, sql, -1, &s, NULL) != SQLITE_OK) {
    failed(r);
    goto done;
  }
  while ((code = sqlite3_step(s)) == SQLITE_ROW)
    if (take_row(r, t, s, category)) {
      ett_err_set(r->err, ETT_ERR_MEMORY, "out of memory");
      goto done;
    }
  status = 0;
  if (code == SQLITE_NOMEM || code == SQLITE_TOOBIG || code == SQLITE_INTERRUPT)
    status = failed(r);
  else if (code != SQLITE_DONE) /* damaged pages: keep the rows before them */
    ett_part_damage(r->part, ETT_DAMAGE_BAD_MESSAGE, 0);
done:
  sqlite3_finalize(s);
  sqlite3_free(sql);
  return status;
}

/* Names of processes and threads for tracks with rows. */
static void name_tracks(reading *r, const char *sql, int thread) {
  sqlite3_stmt *s = NULL;
  if (sqlite3_prepare_v2(r->db, sql, -1, &s, NULL) == SQLITE_OK)
    while (sqlite3_step(s) == SQLITE_ROW) {
      int64_t global = sqlite3_column_int64(s, 0);
      const char *text = (const char *)sqlite3_column_text(s, 1);
      if (!text)
        continue;
      for (uint32_t i = 0; i < r->part->track_count; i++) {
        ett_track *k = &r->part->tracks[i];
        if (k->pid != (global >> 24 & 0xFFFFFF) ||
            (thread ? k->thread : k->process) != ETT_STRING_NONE ||
            (thread && k->tid != (global & 0xFFFFFF)))
          continue;
        uint32_t id = intern(r, text, (size_t)sqlite3_column_bytes(s, 1));
        if (id == ETT_STRING_NONE)
          continue;
        if (thread)
          k->thread = id;
        else
          k->process = id;
      }
    }
  sqlite3_finalize(s);
}

/* The first integer of a query; returns 1 if there is one. */
static int one_integer(reading *r, const char *sql, int64_t *value) {
  sqlite3_stmt *s = NULL;
  int found = 0;
  if (sqlite3_prepare_v2(r->db, sql, -1, &s, NULL) == SQLITE_OK &&
      sqlite3_step(s) == SQLITE_ROW && sqlite3_column_type(s, 0) == SQLITE_INTEGER) {
    *value = sqlite3_column_int64(s, 0);
    found = 1;
  }
  sqlite3_finalize(s);
  return found;
}

/* Views are programs, and tables may lack the indexes of an export: the thousands of
 * operations are limited by the size of the database. */
static int spend(void *room) {
  return --*(int64_t *)room < 0;
}

static int64_t bytes_of(sqlite3 *db) {
  sqlite3_stmt *s = NULL;
  int64_t bytes = 0;
  static const char sql[] = "SELECT page_count * page_size FROM pragma_page_count, "
                            "pragma_page_size";
  if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK &&
      sqlite3_step(s) == SQLITE_ROW)
    bytes = sqlite3_column_int64(s, 0);
  sqlite3_finalize(s);
  return bytes;
}

static int read_tables(void *database, const ett_reading *reads, ett_err *err) {
  reading r = {database, reads, reads->part, err, {0}};
  if (reads->ticks_per_second != 1000000000)
    return ett_err_set(err, ETT_ERR_INTERNAL, "an Nsight export is read in nanoseconds");
  if (ett_rocpd_is(database))
    return ett_rocpd_read_database(database, reads, err);
  bool any = false;
  int status = 0;
  for (const nsys_table *t = tables; t->name && !status; t++) {
    if (!has_column(r.db, t->name, "start"))
      continue;
    any = true;
    status = take_table(&r, t);
  }
  ett_strings_free(&r.processes);
  if (status)
    return -1;
  if (!any) {
    if (sqlite3_errcode(r.db) == SQLITE_NOTADB || sqlite3_errcode(r.db) == SQLITE_CORRUPT)
      return failed(&r);
    return ett_err_set(err, ETT_ERR_FORMAT,
                       "an SQLite file without tables of Nsight Systems such as "
                       "CUPTI_ACTIVITY_KIND_KERNEL or NVTX_EVENTS, and without the "
                       "views kernels, memory_copies or regions of rocprofv3");
  }
  name_tracks(&r, "SELECT globalPid, name FROM PROCESSES", 0);
  name_tracks(&r,
              "SELECT n.globalTid, s.value FROM ThreadNames n JOIN StringIds s "
              "ON s.id = n.nameId",
              1);
  int64_t value;
  char text[64];
  if (one_integer(&r, "SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME", &value))
    status = ett_reading_base(reads, value);
  if (one_integer(&r,
                  "SELECT rank FROM MPI_RANKS GROUP BY 1 HAVING "
                  "(SELECT count(DISTINCT rank) FROM MPI_RANKS) = 1",
                  &value) &&
      !status) {
    int n = snprintf(text, sizeof text, "{\"rank\": %" PRId64 "}", value);
    status = ett_part_member(r.part, "distributedInfo", 15, text, (size_t)n);
  }
  return status ? ett_err_set(err, ETT_ERR_MEMORY, "out of memory") : 0;
}

int ett_nsys_read_database(void *database, const ett_reading *reads, ett_err *err) {
  int64_t room = 10000 + bytes_of(database) / 10;
  sqlite3_progress_handler(database, 1000, spend, &room);
  const int status = read_tables(database, reads, err);
  sqlite3_progress_handler(database, 0, NULL, NULL);
  return status;
}

/* SQLite reports a truncated database as malformed; its header has the full length. */
static void say_if_cut_short(const char *path, ett_err *err) {
  unsigned char head[32];
  FILE *file = fopen(path, "rb");
  if (!file)
    return;
  if (fread(head, 1, sizeof head, file) == sizeof head &&
      fseeko(file, 0, SEEK_END) == 0) {
    int64_t page = head[16] << 8 | head[17], size = (int64_t)ftello(file);
    int64_t pages = (int64_t)head[28] << 24 | head[29] << 16 | head[30] << 8 | head[31];
    int64_t length = pages * (page == 1 ? 65536 : page);
    if (size >= 0 && size < length)
      ett_err_set(err, ETT_ERR_FORMAT,
                  "the database is truncated: it ends at byte %" PRId64 " of %" PRId64,
                  size, length);
  }
  fclose(file);
}

int ett_nsys_read(const char *path, const ett_reading *r, ett_err *err) {
  sqlite3 *db = NULL;
  int status;
  if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) !=
      SQLITE_OK) {
    status = ett_err_set(err, ETT_ERR_IO, "cannot open '%s': %s", path,
                         db ? sqlite3_errmsg(db) : "out of memory");
  } else {
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, LONGEST_TEXT);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    status = ett_nsys_read_database(db, r, err);
    if (status && sqlite3_errcode(db) == SQLITE_CORRUPT)
      say_if_cut_short(path, err);
  }
  sqlite3_close(db);
  return status;
}
