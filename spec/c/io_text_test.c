/* Numbers, UTF-8 and hashes. */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/hash.h"
#include "io/number.h"
#include "io/utf8.h"

static ett_number parse(const char *text) {
  return ett_number_parse(text, strlen(text));
}

static void integers_stay_integers(void **state) {
  (void)state;
  assert_int_equal(parse("-42").kind, ETT_NUMBER_INTEGER);
  assert_int_equal(parse("-42").integer, -42);
  assert_true(parse("9223372036854775807").integer == INT64_MAX);
  assert_true(parse("-9223372036854775808").integer == INT64_MIN);
  assert_int_equal(parse("9223372036854775808").kind, ETT_NUMBER_FLOAT);
  assert_int_equal(parse("-9223372036854775809").kind, ETT_NUMBER_FLOAT);
  assert_int_equal(parse("00012").integer, 12);
  assert_int_equal(parse("99999999999999999999").kind, ETT_NUMBER_FLOAT);
}

static void what_is_no_number(void **state) {
  (void)state;
  static const char *const texts[] = {"",    "-",     "+",    ".",     "e5",  "1e",
                                      "1e+", "1.2.3", "0x10", "inf",   "nan", " 1",
                                      "1 ",  "1,5",   "--1",  "1_000", "1f"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    assert_int_equal(parse(texts[i]).kind, ETT_NUMBER_NONE);
  char longest[ETT_NUMBER_MAX_LENGTH + 2];
  memset(longest, '1', sizeof longest);
  assert_int_equal(ett_number_parse(longest, ETT_NUMBER_MAX_LENGTH).kind,
                   ETT_NUMBER_FLOAT);
  assert_int_equal(ett_number_parse(longest, ETT_NUMBER_MAX_LENGTH + 1).kind,
                   ETT_NUMBER_NONE);
}

/* The oracle is the C library's strtol, over every character. */
static void hexadecimal_digits(void **state) {
  (void)state;
  for (int c = 0; c < 256; c++) {
    const char text[2] = {(char)c, '\0'};
    const int wanted = isxdigit(c) ? (int)strtol(text, NULL, 16) : -1;
    assert_int_equal(ett_hex_digit((char)c), wanted);
  }
}

/* The oracle is the C library's strtod, over every shape the fast way tells apart. */
static void floats_are_those_of_strtod(void **state) {
  (void)state;
  static const char *const fixed[] = {"1.26e9",
                                      "0.1",
                                      "1.",
                                      ".5",
                                      "123456789012345678.5",
                                      "1e22",
                                      "1e23",
                                      "1e-22",
                                      "9007199254740993.0",
                                      "2.2250738585072011e-308",
                                      "4.9e-324",
                                      "1e400",
                                      "1e-400",
                                      "0.000000000000000000000000000001234",
                                      "-0.0",
                                      "1797693134862315708145274237317043567980e270"};
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
    assert_int_equal(parse(fixed[i]).kind, ETT_NUMBER_FLOAT);
    assert_true(parse(fixed[i]).number == strtod(fixed[i], NULL));
  }
  assert_true(signbit(parse("-0.0").number));
  uint64_t seed = 1;
  for (int i = 0; i < 200000; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    char text[64];
    const int digits = 1 + (int)(seed >> 60), exponent = (int)(seed >> 40 & 63) - 31;
    snprintf(text, sizeof text, "%.*ge%d", digits, (double)(seed >> 11) / 1e6, exponent);
    if (strchr(text, '.') == NULL && strchr(text, 'e') == NULL)
      continue;
    const double wanted = strtod(text, NULL);
    const ett_number got = parse(text);
    if (got.kind == ETT_NUMBER_NONE) /* "%g" made "1e+05e3" */
      continue;
    assert_true(got.number == wanted);
  }
}

