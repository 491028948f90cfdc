/* The scanner against simdjson: on random documents, on damaged ones that simdjson still
 * accepts, and on the shared traces where they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "trace_oracle.h"

static int compare(const char *bytes, size_t length, comparison *c) {
  ett_json_args args;
  ett_lexicon lexicon = {0};
  ett_trace_part part;
  ett_err err;
  assert_int_equal(ett_json_args_init(&args, asked, ASKED), 0);
  int status = read_memory(ett_json_scanner_best(), bytes, length, 0, ETT_JSON_DOCUMENT,
                           0, UINT64_MAX, &args, &lexicon, &part, &err);
  if (status == 0)
    status = compare_with_oracle(c, bytes, length, &part);
  else
    status = 2;
  ett_part_free(&part);
  ett_lexicon_free(&lexicon);
  ett_json_args_free(&args);
  return status;
}

static void test_random_documents(void **unused) {
  (void)unused;
  text t = {0};
  comparison c;
  unsigned accepted = 0;
  for (unsigned round = 0; round < 800; round++) {
    random_document(&t, roll(40));
    int status = compare(t.bytes, t.length, &c);
    if (status < 0)
      fail_msg("round %u: %s\n%.*s", round, c.wrong, (int)t.length, t.bytes);
    accepted += status == 0;
  }
  assert_int_equal(accepted, 800);
  free(t.bytes);
}

static void test_damaged_documents(void **unused) {
  (void)unused;
  text t = {0};
  comparison c;
  unsigned accepted = 0;
  for (unsigned round = 0; round < 8000; round++) {
    random_document(&t, 1 + roll(3));
    for (unsigned n = 1 + roll(2); n; n--) {
      size_t at = roll((unsigned)t.length);
      t.bytes[at] = roll(3) ? "0123456789 aeE.-+"[roll(17)] : "{}[],:\"\\"[roll(8)];
    }
    int status = compare(t.bytes, t.length, &c);
    if (status < 0)
      fail_msg("round %u: %s\n%.*s", round, c.wrong, (int)t.length, t.bytes);
    accepted += status == 0;
  }
  assert_true(accepted > 800);
  free(t.bytes);
}

static void test_shared_traces(void **unused) {
  (void)unused;
  static const char *const files[] = {
      "megatron_tp8_a100/kineto_trace_0.json.gz",
      "hta_ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
      "kineto_resnet50_nw0_old/d3fb4_worker0.pt.trace.json.gz",
      "tracelens/b200__eager_trace/eager_trace.json.gz",
      "tpu_inference_jax/2026_01_11_21_26_41/t1v-n-9eb622fc-w-0.trace.json.gz",
      "hta_cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"};
  const char *root = getenv("ETT_REFERENCE");
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char command[1024];
    snprintf(command, sizeof command, "gzip -dc '%s/traces/%s' 2>/dev/null",
             root ? root : ".", files[i]);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    text t = {0};
    char buffer[65536];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
      put(&t, buffer, n);
    pclose(pipe);
    if (t.length == 0) {
      free(t.bytes);
      print_message("skipped: no reference data (ETT_REFERENCE)\n");
      skip();
    }
    comparison c;
    int status = compare(t.bytes, t.length, &c);
    if (status)
      fail_msg("%s: %d %s", files[i], status, c.wrong);
    assert_true(c.events > 20);
    free(t.bytes);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_documents),
      cmocka_unit_test(test_damaged_documents),
      cmocka_unit_test(test_shared_traces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
