/* Exports differ between versions of Nsight Systems: tables and columns are looked up,
 * and what is not there is NULL. An arg is a column of that name; the names that Kineto
 * uses for launch geometry and sizes are kept as aliases. */
#include "trace/read/nsys_query.h"

#include <string.h>
#include <strings.h>

const ett_nsys_table ett_nsys_tables[] = {
    {"CUPTI_ACTIVITY_KIND_KERNEL",
     ETT_NSYS_ON_DEVICE,
     NULL,
     {"demangledName", "shortName"},
     NULL},
    {"CUPTI_ACTIVITY_KIND_MEMCPY", ETT_NSYS_ON_DEVICE, NULL, {NULL}, "Memcpy"},
    {"CUPTI_ACTIVITY_KIND_MEMSET", ETT_NSYS_ON_DEVICE, NULL, {NULL}, "Memset"},
    {"CUPTI_ACTIVITY_KIND_RUNTIME", ETT_NSYS_ON_HOST, "name", {"nameId"}, NULL},
    {"NVTX_EVENTS", ETT_NSYS_ON_HOST, "text", {"textId", "jsonTextId"}, NULL},
    {"MPI_COLLECTIVES_EVENTS", ETT_NSYS_ON_HOST, NULL, {"textId", "nameId"}, NULL},
    {"MPI_P2P_EVENTS", ETT_NSYS_ON_HOST, NULL, {"textId", "nameId"}, NULL},
    {"MPI_START_WAIT_EVENTS", ETT_NSYS_ON_HOST, NULL, {"textId", "nameId"}, NULL},
    {"MPI_OTHER_EVENTS", ETT_NSYS_ON_HOST, NULL, {"textId", "nameId"}, NULL},
    {"CUBLAS_EVENTS", ETT_NSYS_ON_HOST, NULL, {"nameId"}, NULL},
    {"CUDNN_EVENTS", ETT_NSYS_ON_HOST, NULL, {"nameId"}, NULL},
    {"OSRT_API", ETT_NSYS_ON_HOST, NULL, {"nameId"}, NULL},
    {NULL, ETT_NSYS_ON_HOST, NULL, {NULL}, NULL},
};

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

bool ett_nsys_has(sqlite3 *db, const char *name, const char *column) {
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

/* The column as SQL, or NULL's name. Columns come from lists above or are quoted. */
static void append_column(sqlite3 *db, sqlite3_str *sql, const char *table,
                          const char *name) {
  if (ett_nsys_has(db, table, name))
    sqlite3_str_appendf(sql, ", t.\"%w\"", name);
  else
    sqlite3_str_appendall(sql, ", NULL");
}

static void append_arg(sqlite3 *db, sqlite3_str *sql, const char *table,
                       const char *arg) {
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
    const alias *a = &aliases[i];
    if (strcmp(a->arg, arg) != 0 || strcmp(a->table, table) != 0)
      continue;
    bool all = true;
    for (int k = 0; k < 3 && a->columns[k]; k++)
      all = all && ett_nsys_has(db, table, a->columns[k]);
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

char *ett_nsys_query(sqlite3 *db, const ett_nsys_table *t, const char *const *args,
                     uint32_t arg_count) {
  const bool strings = ett_nsys_has(db, "StringIds", "value");
  sqlite3_str *sql = sqlite3_str_new(db);
  sqlite3_str_appendf(sql, "SELECT t.start");
  append_column(db, sql, t->name, "end");
  append_column(db, sql, t->name, "deviceId");
  append_column(db, sql, t->name, "streamId");
  append_column(db, sql, t->name, "correlationId");
  append_column(db, sql, t->name,
                t->where == ETT_NSYS_ON_DEVICE ? "globalPid" : "globalTid");
  append_column(db, sql, t->name, "copyKind");
  append_column(db, sql, t->name, "eventType");
  sqlite3_str_appendall(sql, ", coalesce(NULL");
  for (int i = 0; i < 3 && t->ids[i]; i++)
    if (strings && ett_nsys_has(db, t->name, t->ids[i]))
      sqlite3_str_appendf(sql, ", (SELECT value FROM StringIds WHERE id = t.\"%w\")",
                          t->ids[i]);
  if (t->text && ett_nsys_has(db, t->name, t->text))
    sqlite3_str_appendf(sql, ", t.\"%w\"", t->text);
  sqlite3_str_appendall(sql, ", NULL)");
  for (uint32_t i = 0; i < arg_count; i++)
    append_arg(db, sql, t->name, args[i]);
  sqlite3_str_appendf(sql, " FROM \"%w\" t", t->name);
  return sqlite3_str_finish(sql);
}
