/* Rare cases of the scanner: escapes, odd numbers, damage; and its setup. */
#include "io/number.h"
#include "io/utf8.h"
#include "trace/read/json/json_scan.h"

#include <stdlib.h>
#include <string.h>

int ett_json_args_init(ett_json_args *a, const char *const *names, uint32_t count) {
  static const struct {
    const char *name;
    uint32_t builtin;
  } builtins[] = {
      {"stream", ETT_JSON_ARG_STREAM},
      {"device", ETT_JSON_ARG_DEVICE},
      {"correlation", ETT_JSON_ARG_CORRELATION},
      {"name", ETT_JSON_ARG_NAME},
  };
  const uint32_t fixed = sizeof builtins / sizeof *builtins;
  memset(a, 0, sizeof *a);
  a->slots = calloc(count + fixed, sizeof *a->slots);
  if (!a->slots)
    return -1;
  for (int i = 0; i < 256; i++)
    a->first[i] = -1;
  for (uint32_t i = 0; i < count + fixed; i++) {
    const char *name = i < fixed ? builtins[i].name : names[i - fixed];
    uint32_t k = 0;
    while (k < a->count && strcmp(a->slots[k].name, name) != 0)
      k++;
    if (k < a->count) {
      if (i >= fixed && a->slots[k].requested < 0)
        a->slots[k].requested = (int32_t)(i - fixed);
      continue;
    }
    unsigned char c = (unsigned char)*name;
    uint32_t length = (uint32_t)strlen(name);
    a->slots[a->count] =
        (ett_json_slot){name, length, i < fixed ? -1 : (int32_t)(i - fixed),
                        i < fixed ? builtins[i].builtin : 0, a->first[c]};
    a->first[c] = (int32_t)a->count++;
    a->lengths[c] |= 1u << (length < 31 ? length : 31);
  }
  return 0;
}

void ett_json_args_free(ett_json_args *a) {
  free(a->slots);
  memset(a, 0, sizeof *a);
}

void ett_json_scan_init(ett_json_scan *s, ett_trace_part *part, const ett_json_args *args,
                        unsigned decimals, bool flows) {
  memset(s, 0, sizeof *s);
  s->part = part;
  s->args = args;
  s->flows = flows;
  s->decimals = decimals;
  s->per_us = decimals == 6 ? 1000000 : 1000;
  s->whole_limit = (uint64_t)INT64_MAX / s->per_us - 1;
  s->longest = ETT_TRACE_LONGEST_S * 1000000 * s->per_us;
  s->pid = (ett_json_again){.bits = {0x2C30}, .mask = {0xFFFF}, .length = 1}; /* "0," */
  s->tid = s->pid;
  s->until_known = 64; /* until then it shows which members of args change */
}

void ett_json_scan_free(ett_json_scan *s) {
  free(s->scratch);
  free(s->known);
  s->known = NULL;
  s->scratch = NULL;
  s->scratch_size = 0;
}

void ett_json_hurt(ett_json_scan *s, ett_trace_damage damage, uint64_t offset) {
  if (s->pending_count == sizeof s->pending / sizeof *s->pending)
    return;
  s->pending[s->pending_count].damage = damage;
  s->pending[s->pending_count++].offset = offset;
}

void ett_json_settle(ett_json_scan *s, int count) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < s->pending_count; i++)
    if (count)
      ett_part_damage(s->part, s->pending[i].damage, s->pending[i].offset);
    else if (s->pending[i].damage == ETT_DAMAGE_BAD_UTF8)
      s->pending[kept++] = s->pending[i];
  s->pending_count = kept;
}

void ett_json_trim(ett_json_scan *s) {
  uint32_t next = ett_part_next(s->part);
  for (uint32_t i = 0; i < s->part->arg_count; i++) {
    ett_args_column *c = &s->part->args[i];
    while (c->count && c->items[c->count - 1].row >= next)
      c->count--;
  }
  s->kept_args = 0;
}

static int hex4(const char *p, const char *end, uint32_t *v) {
  if (end - p < 4)
    return -1;
  *v = 0;
  for (int i = 0; i < 4; i++) {
    int digit = ett_hex_digit(p[i]);
    if (digit < 0)
      return -1;
    *v = *v << 4 | (uint32_t)digit;
  }
  return 0;
}

size_t ett_json_unescape(const char *text, size_t length, char *out, int *bad) {
  const char *p = text, *end = text + length;
  char *o = out;
  *bad = 0;
  while (p < end) {
    if (*p != '\\') {
      *o++ = *p++;
      continue;
    }
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *k = p + 1 < end && p[1] ? strchr(from, p[1]) : NULL;
    uint32_t v, low;
    if (k) {
      *o++ = to[k - from];
      p += 2;
    } else if (p + 1 < end && p[1] == 'u' && hex4(p + 2, end, &v) == 0) {
      p += 6;
      if (v >= 0xD800 && v < 0xDC00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u' &&
          hex4(p + 2, end, &low) == 0 && low >= 0xDC00 && low < 0xE000) {
        v = 0x10000 + ((v - 0xD800) << 10) + (low - 0xDC00);
        p += 6;
      } else if (v >= 0xD800 && v < 0xE000) { /* half a pair */
        *bad = 1;
        v = 0xFFFD;
      }
      o += ett_utf8_encode(v, o);
    } else {
      *bad = 1;
      *o++ = *p++;
    }
  }
  return (size_t)(o - out);
}

