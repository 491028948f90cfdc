#include "trace/read/json/json_read.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
  ett_json_job *job;
  ett_json_scan scan;
  char *buffer;
  size_t size, length, position;
  uint64_t base; /* offset of buffer[0] */
  bool ended;    /* the source */
  ett_err *err;
} reader;

#define ERROR (-1)

static const char *at(const reader *r) {
  return r->buffer + r->position;
}

static const char *end_of(const reader *r) {
  return r->buffer + r->length;
}

static uint64_t offset(const reader *r, const char *p) {
  return r->base + (uint64_t)(p - r->buffer);
}

/* Appends bytes after those from the position on: 1, 0 at the end, -1 on error. */
static int fill(reader *r) {
  if (r->ended)
    return 0;
  if (r->position) {
    memmove(r->buffer, at(r), r->length - r->position);
    r->base += r->position;
    r->length -= r->position;
    r->position = 0;
  }
  if (r->length >= r->size / 2) {
    if (r->size >= ETT_JSON_LONGEST)
      return ett_err_set(r->err, ETT_ERR_LIMIT,
                         "one value from byte %llu on is longer than %zu bytes",
                         (unsigned long long)r->base, ETT_JSON_LONGEST);
    char *grown = realloc(r->buffer, r->size * 2 + ETT_JSON_PAD);
    if (!grown)
      return ett_err_set(r->err, ETT_ERR_MEMORY, "out of memory");
    r->buffer = grown;
    r->size *= 2;
  }
  int got = 0;
  while (r->length < r->size) {
    ptrdiff_t n = r->job->source.read(r->job->source.context, r->buffer + r->length,
                                      r->size - r->length, r->err);
    if (n < 0)
      return ERROR;
    if (n == 0) {
      r->ended = true;
      break;
    }
    r->length += (size_t)n;
    got = 1;
  }
  memset(r->buffer + r->length, '"', ETT_JSON_PAD);
  return got;
}

/* The next byte that is not white space, 0 at the end, -1 on error. */
static int peek(reader *r) {
  for (;;) {
    while (r->position < r->length && (unsigned char)*at(r) <= ' ')
      r->position++;
    if (r->position < r->length)
      return (unsigned char)*at(r);
    int more = fill(r);
    if (more <= 0)
      return more;
  }
}

static void truncated(reader *r) {
  ett_part_damage(r->job->part, ETT_DAMAGE_TRUNCATED, offset(r, at(r)));
  r->position = r->length;
}

/* Skips the value at the position without storing it. 1, 0 at the end, -1 on error. */
static int step_over(reader *r) {
  int64_t depth = 0;
  bool string = false, escape = false;
  for (;;) {
    for (; r->position < r->length; r->position++) {
      char c = *at(r);
      if (string) {
        if (escape)
          escape = false;
        else if (c == '\\')
          escape = true;
        else if (c == '"') {
          string = false;
          if (depth == 0) {
            r->position++;
            return 1;
          }
        }
      } else if (c == '"') {
        string = true;
      } else if (c == '{' || c == '[') {
        depth++;
      } else if (c == '}' || c == ']') {
        if (depth-- <= 1) {
          r->position += depth == 0;
          return 1;
        }
      } else if (c == ',' && depth == 0) {
        return 1;
      }
    }
    int more = fill(r);
    if (more <= 0)
      return more;
  }
}

/* Reads the complete value at the position. Returns its end; NULL with *status 0 at the
 * end of the source, -1 on error, 2 if it exceeds limit (then it is skipped). */
static const char *value(reader *r, size_t limit, int *status) {
  for (;;) {
    const char *q = r->job->scanner->skip(at(r), end_of(r));
    *status = 1;
    if (q && q > at(r))
      return q;
    if (q) {
      *status = 0;
      return NULL;
    }
    if (r->length - r->position > limit) {
      *status = step_over(r);
      if (*status == 1)
        *status = 2;
      return NULL;
    }
    int more = fill(r);
    if (more <= 0) {
      *status = more;
      if (more == 0 && r->position < r->length && *at(r) != '"' && *at(r) != '{' &&
          *at(r) != '[') {
        *status = 1; /* a number ends with the file */
        return end_of(r);
      }
      return NULL;
    }
  }
}

typedef enum outcome { FAILED = -1, STOPPED, CLOSED, FINISHED } outcome;

/* After a malformed event: continues at the next '{' that looks like an event. */
static outcome resync(reader *r) {
  const char *p = r->scan.bad > at(r) ? r->scan.bad : at(r);
  ett_part_damage(r->job->part, ETT_DAMAGE_BAD_EVENT, offset(r, p));
  if (p == at(r) && p < end_of(r))
    p++; /* always advance */
  for (;;) {
    const char *q = ett_json_resync(p, end_of(r));
    if (q) {
      r->position = (size_t)(q - r->buffer);
      return CLOSED;
    }
    size_t keep = (size_t)(end_of(r) - p) < 4096 ? (size_t)(end_of(r) - p) : 4096;
    r->position = r->length - keep;
    int more = fill(r);
    if (more < 0)
      return FAILED;
    p = at(r);
    if (more == 0) {
      r->position = r->length;
      return FINISHED;
    }
  }
}

