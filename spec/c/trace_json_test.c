/* The scanner: every instruction set reads the same, in one stretch or in many, from a
 * source that gives a byte at a time or all at once; numbers are exact; damage is counted
 * at its byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "io/utf8.h"
#include "trace_json_support.h"

static const char *const names[] = {"plain", "sse2", "avx2"};

static void damage_random(text *t) {
  for (unsigned n = 1 + roll(3); n; n--) {
    size_t at = roll((unsigned)t->length);
    switch (roll(5)) {
    case 0:
      t->length = at;
      break;
    case 1:
      t->bytes[at] = '"';
      break;
    case 2:
      t->bytes[at] = (char)roll(256);
      break;
    case 3:
      t->bytes[at] = "{}[],:\\"[roll(7)];
      break;
    default: {
      size_t to = at + roll(40) < t->length ? at + roll(40) : t->length;
      if (to > t->length)
        to = t->length;
      memmove(t->bytes + at, t->bytes + to, t->length - to);
      t->length -= to - at;
    }
    }
    if (t->length == 0)
      put(t, "[", 1);
  }
}

static uint64_t read_whole(const ett_json_scanner *s, const text *t, size_t step,
                           const ett_json_args *args, uint64_t *damage) {
  ett_lexicon lexicon = {0};
  ett_trace_part part;
  ett_err err;
  int status = read_memory(s, t->bytes, t->length, step, ETT_JSON_DOCUMENT, 0, UINT64_MAX,
                           args, &lexicon, &part, &err);
  uint64_t h = digest(status ? 7 : 1, &part) + part.seen;
  *damage = 0;
  for (int d = 0; d < ETT_DAMAGE_COUNT; d++)
    *damage = mix(mix(*damage, &part.damage[d].count, 8), &part.damage[d].offset, 8);
  ett_part_free(&part);
  ett_lexicon_free(&lexicon);
  return h;
}

static void test_instruction_sets_agree(void **unused) {
  (void)unused;
  text t = {0};
  ett_json_args args;
  assert_int_equal(ett_json_args_init(&args, asked, ASKED), 0);
  for (unsigned round = 0; round < 400; round++) {
    if (round % 4 == 3)
      repeated_document(&t, roll(60));
    else
      random_document(&t, roll(30));
    if (round % 3)
      damage_random(&t);
    uint64_t want_damage, damage;
    uint64_t want =
        read_whole(ett_json_scanner_named("plain"), &t, 0, &args, &want_damage);
    for (int i = 0; i < 3; i++) {
      const ett_json_scanner *s = ett_json_scanner_named(names[i]);
      if (!s)
        continue;
      for (int step = 0; step < 2; step++) {
        uint64_t h = read_whole(s, &t, step ? 1 + roll(200) : 0, &args, &damage);
        if (h != want || damage != want_damage)
          fail_msg("round %u, %s: reads otherwise than plain", round, names[i]);
      }
    }
  }
  ett_json_args_free(&args);
  free(t.bytes);
}

/* As load.c does it: guesses are checked against where the stretch before ended. */
static void test_stretches_agree(void **unused) {
  (void)unused;
  text t = {0};
  ett_json_args args;
  unsigned right = 0, guesses = 0;
  assert_int_equal(ett_json_args_init(&args, asked, ASKED), 0);
  for (unsigned round = 0; round < 150; round++) {
    random_document(&t, 60 + roll(200));
    const ett_json_scanner *s = ett_json_scanner_best();
    ett_lexicon lexicon = {0};
    ett_trace_part part;
    ett_err err;
    uint64_t damage, want = read_whole(s, &t, 0, &args, &damage);
    uint64_t seen = 0, h = 1, chunk = 500 + roll(8000), position = 0;
    for (uint64_t at = 0; at < t.length; at += chunk) {
      uint64_t stop = at + chunk < t.length ? at + chunk : UINT64_MAX;
      assert_int_equal(read_memory(s, t.bytes, t.length, 0,
                                   at ? ETT_JSON_GUESS : ETT_JSON_DOCUMENT, at, stop,
                                   &args, &lexicon, &part, &err),
                       0);
      if (at) {
        guesses += position < stop;
        right += position < stop && part.begin == position;
      }
      if (at && part.begin != position) { /* read again from the right place */
        ett_part_free(&part);
        if (position == ETT_JSON_NOWHERE || position >= stop)
          continue;
        assert_int_equal(read_memory(s, t.bytes, t.length, 0, ETT_JSON_ARRAY, position,
                                     stop, &args, &lexicon, &part, &err),
                         0);
      }
      position = part.end;
      h = digest(h, &part);
      seen += part.seen;
      ett_part_free(&part);
    }
    ett_lexicon_free(&lexicon);
    assert_int_equal(position, ETT_JSON_NOWHERE);
    assert_int_equal(h + seen, want);
  }
  /* structure tells the boundary nearly always, even in documents as odd as these */
  assert_true(right * 10 >= guesses * 8);
  ett_json_args_free(&args);
  free(t.bytes);
}

