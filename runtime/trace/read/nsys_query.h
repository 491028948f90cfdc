/* nsys_query.h - what an Nsight export holds: its tables, and each as one query. */
#ifndef ETT_TRACE_NSYS_QUERY_H
#define ETT_TRACE_NSYS_QUERY_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum ett_nsys_place { ETT_NSYS_ON_DEVICE, ETT_NSYS_ON_HOST } ett_nsys_place;

typedef struct ett_nsys_table {
  const char *name;
  ett_nsys_place where;
  const char *text;   /* column with the name's text, or NULL */
  const char *ids[3]; /* columns that refer to StringIds, best first */
  const char *fixed;  /* the name when there is no column for it */
} ett_nsys_table;

/* The tables whose rows are events; a NULL name ends them. */
extern const ett_nsys_table ett_nsys_tables[];

/* The columns of a query; the args follow from ETT_NSYS_ARGS on. */
enum {
  ETT_NSYS_START,
  ETT_NSYS_END,
  ETT_NSYS_DEVICE,
  ETT_NSYS_STREAM,
  ETT_NSYS_CORRELATION,
  ETT_NSYS_GLOBAL, /* serialized process, and thread on the host */
  ETT_NSYS_COPY_KIND,
  ETT_NSYS_TYPE,
  ETT_NSYS_TEXT,
  ETT_NSYS_ARGS
};

/* Whether the database has the table (a real one, no view) with that column; any column
 * for NULL. */
bool ett_nsys_has(sqlite3 *db, const char *name, const char *column);

/* The table's rows as SQL, freed by sqlite3_free; NULL when memory ran out. */
char *ett_nsys_query(sqlite3 *db, const ett_nsys_table *t, const char *const *args,
                     uint32_t arg_count);

#endif
