/* CSV (RFC 4180) as columns, with the line of every row.
 *
 * The first record names the columns. Records that begin with '#' are comments. Blank
 * lines, a byte-order mark and carriage returns are skipped. Fields stay text until
 * ett_csv_numbers, whose errors name line, column and text. */
#ifndef ETT_IO_CSV_H
#define ETT_IO_CSV_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef struct {
  const char *text; /* into the table's copy; not NUL-terminated */
  uint32_t length;
} ett_csv_field;

typedef struct {
  size_t columns, rows;
  ett_csv_field *names;  /* columns of them */
  ett_csv_field *fields; /* row after row */
  uint32_t *lines;       /* line of the file on which a row begins, from 1 */
  char *data;
  uint32_t field_room, line_room;
} ett_csv_table;

/* Types of number columns; every type refuses NaN, infinities and text. */
typedef enum {
  ETT_CSV_NUMBER,
  ETT_CSV_POSITIVE,
  ETT_CSV_NONNEGATIVE,
  ETT_CSV_INTEGER, /* integral within 2^53, also "1.0" */
  ETT_CSV_COUNT,   /* a positive integer */
} ett_csv_number_kind;

/* Reads data[0 .. length), which is copied. Refused: rows with another number of fields
 * than the header, quotes without an end, columns of the same name, text that is not
 * UTF-8. Returns 0, or -1 with *table empty. */
int ett_csv_read(const char *data, size_t length, char separator, ett_csv_table *table,
                 ett_err *err);

/* Index of the column called name, or -1. */
int ett_csv_column(const ett_csv_table *table, const char *name, size_t length);

/* The field of a row and column, both from 0. */
const ett_csv_field *ett_csv_at(const ett_csv_table *table, size_t row, size_t column);

/* Fills values[0 .. rows) from a column. On a fault returns -1; err names the first wrong
 * line, its text, and the number of further ones. */
int ett_csv_numbers(const ett_csv_table *table, size_t column, ett_csv_number_kind kind,
                    double *values, ett_err *err);

/* Frees a table's memory; may be called twice, and on a zeroed table. */
void ett_csv_free(ett_csv_table *table);

#endif