static void formats_read_back(void **state) {
  (void)state;
  char text[ETT_NUMBER_FORMAT_SIZE];
  ett_number_format(0.1, text);
  assert_string_equal(text, "0.1");
  ett_number_format(3, text);
  assert_string_equal(text, "3.0");
  ett_number_format(1e300, text);
  assert_string_equal(text, "1e+300");
  ett_number_format(-INFINITY, text);
  assert_string_equal(text, "-inf");
  uint64_t seed = 7;
  for (int i = 0; i < 100000; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    double value;
    memcpy(&value, &seed, sizeof value);
    if (!isfinite(value))
      continue;
    const size_t length = ett_number_format(value, text);
    assert_true(length < sizeof text && text[length] == '\0');
    assert_true(ett_number_parse(text, length).number == value);
  }
}

/* Every code point there is, and every byte string of three bytes against the table of
 * the standard, read from the other side: decode by the plain rule, then check the range.
 */
static int plainly_valid(const unsigned char *b, size_t n) {
  size_t i = 0;
  while (i < n) {
    const int extra = b[i] < 0x80       ? 0
                      : b[i] >> 5 == 6  ? 1
                      : b[i] >> 4 == 14 ? 2
                      : b[i] >> 3 == 30 ? 3
                                        : -1;
    if (extra < 0 || i + (size_t)extra >= n)
      return 0;
    uint32_t code = extra == 0 ? b[i] : b[i] & (0x3Fu >> extra);
    for (int k = 1; k <= extra; k++) {
      if (b[i + (size_t)k] >> 6 != 2)
        return 0;
      code = code << 6 | (b[i + (size_t)k] & 0x3Fu);
    }
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (code < least[extra] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      return 0;
    i += (size_t)extra + 1;
  }
  return 1;
}

static void utf8_agrees_with_the_plain_rule(void **state) {
  (void)state;
  for (uint32_t code = 0; code <= 0x10FFFF; code++) {
    char bytes[4];
    const size_t length = ett_utf8_encode(code, bytes);
    const int surrogate = code >= 0xD800 && code <= 0xDFFF;
    assert_int_equal(ett_utf8_valid_prefix(bytes, length) == length, !surrogate);
  }
  for (uint32_t word = 0; word < 1u << 24; word += 7) {
    const unsigned char bytes[3] = {(unsigned char)word, (unsigned char)(word >> 8),
                                    (unsigned char)(word >> 16)};
    assert_int_equal(ett_utf8_valid_prefix((const char *)bytes, 3) == 3,
                     plainly_valid(bytes, 3));
  }
  assert_int_equal(ett_utf8_valid_prefix("0123456789\xFF", 11), 10);
  static const char *const bad[] = {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                    "\x80",     "\xE2\x82",     "\xFE"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_int_equal(ett_utf8_valid_prefix(bad[i], strlen(bad[i])), 0);
  const ett_place place = ett_place_of("a\nb\ncd", 5);
  assert_int_equal(place.line, 3);
  assert_int_equal(place.column, 2);
}

static void hashes_tell_pieces_apart(void **state) {
  (void)state;
  char a[ETT_HASH_SIZE], b[ETT_HASH_SIZE];
  /* XXH3-128 of no bytes, from the specification of xxHash. */
  ett_hash_pieces(NULL, 0, a);
  assert_string_equal(a, "99aa06d3014798d86001c324468d497f");
  ett_hash_pieces((const ett_hash_piece[]){{"ab", 2}, {"c", 1}}, 2, a);
  ett_hash_pieces((const ett_hash_piece[]){{"a", 1}, {"bc", 2}}, 2, b);
  assert_string_not_equal(a, b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(integers_stay_integers),
      cmocka_unit_test(what_is_no_number),
      cmocka_unit_test(hexadecimal_digits),
      cmocka_unit_test(floats_are_those_of_strtod),
      cmocka_unit_test(formats_read_back),
      cmocka_unit_test(utf8_agrees_with_the_plain_rule),
      cmocka_unit_test(hashes_tell_pieces_apart),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
