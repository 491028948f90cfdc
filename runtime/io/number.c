#include "io/number.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* Exact: one rounding for an integer up to 2^53 times or divided by a power of ten up to
 * 22. Clinger, "How to read floating point numbers accurately", 1990. */
static const double powers_of_ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                       1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                       1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static double slow_float(const char *text, size_t length) {
  char copy[ETT_NUMBER_MAX_LENGTH + 1];
  memcpy(copy, text, length);
  copy[length] = '\0';
  return strtod(copy, NULL);
}

ett_number ett_number_parse(const char *text, size_t length) {
  const ett_number none = {ETT_NUMBER_NONE, 0, 0.0};
  if (length == 0 || length > ETT_NUMBER_MAX_LENGTH)
    return none;
  const char *p = text, *end = text + length;
  bool negative = *p == '-';
  if (*p == '-' || *p == '+')
    p++;

  uint64_t mantissa = 0;
  int significant = 0; /* digits in mantissa; beyond 19 the fast paths are not exact */
  int scale = 0;
  bool any = false, is_integer = true;
  for (; p < end && is_digit(*p); p++) {
    any = true;
    if (significant < 19)
      mantissa = mantissa * 10 + (uint64_t)(*p - '0');
    if (mantissa > 0)
      significant++;
  }
  if (p < end && *p == '.') {
    is_integer = false;
    for (p++; p < end && is_digit(*p); p++) {
      any = true;
      if (significant < 19) {
        mantissa = mantissa * 10 + (uint64_t)(*p - '0');
        scale--;
      }
      if (mantissa > 0)
        significant++;
    }
  }
  if (!any)
    return none;
  if (p < end && (*p == 'e' || *p == 'E')) {
    is_integer = false;
    p++;
    bool down = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
      p++;
    if (p == end)
      return none;
    int exponent = 0;
    for (; p < end && is_digit(*p); p++) {
      if (exponent < 100000)
        exponent = exponent * 10 + (*p - '0');
    }
    scale += down ? -exponent : exponent;
  }
  if (p != end)
    return none;

  ett_number result = {ETT_NUMBER_FLOAT, 0, 0.0};
  if (is_integer && significant <= 19 && mantissa <= (uint64_t)INT64_MAX + negative) {
    result.kind = ETT_NUMBER_INTEGER;
    result.integer = negative ? (int64_t)(0 - mantissa) : (int64_t)mantissa;
    result.number = (double)result.integer;
    return result;
  }
  if (significant <= 19 && mantissa <= (UINT64_C(1) << 53) && scale >= -22 &&
      scale <= 22) {
    double value = (double)mantissa;
    value = scale < 0 ? value / powers_of_ten[-scale] : value * powers_of_ten[scale];
    result.number = negative ? -value : value;
  } else {
    result.number = slow_float(text, length);
  }
  return result;
}

size_t ett_number_format(double value, char out[ETT_NUMBER_FORMAT_SIZE]) {
  if (isnan(value))
    return (size_t)snprintf(out, ETT_NUMBER_FORMAT_SIZE, "nan");
  if (isinf(value)) {
    return (size_t)snprintf(out, ETT_NUMBER_FORMAT_SIZE, value < 0 ? "-inf" : "inf");
  }
  int length = 0;
  for (int digits = 15; digits <= 17; digits++) {
    length = snprintf(out, ETT_NUMBER_FORMAT_SIZE, "%.*g", digits, value);
    if (strtod(out, NULL) == value)
      break;
  }
  if (!strpbrk(out, ".e")) {
    memcpy(out + length, ".0", 3);
    length += 2;
  }
  return (size_t)length;
}

int ett_hex_digit(char c) {
  if (is_digit(c))
    return c - '0';
  if (c >= 'a' && c <= 'f')
    return c - 'a' + 10;
  if (c >= 'A' && c <= 'F')
    return c - 'A' + 10;
  return -1;
}