static outcome events(reader *r) {
  ett_json_job *job = r->job;
  for (;;) {
    const char *p = at(r), *stop = end_of(r);
    if (job->stop <= r->base)
      stop = r->buffer;
    else if (job->stop - r->base < r->length)
      stop = r->buffer + (job->stop - r->base);
    r->scan.data = r->buffer;
    r->scan.base = r->base;
    ett_json_status status = job->scanner->events(&r->scan, &p, end_of(r), stop);
    r->position = (size_t)(p - r->buffer);
    switch (status) {
    case ETT_JSON_MEMORY:
      ett_err_set(r->err, ETT_ERR_MEMORY, "out of memory");
      return FAILED;
    case ETT_JSON_STOP:
      /* The stop pointer of a window is its end if the real stop is after it. */
      job->part->end = offset(r, p);
      return STOPPED;
    case ETT_JSON_END:
      return CLOSED;
    case ETT_JSON_BAD: {
      outcome o = resync(r);
      if (o == FAILED)
        return FAILED;
      if (o == FINISHED) {
        truncated(r);
        return FINISHED;
      }
      break;
    }
    case ETT_JSON_MORE: {
      int more = fill(r);
      if (more < 0)
        return FAILED;
      if (more == 0) {
        truncated(r);
        return FINISHED;
      }
      break;
    }
    }
  }
}

/* Reads the members of the root object from the position on, which may be directly after
 * an array of events. A chunk cannot know whether that array is a member or the whole
 * document, so both are read in the same way. A source that ends there is reported in
 * cut_at. */
static outcome members(reader *r, bool behind_array) {
  for (;;) {
    int c = peek(r), status;
    if (c < 0)
      return FAILED;
    if (c == 0 && behind_array) {
      r->job->part->cut_at = offset(r, at(r));
      return FINISHED;
    }
    behind_array = false;
    if (c == ',') {
      r->position++;
      continue;
    }
    if (c == '}') {
      r->position++;
      return FINISHED;
    }
    if (c != '"') {
      if (c == 0)
        truncated(r);
      else
        ett_part_damage(r->job->part, ETT_DAMAGE_BAD_EVENT, offset(r, at(r)));
      return FINISHED;
    }
    char key[64];
    const char *q = value(r, 4096, &status);
    if (status < 0)
      return FAILED;
    if (status == 0) {
      truncated(r);
      return FINISHED;
    }
    size_t length = 0;
    if (q) {
      length = (size_t)(q - at(r)) - 2;
      if (length > sizeof key)
        length = sizeof key;
      memcpy(key, at(r) + 1, length);
      r->position = (size_t)(q - r->buffer);
    }
    c = peek(r);
    if (c < 0)
      return FAILED;
    if (c != ':')
      continue; /* not a member */
    r->position++;
    c = peek(r);
    if (c < 0)
      return FAILED;
    if (c == '[' && length == 11 && memcmp(key, "traceEvents", 11) == 0) {
      r->position++;
      r->job->part->saw_events = true;
      outcome o = events(r);
      if (o != CLOSED)
        return o;
      behind_array = true;
      continue;
    }
    q = value(r, ETT_JSON_MEMBER, &status);
    if (status < 0)
      return FAILED;
    if (q) {
      if (ett_part_member(r->job->part, key, length, at(r), (size_t)(q - at(r)))) {
        ett_err_set(r->err, ETT_ERR_MEMORY, "out of memory");
        return FAILED;
      }
      r->position = (size_t)(q - r->buffer);
    } else if (status == 0) {
      if (c == ',' || c == '}' || c == ']') { /* the value is missing */
        ett_part_damage(r->job->part, ETT_DAMAGE_BAD_EVENT, offset(r, at(r)));
        if (c == ']')
          r->position++;
        continue;
      }
      truncated(r);
      return FINISHED;
    }
  }
}

static outcome document(reader *r) {
  int c = peek(r);
  if (c < 0)
    return FAILED;
  if (c == 0xEF && r->length - r->position >= 3 &&
      memcmp(at(r), "\xEF\xBB\xBF", 3) == 0) {
    r->position += 3;
    c = peek(r);
  }
  if (c == '{' || c == '[') {
    r->position++;
    r->job->part->root_object = c == '{';
    if (c == '{')
      return members(r, false);
    r->job->part->saw_events = true;
    return events(r);
  }
  ett_err_set(r->err, ETT_ERR_FORMAT, c ? "not a JSON object or array" : "empty file");
  return FAILED;
}

static outcome guess(reader *r) {
  /* The window includes one byte before the chunk, which may be a backslash. */
  for (size_t least = (size_t)64 << 10; least <= (size_t)1 << 20; least *= 4) {
    while (r->length < least && !r->ended)
      if (fill(r) < 0)
        return FAILED;
    const char *end = r->length < least ? end_of(r) : r->buffer + least;
    const char *p = r->length ? ett_json_boundary(r->buffer + 1, end) : NULL;
    if (p) {
      r->position = (size_t)(p - r->buffer);
      r->job->part->begin = offset(r, p);
      return events(r);
    }
    if (r->ended)
      break;
  }
  r->job->part->begin = ETT_JSON_NOWHERE;
  return STOPPED;
}

int ett_json_read(ett_json_job *job, ett_err *err) {
  reader r = {.job = job, .base = job->offset, .err = err};
  ett_json_scan_init(&r.scan, job->part, job->args, job->decimals, job->flows);
  if (job->learn_after)
    r.scan.until_known = job->learn_after;
  r.size = ETT_JSON_WINDOW;
  r.buffer = malloc(r.size + ETT_JSON_PAD);
  if (!r.buffer)
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
  memset(r.buffer, '"', ETT_JSON_PAD);
  job->part->begin = job->offset;
  job->part->end = ETT_JSON_NOWHERE;
  outcome o = job->start == ETT_JSON_DOCUMENT ? document(&r)
              : job->start == ETT_JSON_GUESS  ? guess(&r)
                                              : events(&r);
  if (o == CLOSED)
    o = members(&r, true);
  ett_json_scan_free(&r.scan);
  free(r.buffer);
  return o == FAILED ? -1 : 0;
}
