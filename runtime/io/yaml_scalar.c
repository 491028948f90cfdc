#include "io/yaml_scalar.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "io/number.h"

static bool is_word(const char *text, size_t length, const char *lower) {
  /* The core schema knows three spellings: null, Null, NULL. */
  if (strlen(lower) != length)
    return false;
  bool all_lower = true, all_upper = true, rest_lower = true;
  for (size_t i = 0; i < length; i++) {
    char up = lower[i] >= 'a' && lower[i] <= 'z' ? (char)(lower[i] - 32) : lower[i];
    all_lower = all_lower && text[i] == lower[i];
    all_upper = all_upper && text[i] == up;
    rest_lower = rest_lower && text[i] == (i == 0 ? up : lower[i]);
  }
  return all_lower || all_upper || rest_lower;
}

/* 0x1F and 0o17. */
static bool resolve_based(ett_yaml_scalar *scalar, const char *text, size_t length) {
  int base = length > 2 && text[0] == '0' ? (text[1] == 'x'   ? 16
                                             : text[1] == 'o' ? 8
                                                              : 0)
                                          : 0;
  if (base == 0)
    return false;
  int64_t value = 0;
  for (size_t i = 2; i < length; i++) {
    int digit = ett_hex_digit(text[i]);
    if (digit < 0 || digit >= base || value > (INT64_MAX - digit) / base)
      return false;
    value = value * base + digit;
  }
  *scalar = (ett_yaml_scalar){ETT_YAML_INTEGER, value, (double)value};
  return true;
}

static bool resolve_special_float(ett_yaml_scalar *scalar, const char *text,
                                  size_t length) {
  size_t sign = length > 0 && (text[0] == '-' || text[0] == '+');
  if (is_word(text + sign, length - sign, ".inf") ||
      (sign == 0 && length == 4 && memcmp(text, ".Inf", 4) == 0))
    scalar->number = text[0] == '-' ? -INFINITY : INFINITY;
  else if (sign == 0 && (is_word(text, length, ".nan") ||
                         (length == 4 && memcmp(text, ".NaN", 4) == 0)))
    scalar->number = NAN;
  else
    return false;
  scalar->kind = ETT_YAML_FLOAT;
  return true;
}

ett_yaml_scalar ett_yaml_resolve(const char *text, size_t length) {
  ett_yaml_scalar s = {.kind = ETT_YAML_STRING};
  const ett_number number = ett_number_parse(text, length);
  if (length == 0 || is_word(text, length, "null") || (length == 1 && text[0] == '~'))
    s.kind = ETT_YAML_NULL;
  else if (is_word(text, length, "true") || is_word(text, length, "false"))
    s = (ett_yaml_scalar){ETT_YAML_BOOLEAN, text[0] == 't' || text[0] == 'T', 0};
  else if (number.kind == ETT_NUMBER_INTEGER)
    s = (ett_yaml_scalar){ETT_YAML_INTEGER, number.integer, (double)number.integer};
  else if (number.kind == ETT_NUMBER_FLOAT)
    s = (ett_yaml_scalar){ETT_YAML_FLOAT, 0, number.number};
  else if (!resolve_based(&s, text, length))
    resolve_special_float(&s, text, length);
  return s;
}
