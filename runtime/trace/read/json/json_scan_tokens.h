/* json_scan_tokens.h - strings, numbers and nesting; a part of json_scan_impl.h. */

static inline uint64_t load8(const char *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

/* Whether n bytes at p and q are the same; both are readable to a multiple of WIDTH. */
static inline int same(const char *p, const char *q, unsigned n) {
  for (; n > WIDTH; n -= WIDTH, p += WIDTH, q += WIDTH)
    if (vsame(p, q) != ALL)
      return 0;
  return (MASK)(~vsame(p, q) << (WIDTH - n)) << (8 * sizeof(MASK) - WIDTH) == 0;
}

static inline const char *space(const char *p) {
  if ((unsigned char)*p > ' ')
    return p;
  if ((unsigned char)p[1] > ' ')
    return p + 1;
  MASK m = hsolid(p);
  if (m)
    return p + first(m);
  for (p += HEAD;; p += WIDTH) {
    m = vsolid(p);
    if (m)
      return p + first(m);
  }
}

typedef struct span {
  const char *text;
  size_t length;
  unsigned char escaped, control;
} span;

/* The closing quote of the string whose opening quote is p[-1]; NULL if there is none
 * before end. */
static inline const char *string(const char *p, const char *end, span *out) {
  out->text = p;
  out->escaped = out->control = 0;
  MASK m = hstop(p);
  if (m)
    goto found;
  for (p += HEAD;; p += WIDTH) {
    m = vstop(p);
    if (!m)
      continue;
  found:
    p += first(m);
    if (*p == '"') {
      out->length = (size_t)(p - out->text);
      return p < end ? p : NULL;
    }
    if (*p == '\\') {
      out->escaped = 1;
      p += 2;
    } else {
      out->control = 1;
      p++;
    }
    if (p >= end)
      return NULL;
    p -= WIDTH; /* the loop continues at p */
  }
}

/* End of the object or array that opens at p. */
static const char *nested(const char *p, const char *end) {
  int64_t depth = 0;
  MASK inside = 0; /* all ones while in a string */
  for (; p < end; p += WIDTH) {
    if (vslash(p)) { /* rare: reads these bytes one by one */
      const char *stop = p + WIDTH;
      for (; p < stop; p++) {
        if (inside) {
          if (*p == '\\')
            p++;
          else if (*p == '"')
            inside = 0;
        } else if (*p == '"') {
          inside = ALL;
        } else if (*p == '{' || *p == '[') {
          depth++;
        } else if ((*p == '}' || *p == ']') && --depth == 0) {
          return p < end ? p + 1 : NULL;
        }
      }
      p -= WIDTH; /* p may have passed stop by one; the loop adds WIDTH again */
      continue;
    }
    const MASK quotes = vquote(p);
    MASK string_mask = inside;
    if (quotes) {
      string_mask ^= prefix(quotes);
      inside = string_mask >> (WIDTH - 1) & 1 ? ALL : 0;
    }
    const MASK opens = vopen(p) & ~string_mask, closes = vclose(p) & ~string_mask;
    int64_t still = depth; /* open before the next close */
    for (MASK m = closes; m; m &= m - 1, still--)
      if (still + count(opens & (m ^ (m - 1)) & ALL) == 1) {
        p += first(m);
        return p < end ? p + 1 : NULL;
      }
    depth = still + count(opens);
  }
  return NULL;
}

static inline const char *scalar(const char *p) {
  MASK m = hscalar(p);
  if (m)
    return p + first(m);
  for (p += HEAD;; p += WIDTH) {
    m = vscalar(p);
    if (m)
      return p + first(m);
  }
}

/* The end of the value at p; p if there is none; NULL if it exceeds end. */
static const char *SCAN(skip)(const char *p, const char *end) {
  span s;
  if (*p == '"') {
    p = string(p + 1, end, &s);
    return p ? p + 1 : NULL;
  }
  if (*p == '{' || *p == '[')
    return nested(p, end);
  const char *q = scalar(p);
  return q < end ? q : NULL;
}

/* The same for the parser: NULL with s->bad set if there is none. */
static inline const char *skip_value(ett_json_scan *s, const char *p, const char *end) {
  const char *q = SCAN(skip)(p, end);
  if (q != p)
    return q;
  s->bad = p;
  return NULL;
}

static const uint32_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000};

