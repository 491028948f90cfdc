/* No text makes the CSV reader crash, leak or hand out fields that are not there. */
#include <stdint.h>
#include <stdlib.h>

#include "io/csv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char separators[] = ",;\t ";
  if (size == 0)
    return 0;
  const char separator = separators[data[0] % 4];
  ett_csv_table table;
  ett_err err = {ETT_OK, ""};
  if (ett_csv_read((const char *)data + 1, size - 1, separator, &table, &err) != 0) {
    if (err.code == ETT_OK || !err.message[0])
      abort();
    return 0;
  }
  unsigned long sum = 0;
  double *values = malloc((table.rows + 1) * sizeof *values);
  for (size_t column = 0; column < table.columns; column++) {
    for (size_t row = 0; row < table.rows; row++) {
      const ett_csv_field *field = ett_csv_at(&table, row, column);
      for (uint32_t i = 0; i < field->length; i++)
        sum += (unsigned char)field->text[i];
    }
    for (int kind = ETT_CSV_NUMBER; kind <= ETT_CSV_COUNT; kind++)
      ett_csv_numbers(&table, column, (ett_csv_number_kind)kind, values, &err);
  }
  free(values);
  ett_csv_free(&table);
  return sum == 1; /* keeps the reads */
}