/* A stretch that begins inside an array cannot know whether the array is a member of the
 * root object or the document: what stands behind it is read from anywhere alike, in
 * damaged documents too. */
static void test_members_behind_an_array(void **unused) {
  (void)unused;
  static const struct {
    const char *root, *behind;
    uint64_t seen; /* in the whole document */
  } cases[] = {
      {"", "], \"traceEvents\": [", 3},
      {"{\"traceEvents\": ", "], \"traceEvents\": [", 3},
      {"", "]\"traceEvents\": [", 3},
      {"{\"traceEvents\": ", "]\"traceEvents\": [", 3},
      {"", "]}, \"traceEvents\": [", 2},
      {"{\"traceEvents\": ", "]}, \"traceEvents\": [", 2},
      {"", "] 7, \"traceEvents\": [", 2},
      {"{\"traceEvents\": ", "] 7, \"traceEvents\": [", 2},
  };
  const ett_json_scanner *s = ett_json_scanner_best();
  ett_json_args args;
  assert_int_equal(ett_json_args_init(&args, asked, ASKED), 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char document[512];
    const size_t length =
        (size_t)snprintf(document, sizeof document,
                         "%s[{\"ph\": \"X\", \"name\": \"a\", \"ts\": 1, \"dur\": 1},\n"
                         " {\"ph\": \"X\", \"name\": \"b\", \"ts\": 2, \"dur\": 1}%s\n"
                         " {\"ph\": \"X\", \"name\": \"c\", \"ts\": 3, \"dur\": 1}]}",
                         cases[i].root, cases[i].behind);
    const uint64_t second = (uint64_t)(strchr(document, '\n') + 2 - document);
    ett_lexicon lexicon = {0};
    ett_trace_part part;
    ett_err err;
    uint64_t damage[2];
    for (int stretch = 0; stretch < 2; stretch++) {
      assert_int_equal(read_memory(s, document, length, 0,
                                   stretch ? ETT_JSON_ARRAY : ETT_JSON_DOCUMENT,
                                   stretch ? second : 0, UINT64_MAX, &args, &lexicon,
                                   &part, &err),
                       0);
      assert_int_equal(part.seen, cases[i].seen - (uint64_t)stretch);
      damage[stretch] = part.damage[ETT_DAMAGE_BAD_EVENT].count;
      ett_part_free(&part);
    }
    assert_int_equal(damage[0], damage[1]);
    ett_lexicon_free(&lexicon);
  }
  ett_json_args_free(&args);
}

/* Args whose bytes begin as those of an event before, and then differ. */
static void test_members_seen_before(void **unused) {
  (void)unused;
  static const struct {
    const char *args;
    int stream; /* -2: no row */
  } cases[] = {
      {"{\"Sequence\": 1, \"stream\": 5}", 5},
      {"{\"Sequence\": 1,   \"stream\": 6}", 6},
      {"{\"Sequence\": 1,\"stream\": 7}", 7},
      {"{\"Sequence\":  1, \"stream\":   8}", 8},
      {"{\"Sequence\": 1}", -1},
      {"{\"Sequence\": 1 , \"stream\": 9}", 9},
      {"{\"Sequence\": 12, \"stream\": 10}", 10},
      {"{\"Sequence\": 1, 2}", -2},
      {"{\"Sequence\": 1 2}", -2},
      {"{\"Sequence\": 1, }", -2},
      {"{\"Sequence\": \"a\", \"stream\": 11}", 11},
      {"{\"Sequence\": \"a, \", \"stream\": 12}", 12},
      {"{\"stream\": 13, \"Sequence\": \"a\"}", 13},
      {"{\"Sequence\": {\"stream\": 1}, \"stream\": 14}", 14},
      {"{\"Sequence\": 1, \"stream\": 5}", 5},
  };
  ett_json_args args;
  assert_int_equal(ett_json_args_init(&args, asked, ASKED), 0);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const ett_json_scanner *s = ett_json_scanner_named(names[i]);
    if (!s)
      continue;
    text t = {0};
    puts_(&t, "[");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
      puts_(&t, k ? ", {\"ph\": \"X\", \"name\": \"a\", \"ts\": 1, \"args\": "
                  : "{\"ph\": \"X\", \"name\": \"a\", \"ts\": 1, \"args\": ");
      puts_(&t, cases[k].args);
      puts_(&t, "}");
    }
    puts_(&t, "]");
    ett_lexicon lexicon = {0};
    ett_trace_part part;
    ett_err err;
    assert_int_equal(read_memory(s, t.bytes, t.length, 0, ETT_JSON_DOCUMENT, 0,
                                 UINT64_MAX, &args, &lexicon, &part, &err),
                     0);
    uint32_t row = 0;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
      if (cases[k].stream > -2)
        assert_int_equal(part.blocks[0].stream[row++], cases[k].stream);
    assert_int_equal(part.blocks[0].count, row);
    assert_int_equal(part.damage[ETT_DAMAGE_BAD_EVENT].count, 3);
    ett_part_free(&part);
    ett_lexicon_free(&lexicon);
    free(t.bytes);
  }
  ett_json_args_free(&args);
}