/* The number of eight digits, one per byte of t. */
static inline uint64_t eight_digits(uint64_t t) {
  t = (t * 10) + (t >> 8);
  return (((t & 0x000000FF000000FFu) * 0x000F424000000064u) +
          (((t >> 16) & 0x000000FF000000FFu) * 0x0000271000000001u)) >>
         32;
}

/* Reads *n digits from p. The value is exact up to 19 digits. Reads eight bytes at a
 * time: in `other` the first byte that is not a digit has its top bit set; later bytes
 * are ignored. */
static inline const char *digits(const char *p, uint64_t *value, unsigned *n) {
  const char *start = p;
  uint64_t v = 0;
  for (;;) {
    const uint64_t bytes = load8(p);
    uint64_t t = bytes - 0x3030303030303030u;
    const uint64_t other = ((bytes + 0x4646464646464646u) | t) & 0x8080808080808080u;
    if (!other) {
      v = v * 100000000u + eight_digits(t);
      p += 8;
      continue;
    }
    const unsigned k = (unsigned)__builtin_ctzll(other) / 8;
    if (k) {
      v = v * powers[k] + eight_digits(t << (64 - 8 * k)); /* zeroes in front */
      p += k;
    }
    *value = v;
    *n = (unsigned)(p - start);
    return p;
  }
}

/* Reads a 64-bit integer at p and returns its end; returns p for all else. */
static inline const char *integer(const char *p, int64_t *value) {
  uint64_t v;
  unsigned n;
  int minus = *p == '-';
  const char *q = digits(p + minus, &v, &n);
  if (n == 0 || n > 18 || *q == '.' || *q == 'e' || *q == 'E')
    return p;
  *value = minus ? -(int64_t)v : (int64_t)v;
  return q;
}

/* A time in microseconds that digits() does not read; as time_ticks. */
static const char *odd_time(ett_json_scan *s, const char *p, const char *end,
                            int64_t *ticks, uint8_t *bad) {
  int status;
  const char *q = ett_json_time_slow(p, end, s->decimals, ticks, &status);
  if (status) {
    ett_json_hurt(s, status == 1 ? ETT_DAMAGE_INTEGER_OVERFLOW : ETT_DAMAGE_BAD_NUMBER,
                  s->base + (uint64_t)(p - s->data));
    *bad = 1;
  }
  return q;
}

/* A time in microseconds as ticks; returns its end, or p if it is not a number. */
static inline const char *time_ticks(ett_json_scan *s, const char *p, const char *end,
                                     int64_t *ticks, uint8_t *bad) {
  uint64_t whole, part = 0;
  unsigned n, m = 0;
  const char *q = digits(p, &whole, &n);
  if (n == 0 || n > 18 || whole > s->whole_limit)
    return odd_time(s, p, end, ticks, bad);
  whole *= s->per_us;
  if (*q == '.') {
    q = digits(q + 1, &part, &m);
    if (m == 0 || m > 18)
      return odd_time(s, p, end, ticks, bad);
    if (m < s->decimals) {
      part *= powers[s->decimals - m];
    } else if (m > s->decimals) {
      uint64_t scale = 1;
      for (unsigned drop = m - s->decimals; drop; drop--)
        scale *= 10;
      part = (part + scale / 2) / scale;
    }
    whole += part;
  }
  if (*q == 'e' || *q == 'E')
    return odd_time(s, p, end, ticks, bad);
  *ticks = (int64_t)whole;
  return q;
}

/* Completes a string from p to the quote q, which may be an unescaped quote inside it. */
static const char *healed_at(ett_json_scan *s, const char *p, const char *q,
                             const char *end, span *out) {
  const char *next = space(q + 1);
  if (*next == ',' || *next == '}' || *next == ']' || next >= end)
    return q + 1;
  q = ett_json_salvage(p + 1, end);
  if (!q) {
    s->bad = next;
    return NULL;
  }
  out->length = (size_t)(q - out->text);
  ett_json_hurt(s, ETT_DAMAGE_BAD_STRING, s->base + (uint64_t)(next - s->data));
  return q + 1;
}

/* Reads the string at p (opening quote) and repairs unescaped quotes. Returns its end. */
static inline const char *healed(ett_json_scan *s, const char *p, const char *end,
                                 span *out) {
  const char *q = string(p + 1, end, out);
  if (!q || q[1] == ',' || q[1] == '}')
    return q ? q + 1 : NULL;
  return healed_at(s, p, q, end, out);
}