uint32_t ett_json_text(ett_json_scan *s, const char *raw, size_t length, int escaped,
                       int control) {
  uint64_t offset = s->base + (uint64_t)(raw - s->data);
  int fresh, bad = 0;
  if (escaped) {
    if (s->scratch_size < length) {
      char *grown = realloc(s->scratch, length * 2);
      if (!grown)
        return ETT_STRING_NONE;
      s->scratch = grown;
      s->scratch_size = length * 2;
    }
    length = ett_json_unescape(raw, length, s->scratch, &bad);
    raw = s->scratch;
  }
  if (bad)
    ett_json_hurt(s, ETT_DAMAGE_BAD_STRING, offset);
  if (control)
    ett_json_hurt(s, ETT_DAMAGE_CONTROL_CHARACTER, offset);
  uint32_t id = ett_strings_put(&s->part->lexicon->strings, raw, length,
                                (uint64_t)s->part->file << 44 | offset, &fresh);
  if (fresh && ett_utf8_valid_prefix(raw, length) < length) {
    ett_json_hurt(s, ETT_DAMAGE_BAD_UTF8, offset);
    s->part->lexicon->dirty = true;
  }
  return id;
}

/* The end of a JSON number at p, or p if there is none ("1.", ".5" and "+1" are not). */
static const char *number_end(const char *p, const char *end) {
  const char *q = p;
  if (q < end && *q == '-')
    q++;
  const char *d = q;
  while (q < end && (unsigned char)(*q - '0') < 10)
    q++;
  if (q == d)
    return p;
  if (q < end && *q == '.') {
    d = ++q;
    while (q < end && (unsigned char)(*q - '0') < 10)
      q++;
    if (q == d)
      return p;
  }
  if (q < end && (*q == 'e' || *q == 'E')) {
    q++;
    if (q < end && (*q == '+' || *q == '-'))
      q++;
    d = q;
    while (q < end && (unsigned char)(*q - '0') < 10)
      q++;
    if (q == d)
      return p;
  }
  return q;
}

const char *ett_json_number(const char *p, const char *end, double *value) {
  const char *q = number_end(p, end);
  const ett_number n = ett_number_parse(p, (size_t)(q - p));
  *value = n.number;
  return n.kind == ETT_NUMBER_NONE ? NULL : q;
}

const char *ett_json_time_slow(const char *p, const char *end, unsigned decimals,
                               int64_t *ticks, int *status) {
  const char *q = number_end(p, end), *c = p;
  *ticks = 0;
  *status = 2;
  if (q == p)
    return p;
  int minus = *c == '-';
  if (minus)
    c++;
  /* digits as one integer and the place of its point, then scaled exactly */
  int64_t exponent = decimals;
  const char *e = c;
  while (e < q && *e != 'e' && *e != 'E')
    e++;
  if (e < q) {
    int64_t x = 0;
    const char *k = e + 1;
    int down = *k == '-';
    if (*k == '-' || *k == '+')
      k++;
    for (; k < q; k++)
      if (x < 100000)
        x = x * 10 + (*k - '0');
    exponent += down ? -x : x;
  }
  unsigned __int128 v = 0;
  const unsigned __int128 limit = (unsigned __int128)1 << 120;
  int point = 0;
  for (; c < e; c++) {
    if (*c == '.') {
      point = 1;
      continue;
    }
    if (v < limit / 16) {
      v = v * 10 + (unsigned)(*c - '0');
      exponent -= point;
    } else {
      exponent += !point; /* beyond 34 digits: they cannot matter */
    }
  }
  *status = 1;
  *ticks = minus ? INT64_MIN / 2 : INT64_MAX / 2;
  for (; exponent > 0 && v; exponent--) {
    if (v > (unsigned __int128)INT64_MAX)
      return q;
    v *= 10;
  }
  unsigned rounding = 0;
  for (; exponent < 0 && v; exponent++) {
    rounding = (unsigned)(v % 10);
    v /= 10;
  }
  if (exponent == 0 && rounding >= 5)
    v++;
  if (v > (unsigned __int128)INT64_MAX)
    return q;
  *ticks = minus ? -(int64_t)v : (int64_t)v;
  *status = 0;
  return q;
}

static const char *plain_space(const char *p, const char *end) {
  while (p < end && (unsigned char)*p <= ' ')
    p++;
  return p;
}

const char *ett_json_resync(const char *p, const char *end) {
  static const char *const keys[] = {"\"ph\"",  "\"cat\"", "\"name\"", "\"pid\"",
                                     "\"tid\"", "\"ts\"",  "\"dur\"",  "\"args\"",
                                     "\"id\"",  "\"bp\"",  "\"s\"",    "\"tts\""};
  for (const char *q = p; (q = memchr(q, '{', (size_t)(end - q))) != NULL; q++) {
    const char *before = q;
    while (before > p && (unsigned char)before[-1] <= ' ')
      before--;
    if (before > p && before[-1] != ',' && before[-1] != '[')
      continue;
    const char *k = plain_space(q + 1, end);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
      size_t n = strlen(keys[i]);
      if ((size_t)(end - k) <= n || memcmp(k, keys[i], n) != 0)
        continue;
      const char *colon = plain_space(k + n, end);
      if (colon < end && *colon == ':')
        return q;
    }
  }
  return NULL;
}

const char *ett_json_salvage(const char *p, const char *end) {
  const char *limit = end - p > 65536 ? p + 65536 : end;
  for (const char *q = p; (q = memchr(q, '"', (size_t)(limit - q))) != NULL; q++) {
    const char *next = plain_space(q + 1, limit);
    if (next >= limit)
      return NULL;
    if (*next == '}' || *next == ']')
      return q;
    if (*next != ',')
      continue;
    next = plain_space(next + 1, limit);
    if (next >= limit || *next != '"')
      continue;
    const char *close = memchr(next + 1, '"', (size_t)(limit - next - 1));
    if (!close)
      return NULL;
    close = plain_space(close + 1, limit);
    if (close < limit && *close == ':')
      return q;
  }
  return NULL;
}
