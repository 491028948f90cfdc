#include "trace/read/walk.h"

static const char *space(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
    p++;
  return p;
}

/* The position after the string whose opening quote is p; NULL if it does not end. */
static const char *behind_string(const char *p, const char *end, slice *out) {
  out->at = ++p;
  for (; p < end && *p != '"'; p++)
    if (*p == '\\' && ++p >= end)
      return NULL;
  if (p >= end)
    return NULL;
  out->end = p;
  return p + 1;
}

/* The position after the value at p; NULL if it does not end. */
static const char *behind_value(const char *p, const char *end) {
  size_t depth = 0;
  slice ignored;
  do {
    p = space(p, end);
    if (p >= end)
      return NULL;
    if (*p == '"') {
      p = behind_string(p, end, &ignored);
      if (!p)
        return NULL;
    } else if (*p == '{' || *p == '[') {
      depth++;
      p++;
    } else if (*p == '}' || *p == ']') {
      if (depth-- == 0)
        return NULL;
      p++;
    } else if (*p == ',' || *p == ':') {
      if (depth == 0)
        return NULL;
      p++;
    } else {
      while (p < end && (*p == '\0' || !strchr(",:]}{[\" \n\r\t", *p)))
        p++;
    }
  } while (depth);
  return p;
}

bool ett_walk_next(ett_walk *w, slice *key, slice *value) {
  const char *end = w->rest.end, *p = space(w->rest.at, end);
  const char open = key ? '{' : '[', close = key ? '}' : ']';
  if (p >= end || (!w->begun && *p != open))
    goto damaged;
  if (w->begun && *p == close)
    return false;
  if (w->begun && *p != ',')
    goto damaged;
  p = space(p + 1, end);
  if (p < end && !w->begun && *p == close)
    return false;
  w->begun = true;
  if (key) {
    if (p >= end || *p != '"' || !(p = behind_string(p, end, key)))
      goto damaged;
    p = space(p, end);
    if (p >= end || *p++ != ':')
      goto damaged;
  }
  value->at = space(p, end);
  value->end = behind_value(value->at, end);
  if (!value->end) {
    value->end = end; /* the available part can still be read */
    w->damaged = true;
  }
  w->rest.at = value->end;
  return true;
damaged:
  w->damaged = true;
  return false;
}

bool ett_walk_text(slice value, slice *text) {
  slice inner;
  if (value.at >= value.end || *value.at != '"' ||
      !behind_string(value.at, value.end, &inner))
    return false;
  *text = inner;
  return true;
}
