#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>

int ett_err_set(ett_err *err, ett_err_code code, const char *format, ...) {
  if (err) {
    va_list args;
    va_start(args, format);
    err->code = code;
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
  }
  return -1;
}

const char *ett_err_kind(ett_err_code code) {
  switch (code) {
  case ETT_OK:
    return "ok";
  case ETT_ERR_ARGUMENT:
    return "argument";
  case ETT_ERR_MEMORY:
    return "memory";
  case ETT_ERR_IO:
    return "io";
  case ETT_ERR_FORMAT:
    return "format";
  case ETT_ERR_LIMIT:
    return "limit";
  case ETT_ERR_MISSING:
    return "missing";
  case ETT_ERR_LOST:
    return "lost";
  case ETT_ERR_INTERNAL:
    break;
  }
  return "internal";
}
