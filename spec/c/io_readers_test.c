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
#include "io/json_read.h"
#include "io/yaml.h"

static void json_events_in_order(void **state) {
  (void)state;
  static const char text[] = "{\"a\": [1, 2.5, null], \"b\\n\": \"x\"}";
  static const ett_json_kind wanted[] = {
      ETT_JSON_OBJECT_BEGIN, ETT_JSON_KEY,        ETT_JSON_ARRAY_BEGIN, ETT_JSON_INTEGER,
      ETT_JSON_FLOAT,        ETT_JSON_NULL,       ETT_JSON_ARRAY_END,   ETT_JSON_KEY,
      ETT_JSON_STRING,       ETT_JSON_OBJECT_END, ETT_JSON_END,         ETT_JSON_END};
  ett_json_reader reader;
  ett_json_event event;
  ett_err err;
  ett_json_reader_init(&reader, text, sizeof text - 1, ETT_JSON_STRICT);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    assert_int_equal(ett_json_next(&reader, &event, &err), 0);
    assert_int_equal(event.kind, wanted[i]);
    if (i == 7)
      assert_memory_equal(event.text, "b\n", 2);
  }
  ett_json_reader_free(&reader);
  ett_json_reader_free(&reader);
}

static void json_stays_failed(void **state) {
  (void)state;
  ett_json_reader reader;
  ett_json_event event;
  ett_err err;
  ett_json_reader_init(&reader, "[nul]", 5, ETT_JSON_STRICT);
  assert_int_equal(ett_json_next(&reader, &event, &err), 0);
  assert_int_equal(ett_json_next(&reader, &event, &err), -1);
  assert_string_equal(err.message, "line 1 (byte 1): wanted a value, got 'nul'");
  assert_int_equal(ett_json_next(&reader, &event, &err), -1);
  ett_json_reader_free(&reader);
}

static void yaml_nodes_know_their_place(void **state) {
  (void)state;
  static const char text[] = "a: &x [1, two]\nb:\n  c: *x\n";
  ett_yaml_document d;
  ett_err err;
  assert_int_equal(ett_yaml_read(text, sizeof text - 1, NULL, &d, &err), 0);
  assert_int_equal(d.nodes[0].kind, ETT_YAML_MAPPING);
  const ett_yaml_node *a = &d.nodes[d.nodes[0].first];
  assert_string_equal(d.text + a->value.string.offset, "a");
  const ett_yaml_node *list = &d.nodes[a->next];
  assert_int_equal(list->kind, ETT_YAML_SEQUENCE);
  assert_int_equal(d.nodes[list->first].value.integer, 1);
  const ett_yaml_node *b = &d.nodes[list->next], *inner = &d.nodes[b->next];
  const ett_yaml_node *c = &d.nodes[inner->first], *alias = &d.nodes[c->next];
  assert_int_equal(c->line, 3);
  assert_int_equal(c->column, 3);
  assert_int_equal(alias->kind, ETT_YAML_ALIAS);
  assert_ptr_equal(&d.nodes[alias->value.integer], list);
  ett_yaml_free(&d);
  ett_yaml_free(&d);
}

static void yaml_faults_leave_nothing(void **state) {
  (void)state;
  ett_yaml_document d;
  ett_err err;
  assert_int_equal(ett_yaml_read("a: [1", 5, NULL, &d, &err), -1);
  assert_null(d.nodes);
  const ett_yaml_limits narrow = {2, 3, 5};
  assert_int_equal(ett_yaml_read("[[[1]]]", 7, &narrow, &d, &err), -1);
  assert_int_equal(err.code, ETT_ERR_LIMIT);
  assert_int_equal(ett_yaml_read("[1,2,3,4]", 9, &narrow, &d, &err), -1);
  assert_int_equal(err.code, ETT_ERR_LIMIT);
  assert_int_equal(ett_yaml_read("abcdef", 6, &narrow, &d, &err), -1);
  assert_int_equal(err.code, ETT_ERR_LIMIT);
  assert_int_equal(ett_yaml_read("[a, bc]", 7, &narrow, &d, &err), 0);
  ett_yaml_free(&d);
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
  assert_int_equal(ett_file_write(path, "hello", 5, &err), 0);
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
      cmocka_unit_test(json_events_in_order),
      cmocka_unit_test(json_stays_failed),
      cmocka_unit_test(yaml_nodes_know_their_place),
      cmocka_unit_test(yaml_faults_leave_nothing),
      cmocka_unit_test(csv_columns),
      cmocka_unit_test(files_are_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
