/* The readers of JSON, YAML and CSV as C sees them: nodes, fields, and what a fault
 * leaves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/csv.h"
#include "io/file.h"
#include "io/json_prepare.h"

static void assert_prepared(const char *text, const char *wanted) {
  char out[128];
  size_t measured, written;
  ett_err err;
  assert_int_equal(ett_json_prepare(text, strlen(text), NULL, &measured, &err), 0);
  assert_int_equal(ett_json_prepare(text, strlen(text), out, &written, &err), 0);
  assert_int_equal(measured, written);
  assert_int_equal(written, strlen(wanted));
  assert_memory_equal(out, wanted, written);
}

static void json_keeps_what_cjson_would_lose(void **state) {
  (void)state;
  assert_prepared("{\"a\": [1, -2.5, null, \"[]1.0\\\"[]\"]}",
                  "{\"a\": [1, -2.5, null, \"[]1.0\\\"[]\"]}");
  assert_prepared("9007199254740991", "9007199254740991");
  assert_prepared("[9007199254740993,-1e3]", "[\"\xFF"
                                             "9007199254740993\",\"\xFF-1e3\"]");
  assert_prepared("-0", "-0");
  assert_prepared("[ ]", "[\"\xFF\" ]");
  assert_prepared("[01, 1e, \"", "[01, 1e, \"");
}

static void json_faults_have_a_place(void **state) {
  (void)state;
  size_t written;
  ett_err err;
  assert_int_equal(ett_json_prepare("[\n 1e999]", 9, NULL, &written, &err), -1);
  assert_string_equal(err.message, "2:2: number too large for a double");
  assert_int_equal(ett_json_prepare("\"a\xFF\"", 4, NULL, &written, &err), -1);
  assert_string_equal(err.message, "1:3: not UTF-8");
}

static void csv_columns(void **state) {
  (void)state;
  static const char text[] = "x,y\n1,2.5\n3,-4\n";
  ett_csv_table t;
  ett_err err;
  double values[2];
  assert_int_equal(ett_csv_read(text, sizeof text - 1, ',', &t, &err), 0);
  assert_int_equal(t.rows, 2);
  assert_int_equal(ett_csv_column(&t, "y", 1), 1);
  assert_int_equal(ett_csv_column(&t, "z", 1), -1);
  assert_int_equal(ett_csv_numbers(&t, 1, ETT_CSV_NUMBER, values, &err), 0);
  assert_true(values[0] == 2.5 && values[1] == -4);
  assert_int_equal(ett_csv_numbers(&t, 1, ETT_CSV_POSITIVE, values, &err), -1);
  assert_string_equal(err.message,
                      "line 3: column 'y' must be a positive number, got '-4'");
  ett_csv_free(&t);
  ett_csv_free(&t);
  assert_int_equal(ett_csv_read("a\n\"", 3, ',', &t, &err), -1);
  assert_null(t.data);
}

static void files_are_whole(void **state) {
  (void)state;
  char path[] = "/tmp/ett_file_XXXXXX";
  const int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  ett_err err;
  char *data;
  size_t length;
  assert_int_equal(ett_file_write(path, "hello", 5, ETT_FILE_NAMED, &err), 0);
  assert_int_equal(ett_file_read(path, 5, &data, &length, &err), 0);
  assert_int_equal(length, 5);
  assert_string_equal(data, "hello");
  free(data);
  assert_int_equal(ett_file_read(path, 4, &data, &length, &err), -1);
  assert_int_equal(err.code, ETT_ERR_LIMIT);
  assert_null(data);
  unlink(path);
  assert_int_equal(ett_file_read(path, 5, &data, &length, &err), -1);
  assert_int_equal(err.code, ETT_ERR_MISSING);
  assert_int_equal(ett_file_read("/", 5, &data, &length, &err), -1);
  assert_string_equal(err.message, "cannot read '/': is a directory");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(json_keeps_what_cjson_would_lose),
      cmocka_unit_test(json_faults_have_a_place),
      cmocka_unit_test(csv_columns),
      cmocka_unit_test(files_are_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