/* An event that is written like an earlier one, but for what it says. */
static void test_events_seen_before(void **unused) {
  (void)unused;
  static const struct {
    const char *event;
    int64_t ts, tid, stream, bytes; /* bytes -1: no such arg; ts -1: no row */
  } cases[] = {
      {"{\"ph\": \"X\", \"tid\": 5, \"ts\": 10, \"args\": {\"bytes\": 4, \"stream\": 7}}",
       10, 5, 7, 4},
      {"{\"ph\": \"X\", \"tid\": 5, \"ts\": 11, \"args\": {\"bytes\": 4, \"stream\": 7}}",
       11, 5, 7, 4},
      {"{\"ph\": \"X\", \"tid\": 5, \"ts\": 12, \"args\": {\"bytes\": 4, \"stream\": 7}}",
       12, 5, 7, 4},
      {"{\"ph\": \"X\", \"tid\": 6, \"ts\": 13, \"args\": {\"bytes\": 5, \"stream\": 8}}",
       13, 6, 8, 5},
      {"{\"ph\": \"X\", \"tid\": 5, \"ts\": 14, \"args\": {\"bytes\": 4, \"stream\": 7 "
       "2}}",
       -1, 0, 0, 0},
      {"{\"ph\": \"X\", \"tid\": 5, \"ts\": 15, \"args\": {\"bytez\": 4, \"stream\": 7}}",
       15, 5, 7, -1},
      {"{\"ph\": \"X\", \"tid\": 5, \"ts\":  16, \"args\": {\"bytes\": 4, \"stream\": "
       "7}}",
       16, 5, 7, 4},
      {"{\"ph\": \"s\", \"tid\": 5, \"ts\": 17, \"args\": {\"bytes\": 4, \"stream\": 7}}",
       -1, 0, 0, 0},
      {"{\"ph\": \"s\", \"tid\": 5, \"ts\": 18, \"args\": {\"bytes\": 4, \"stream\": 7}}",
       -1, 0, 0, 0},
      {"{\"ph\": \"X\", \"tid\": 5, \"ts\": 19, \"args\": {\"stream\": 7}}", 19, 5, 7,
       -1},
      {"{\"ph\": \"X\", \"tid\": 5, \"ts\": 20, \"args\": {\"bytes\": 4, \"stream\": 7}}",
       20, 5, 7, 4},
  };
  ett_json_args args;
  assert_int_equal(ett_json_args_init(&args, asked, ASKED), 0);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const ett_json_scanner *s = ett_json_scanner_named(names[i]);
    if (!s)
      continue;
    text t = {0};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
      puts_(&t, k ? "," : "[");
      puts_(&t, cases[k].event);
    }
    puts_(&t, "]");
    ett_lexicon lexicon = {0};
    ett_trace_part part;
    ett_err err;
    assert_int_equal(read_memory(s, t.bytes, t.length, 0, ETT_JSON_DOCUMENT, 0,
                                 UINT64_MAX, &args, &lexicon, &part, &err),
                     0);
    const ett_trace_block *b = &part.blocks[0];
    const ett_args_column *bytes = &part.args[3];
    uint32_t row = 0, arg = 0;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
      if (cases[k].ts < 0)
        continue;
      assert_int_equal(b->ts[row], cases[k].ts * 1000);
      assert_int_equal(part.tracks[b->track[row]].tid, cases[k].tid);
      assert_int_equal(b->stream[row], cases[k].stream);
      if (cases[k].bytes >= 0) {
        assert_int_equal(bytes->items[arg].row, row);
        assert_int_equal(bytes->items[arg++].value.integer, cases[k].bytes);
      }
      row++;
    }
    assert_int_equal(b->count, row);
    assert_int_equal(bytes->count, arg);
    assert_int_equal(part.damage[ETT_DAMAGE_BAD_EVENT].count, 1);
    ett_part_free(&part);
    ett_lexicon_free(&lexicon);
    free(t.bytes);
  }
  ett_json_args_free(&args);
}

