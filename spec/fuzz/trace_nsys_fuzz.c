/* Any schema as an Nsight export. The input is SQL that makes the tables (columns
 * missing, of other types, views in their place); inputs that begin with the magic of
 * SQLite are taken as a database image instead. */
#include <sqlite3.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/read/nsys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Statements that run long or reach outside of the database are cut short. */
static int ticking(void *count) {
  return ++*(int *)count > 200;
}

static int only_tables(void *unused, int action, const char *a, const char *b,
                       const char *c, const char *d) {
  (void)unused, (void)a, (void)b, (void)c, (void)d;
  return action == SQLITE_ATTACH || action == SQLITE_PRAGMA ? SQLITE_DENY : SQLITE_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const args[] = {"bytes", "grid", "registersPerThread", "text"};
  sqlite3 *db = NULL;
  int count = 0;
  unsigned char *image = NULL;
  if (size > 65536 || sqlite3_open(":memory:", &db) != SQLITE_OK)
    abort();
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1 << 20);
  sqlite3_limit(db, SQLITE_LIMIT_VDBE_OP, 25000);
  sqlite3_hard_heap_limit64(256 << 20);
  sqlite3_progress_handler(db, 5000, ticking, &count);
  if (size > 16 && memcmp(data, "SQLite format 3", 16) == 0) {
    image = sqlite3_malloc64(size);
    if (!image)
      abort();
    memcpy(image, data, size);
    sqlite3_deserialize(db, "main", image, (sqlite3_int64)size, (sqlite3_int64)size,
                        SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY);
  } else {
    char *sql = malloc(size + 1);
    if (!sql)
      abort();
    memcpy(sql, data, size);
    sql[size] = 0;
    sqlite3_set_authorizer(db, only_tables, NULL);
    sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_set_authorizer(db, NULL, NULL);
    free(sql);
  }
  count = 0;
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  ett_lexicon lexicon = {0};
  ett_trace_part part;
  ett_err err;
  if (ett_part_init(&part, 0, 4, &lexicon))
    abort();
  const ett_reading reading = {
      .part = &part, .args = args, .arg_count = 4, .ticks_per_second = 1000000000};
  (void)ett_nsys_read_database(db, &reading, &err);
  for (uint32_t b = 0; b < part.block_count; b++)
    for (uint32_t i = 0; i < part.blocks[b].count; i++)
      if (part.blocks[b].name[i] >= lexicon.strings.count ||
          part.blocks[b].track[i] >= part.track_count ||
          (part.blocks[b].dur[i] < 0 && !(part.blocks[b].ph[i] & ETT_PH_INVALID)))
        abort();
  ett_part_free(&part);
  ett_lexicon_free(&lexicon);
  sqlite3_close(db);
  return 0;
}
