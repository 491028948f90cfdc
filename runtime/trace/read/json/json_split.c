/* Finds the start of an event from any byte of a file.
 *
 * Two interpretations of the chunk are tried: it begins outside a string, or inside one.
 * The wrong one soon meets a token that JSON does not allow. In the right one the
 * elements of the outermost visible array are events. The caller verifies the guess:
 * reading from the start of the file must arrive at the same byte. */
#include "trace/read/json/json_read.h"

#include <string.h>

#define LEVELS 64

typedef enum token { ANY, OPEN, CLOSE, STRING, SCALAR, COMMA, COLON } token;

typedef struct reading {
  int ok;
  const char *best;
} reading;

static int is_scalar(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         c == '-' || c == '+' || c == '.';
}

static const char *close_quote(const char *p, const char *end) {
  for (; p < end; p++) {
    if (*p == '\\')
      p++;
    else if (*p == '"')
      return p;
  }
  return NULL;
}

static reading read_from(const char *p, const char *end, int inside) {
  reading r = {0, NULL};
  struct {
    const char *first;
    unsigned count;
  } level[2 * LEVELS] = {{0}};
  int depth = LEVELS, tokens = 0;
  token last = ANY;
  if (inside) {
    p = close_quote(p, end);
    if (!p)
      return r;
    p++;
    last = STRING;
  }
  for (; p < end; p++) {
    unsigned char c = (unsigned char)*p;
    if (c <= ' ')
      continue;
    int fits;
    token now;
    if (c == '"') {
      fits = last == ANY || last == OPEN || last == COMMA || last == COLON;
      now = STRING;
      p = close_quote(p + 1, end);
      if (!p)
        p = end;
    } else if (c == ':') {
      fits = last == ANY || last == STRING;
      now = COLON;
    } else if (c == ',') {
      fits = last == ANY || last == STRING || last == SCALAR || last == CLOSE;
      now = COMMA;
    } else if (c == '{' || c == '[') {
      fits = last != STRING && last != SCALAR && last != CLOSE;
      if (c == '{' && (last == COMMA || last == OPEN) && level[depth].count++ == 0)
        level[depth].first = p;
      if (++depth >= 2 * LEVELS)
        return r;
      now = OPEN;
    } else if (c == '}' || c == ']') {
      fits = last != COMMA && last != COLON;
      if (--depth < 0)
        return r;
      now = CLOSE;
    } else if (is_scalar(c)) {
      fits = last == ANY || last == OPEN || last == COMMA || last == COLON;
      now = SCALAR;
      while (p + 1 < end && is_scalar((unsigned char)p[1]))
        p++;
    } else {
      return r;
    }
    if (!fits)
      return r;
    last = now;
    tokens++;
  }
  r.ok = tokens > 8;
  for (unsigned least = 2; least > 0 && !r.best; least--)
    for (int i = 0; i < 2 * LEVELS && !r.best; i++)
      if (level[i].count >= least)
        r.best = level[i].first;
  return r;
}

const char *ett_json_boundary(const char *p, const char *end) {
  while (p < end && p[-1] == '\\')
    p++; /* skip an escaped character */
  reading out = read_from(p, end, 0), in = read_from(p, end, 1);
  if (out.ok == in.ok)
    return NULL;
  return out.ok ? out.best : in.best;
}