static int64_t time_of(const char *digits, unsigned decimals, uint64_t *damaged) {
  char document[256];
  int n = snprintf(document, sizeof document,
                   "[{\"ph\": \"X\", \"name\": \"a\", \"ts\": %s, \"dur\": 1}]", digits);
  ett_json_args args;
  ett_lexicon lexicon = {0};
  ett_trace_part part;
  ett_err err;
  assert_int_equal(ett_json_args_init(&args, NULL, 0), 0);
  memory_source source = {document, (size_t)n, 0, 0};
  assert_int_equal(ett_part_init(&part, 0, 0, &lexicon), 0);
  ett_json_job job = {.scanner = ett_json_scanner_best(),
                      .args = &args,
                      .part = &part,
                      .source = {&source, memory_read},
                      .stop = UINT64_MAX,
                      .decimals = decimals};
  assert_int_equal(ett_json_read(&job, &err), 0);
  assert_int_equal(part.block_count, 1);
  int64_t ts = part.blocks[0].ts[0];
  *damaged = part.damage[ETT_DAMAGE_INTEGER_OVERFLOW].count +
             part.damage[ETT_DAMAGE_BAD_NUMBER].count;
  ett_part_free(&part);
  ett_lexicon_free(&lexicon);
  ett_json_args_free(&args);
  return ts;
}

static void test_times(void **unused) {
  (void)unused;
  static const struct {
    const char *digits;
    unsigned decimals;
    int64_t ticks;
    uint64_t damaged;
  } cases[] = {
      {"1661203462598738", 3, 1661203462598738000, 0},
      {"\"1661203462598738\"", 3, 1661203462598738000, 0},
      {"4203669613175.703", 3, 4203669613175703, 0},
      {"1672876799198727.123", 3, 1672876799198727123, 0},
      {"0.0005", 3, 1, 0},
      {"0.00049", 3, 0, 0},
      {"-0.0005", 3, -1, 0},
      {"-12.5", 3, -12500, 0},
      {"4.4873950000000002", 6, 4487395, 0},
      {"1213162.7844720001", 6, 1213162784472, 0},
      {"1e3", 3, 1000000, 0},
      {"1.5E-3", 3, 2, 0},
      {"123456789012345678901234567890", 3, INT64_MAX / 2, 1},
      {"9223372036854775", 3, 9223372036854775000, 0},
      {"9223372036854775.807", 3, INT64_MAX, 0},
      {"9223372036854775.808", 3, INT64_MAX / 2, 1},
      {"NaN", 3, 0, 1},
      {"true", 3, 0, 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint64_t damaged;
    int64_t ticks = time_of(cases[i].digits, cases[i].decimals, &damaged);
    if (ticks != cases[i].ticks || damaged != cases[i].damaged)
      fail_msg("%s: %" PRId64 " ticks, %" PRIu64 " damaged", cases[i].digits, ticks,
               damaged);
  }
}

static void test_strings(void **unused) {
  (void)unused;
  static const struct {
    const char *raw, *text;
    int bad;
  } cases[] = {
      {"a\\\"b\\\\c\\/d\\n", "a\"b\\c/d\n", 0},
      {"\\u00e9\\u20ac\\ud83d\\ude00", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 0},
      {"\\ud83d!", "\xEF\xBF\xBD!", 1},
      {"\\q", "\\q", 1},
      {"\\u12", "\\u12", 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char out[64];
    int bad;
    size_t n = ett_json_unescape(cases[i].raw, strlen(cases[i].raw), out, &bad);
    assert_int_equal(n, strlen(cases[i].text));
    assert_memory_equal(out, cases[i].text, n);
    assert_int_equal(bad, cases[i].bad);
  }
  assert_int_equal(ett_utf8_valid_prefix("a\xC3\xA9", 3), 3);
  assert_int_equal(ett_utf8_valid_prefix("\xC0\xAF", 2), 0);
  assert_int_equal(ett_utf8_valid_prefix("\xED\xA0\x80", 3), 0);
  assert_int_equal(ett_utf8_valid_prefix("\xE2\x82", 2), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_instruction_sets_agree),
      cmocka_unit_test(test_stretches_agree),
      cmocka_unit_test(test_members_behind_an_array),
      cmocka_unit_test(test_members_seen_before),
      cmocka_unit_test(test_events_seen_before),
      cmocka_unit_test(test_times),
      cmocka_unit_test(test_strings),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
