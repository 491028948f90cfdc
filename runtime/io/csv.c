#include "io/csv.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "io/number.h"
#include "io/utf8.h"

typedef struct {
  ett_csv_table *table;
  char *position, *end; /* in the table's own copy */
  char separator;
  size_t line; /* of position */
  uint32_t field_count;
  ett_err *err;
} scanner;

static int no_memory(ett_err *err) {
  return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to read csv");
}

static int add_field(scanner *s, const char *text, size_t length) {
  ett_csv_table *t = s->table;
  if (length > UINT32_MAX)
    return ett_err_set(s->err, ETT_ERR_LIMIT, "line %zu: field longer than 4 GiB",
                       s->line);
  if (ett_grow(&t->fields, s->field_count, &t->field_room, 256, sizeof *t->fields) != 0)
    return no_memory(s->err);
  t->fields[s->field_count++] = (ett_csv_field){text, (uint32_t)length};
  return 0;
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

/* Reads "..." at the position, folding "" to " in place. */
static int quoted_field(scanner *s) {
  const size_t start_line = s->line;
  char *text = ++s->position, *out = text;
  for (;; s->position++) {
    if (s->position == s->end)
      return ett_err_set(s->err, ETT_ERR_FORMAT, "line %zu: quote without an end",
                         start_line);
    if (*s->position == '"') {
      if (s->position + 1 == s->end || s->position[1] != '"')
        break;
      s->position++;
    }
    s->line += *s->position == '\n';
    *out++ = *s->position;
  }
  s->position++;
  while (s->position < s->end && is_blank(*s->position))
    s->position++;
  if (s->position < s->end && *s->position != s->separator && *s->position != '\n' &&
      *s->position != '\r')
    return ett_err_set(s->err, ETT_ERR_FORMAT, "line %zu: text after a closing quote",
                       s->line);
  return add_field(s, text, (size_t)(out - text));
}

static int plain_field(scanner *s) {
  char *text = s->position;
  while (s->position < s->end && *s->position != s->separator && *s->position != '\n')
    s->position++;
  char *last = s->position;
  while (last > text && (is_blank(last[-1]) || last[-1] == '\r'))
    last--;
  return add_field(s, text, (size_t)(last - text));
}

/* Reads the fields of one record; *count is their number. */
static int record(scanner *s, size_t *count) {
  for (*count = 1;; ++*count) {
    while (s->position < s->end && is_blank(*s->position) && *s->position != s->separator)
      s->position++;
    int status =
        s->position < s->end && *s->position == '"' ? quoted_field(s) : plain_field(s);
    if (status != 0)
      return -1;
    if (s->position < s->end && *s->position == s->separator) {
      s->position++;
      continue;
    }
    if (s->position < s->end && *s->position == '\r')
      s->position++;
    if (s->position < s->end && *s->position == '\n') {
      s->position++;
      s->line++;
    }
    return 0;
  }
}

/* Skips blank lines and comments; false at the end of the text. */
static bool to_record(scanner *s) {
  while (s->position < s->end) {
    char *stop = memchr(s->position, '\n', (size_t)(s->end - s->position));
    if (!stop)
      stop = s->end;
    char *text = s->position, *last = stop;
    while (last > text && (is_blank(last[-1]) || last[-1] == '\r'))
      last--;
    if (last > text && *text != '#')
      return true;
    s->position = stop < s->end ? stop + 1 : stop;
    s->line++;
  }
  return false;
}

static int check_names(const ett_csv_table *t, size_t line, ett_err *err) {
  for (size_t i = 0; i < t->columns; i++) {
    int first = ett_csv_column(t, t->names[i].text, t->names[i].length);
    if (first != (int)i)
      return ett_err_set(err, ETT_ERR_FORMAT, "line %zu: two columns are called '%.*s'",
                         line, (int)t->names[i].length, t->names[i].text);
  }
  return 0;
}

/* Takes the fields of the first record as names. */
static int header(scanner *s) {
  ett_csv_table *t = s->table;
  if (!to_record(s))
    return ett_err_set(s->err, ETT_ERR_FORMAT, "empty; expected a header line and rows");
  const size_t line = s->line;
  size_t count;
  if (record(s, &count) != 0)
    return -1;
  if (count > 4096)
    return ett_err_set(s->err, ETT_ERR_LIMIT, "line %zu: %zu columns; at most 4096", line,
                       count);
  t->columns = count;
  t->names = malloc(count * sizeof *t->names);
  if (!t->names)
    return no_memory(s->err);
  memcpy(t->names, t->fields, count * sizeof *t->names);
  s->field_count = 0;
  return check_names(t, line, s->err);
}

static int rows(scanner *s) {
  ett_csv_table *t = s->table;
  while (to_record(s)) {
    const size_t line = s->line;
    const bool last_line = !memchr(s->position, '\n', (size_t)(s->end - s->position));
    size_t count;
    if (ett_grow(&t->lines, (uint32_t)t->rows, &t->line_room, 256, sizeof *t->lines) != 0)
      return no_memory(s->err);
    if (record(s, &count) != 0)
      return -1;
    if (count != t->columns)
      return ett_err_set(
          s->err, ETT_ERR_FORMAT, "line %zu: %zu field%s where the header has %zu%s",
          line, count, count == 1 ? "" : "s", t->columns,
          last_line && count < t->columns ? "; is the file truncated?" : "");
    t->lines[t->rows++] = (uint32_t)line;
  }
  return 0;
}

int ett_csv_read(const char *data, size_t length, char separator, ett_csv_table *table,
                 ett_err *err) {
  memset(table, 0, sizeof *table);
  if (length >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0) {
    data += 3;
    length -= 3;
  }
  size_t valid = ett_utf8_valid_prefix(data, length);
  if (valid < length)
    return ett_err_set(err, ETT_ERR_FORMAT, "line %zu: not UTF-8 at byte %zu (0x%02x)",
                       ett_place_of(data, valid).line, valid, (unsigned char)data[valid]);
  table->data = malloc(length + 1);
  if (!table->data)
    return no_memory(err);
  memcpy(table->data, data, length);
  table->data[length] = '\0';
  scanner s = {table, table->data, table->data + length, separator, 1, 0, err};
  if (header(&s) == 0 && rows(&s) == 0)
    return 0;
  ett_csv_free(table);
  return -1;
}

int ett_csv_column(const ett_csv_table *table, const char *name, size_t length) {
  for (size_t i = 0; i < table->columns; i++) {
    if (table->names[i].length == length &&
        memcmp(table->names[i].text, name, length) == 0)
      return (int)i;
  }
  return -1;
}

const ett_csv_field *ett_csv_at(const ett_csv_table *table, size_t row, size_t column) {
  return &table->fields[row * table->columns + column];
}

static bool allowed(double value, ett_csv_number_kind kind) {
  const bool integral = value == floor(value) && fabs(value) <= 9007199254740992.0;
  switch (kind) {
  case ETT_CSV_NUMBER:
    return isfinite(value);
  case ETT_CSV_POSITIVE:
    return isfinite(value) && value > 0;
  case ETT_CSV_NONNEGATIVE:
    return isfinite(value) && value >= 0;
  case ETT_CSV_INTEGER:
    return integral;
  case ETT_CSV_COUNT:
    return integral && value > 0;
  }
  return false;
}

int ett_csv_numbers(const ett_csv_table *t, size_t column, ett_csv_number_kind kind,
                    double *values, ett_err *err) {
  static const char *const wanted[] = {"a finite number", "a positive number",
                                       "a number of at least 0", "an integer",
                                       "a positive integer"};
  size_t wrong = 0, first = 0;
  for (size_t row = 0; row < t->rows; row++) {
    const ett_csv_field *field = ett_csv_at(t, row, column);
    ett_number number = ett_number_parse(field->text, field->length);
    values[row] = number.number;
    if (number.kind == ETT_NUMBER_NONE || !allowed(number.number, kind)) {
      if (wrong++ == 0)
        first = row;
    }
  }
  if (wrong == 0)
    return 0;
  const ett_csv_field *field = ett_csv_at(t, first, column);
  char more[48] = "";
  if (wrong > 1)
    snprintf(more, sizeof more, " (and %zu more row%s)", wrong - 1, wrong > 2 ? "s" : "");
  return ett_err_set(err, ETT_ERR_FORMAT,
                     "line %u: column '%.*s' must be %s, got '%.*s'%s", t->lines[first],
                     (int)t->names[column].length, t->names[column].text, wanted[kind],
                     field->length < 60 ? (int)field->length : 60, field->text, more);
}

void ett_csv_free(ett_csv_table *table) {
  free(table->names);
  free(table->fields);
  free(table->lines);
  free(table->data);
  memset(table, 0, sizeof *table);
}
