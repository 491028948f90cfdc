#include "io/yaml_scalar.h"

#include <math.h>
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
static bool resolve_based(ett_yaml_node *node, const char *text, size_t length) {
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
  node->kind = ETT_YAML_INTEGER;
  node->value.integer = value;
  return true;
}

static bool resolve_special_float(ett_yaml_node *node, const char *text, size_t length) {
  size_t sign = length > 0 && (text[0] == '-' || text[0] == '+');
  if (is_word(text + sign, length - sign, ".inf") ||
      (sign == 0 && length == 4 && memcmp(text, ".Inf", 4) == 0))
    node->value.number = text[0] == '-' ? -INFINITY : INFINITY;
  else if (sign == 0 && (is_word(text, length, ".nan") ||
                         (length == 4 && memcmp(text, ".NaN", 4) == 0)))
    node->value.number = NAN;
  else
    return false;
  node->kind = ETT_YAML_FLOAT;
  return true;
}

bool ett_yaml_resolve(ett_yaml_node *node, const char *text, size_t length) {
  if (length == 0 || is_word(text, length, "null") || (length == 1 && text[0] == '~')) {
    node->kind = ETT_YAML_NULL;
    return true;
  }
  if (is_word(text, length, "true") || is_word(text, length, "false")) {
    node->kind = ETT_YAML_BOOLEAN;
    node->value.integer = text[0] == 't' || text[0] == 'T';
    return true;
  }
  ett_number number = ett_number_parse(text, length);
  if (number.kind == ETT_NUMBER_INTEGER) {
    node->kind = ETT_YAML_INTEGER;
    node->value.integer = number.integer;
    return true;
  }
  if (number.kind == ETT_NUMBER_FLOAT) {
    node->kind = ETT_YAML_FLOAT;
    node->value.number = number.number;
    return true;
  }
  return resolve_based(node, text, length) || resolve_special_float(node, text, length);
}
