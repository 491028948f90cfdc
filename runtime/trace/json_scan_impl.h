/* json_scan_impl.h - the scanner; included once per instruction set.
 *
 * The including file defines SCAN(name), WIDTH and the primitives on WIDTH bytes at p:
 *   vstop(p)   mask of quote, backslash and bytes below 0x20
 *   vsolid(p)  mask of bytes above 0x20 (not white space)
 *   vquote(p), vslash(p), vopen(p) ('{' '['), vclose(p) ('}' ']')
 *   vscalar(p) mask of ',' '}' ']' '"' and bytes up to 0x20
 * with hstop, hsolid and hscalar the same on HEAD bytes (most strings, numbers and
 * stretches of white space are short, and narrow registers answer sooner),
 * and prefix(m): running exclusive-or of the bits, all in MASK. */

static inline uint64_t load8(const char *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
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

/* The string whose opening quote is p[-1]; returns its closing quote, NULL when it does
 * not close before end. */
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
    p -= WIDTH; /* the loop goes on at p */
  }
}

/* End of the object or array that opens at p. */
static const char *nested(const char *p, const char *end) {
  int64_t depth = 0;
  MASK inside = 0; /* all ones while in a string */
  for (; p < end; p += WIDTH) {
    if (vslash(p)) { /* rare: byte by byte through this stretch */
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
    MASK quotes = vquote(p);
    MASK string_mask = prefix(quotes) ^ inside;
    inside = string_mask >> (WIDTH - 1) & 1 ? ALL : 0;
    MASK opens = vopen(p) & ~string_mask, closes = vclose(p) & ~string_mask;
    if (depth > count(closes)) {
      depth += count(opens) - count(closes);
      continue;
    }
    for (MASK both = opens | closes; both; both &= both - 1) {
      unsigned i = first(both);
      if (opens >> i & 1) {
        depth++;
      } else if (--depth == 0) {
        p += i;
        return p < end ? p + 1 : NULL;
      }
    }
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

/* End of the value at p; p itself when there is none; NULL when it runs past end. */
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

/* The same for the parser: NULL with s->bad set when there is none. */
static inline const char *skip_value(ett_json_scan *s, const char *p, const char *end) {
  const char *q = SCAN(skip)(p, end);
  if (q != p)
    return q;
  s->bad = p;
  return NULL;
}

/* Eight decimal digits at once; 0 when some byte is no digit. */
static inline int digits8(uint64_t v, uint64_t *out) {
  uint64_t t = v - 0x3030303030303030u;
  if (((v + 0x4646464646464646u) | t) & 0x8080808080808080u)
    return 0;
  t = (t * 10) + (t >> 8);
  *out = (((t & 0x000000FF000000FFu) * 0x000F424000000064u) +
          (((t >> 16) & 0x000000FF000000FFu) * 0x0000271000000001u)) >>
         32;
  return 1;
}

/* Digits from p; *n of them. The value is exact up to 19 digits. */
static inline const char *digits(const char *p, uint64_t *value, unsigned *n) {
  uint64_t v = 0, part;
  const char *start = p;
  if (digits8(load8(p), &part)) {
    v = part;
    p += 8;
    if (digits8(load8(p), &part)) {
      v = v * 100000000u + part;
      p += 8;
    }
  }
  for (; (unsigned char)(*p - '0') < 10; p++)
    v = v * 10 + (unsigned char)(*p - '0');
  *value = v;
  *n = (unsigned)(p - start);
  return p;
}

/* An integer of 64 bits at p, or p itself when it is anything else. */
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

/* A time in microseconds as ticks; returns its end, or p when it is no number. */
static inline const char *time_ticks(ett_json_scan *s, const char *p, const char *end,
                                     int64_t *ticks, uint8_t *bad) {
  static const uint32_t power[] = {1, 10, 100, 1000, 10000, 100000, 1000000};
  uint64_t whole, part = 0;
  unsigned n, m = 0;
  const char *q = digits(p, &whole, &n);
  if (n == 0 || n > 18 || whole > s->whole_limit)
    goto slow;
  if (*q == '.') {
    q = digits(q + 1, &part, &m);
    if (m == 0 || m > 18)
      goto slow;
    if (m < s->decimals) {
      part *= power[s->decimals - m];
    } else if (m > s->decimals) {
      uint64_t scale = 1;
      for (unsigned drop = m - s->decimals; drop; drop--)
        scale *= 10;
      part = (part + scale / 2) / scale;
    }
  }
  if (*q == 'e' || *q == 'E')
    goto slow;
  *ticks = (int64_t)(whole * power[s->decimals] + part);
  return q;
slow:;
  int status;
  q = ett_json_time_slow(p, end, s->decimals, ticks, &status);
  if (status) {
    ett_json_hurt(s, status == 1 ? ETT_DAMAGE_INTEGER_OVERFLOW : ETT_DAMAGE_BAD_NUMBER,
                  s->base + (uint64_t)(p - s->data));
    *bad = 1;
  }
  return q;
}

typedef struct event_state {
  span name, category, meta_name;
  int64_t ts, dur, pid, tid, correlation, stream, device;
  uint32_t has; /* ETT_JSON_ARG_… seen */
  uint8_t ph, pid_type, tid_type, has_category, has_ts, bad_time;
} event_state;

/* A pid, tid: integer, string, or anything (taken as its text). */
static inline const char *identity(ett_json_scan *s, const char *p, const char *end,
                                   int64_t *value, uint8_t *type) {
  const char *q = integer(p, value);
  if (q != p && (*q == ',' || *q == '}' || (unsigned char)*q <= ' ')) {
    *type = ETT_ID_INTEGER;
    return q;
  }
  span t;
  if (*p == '"') {
    q = string(p + 1, end, &t);
    if (!q)
      return NULL;
    q++;
    int64_t number = 0;
    const char *e = integer(t.text, &number); /* old dialect: "tid": "1890023232" */
    if (t.length && e == t.text + t.length) {
      *value = number;
      *type = ETT_ID_INTEGER;
      return q;
    }
  } else {
    q = skip_value(s, p, end);
    if (!q)
      return NULL;
    if (q - p == 4 && memcmp(p, "null", 4) == 0)
      return q;
    t = (span){p, (size_t)(q - p), 0, 0};
  }
  uint32_t id = ett_json_text(s, t.text, t.length, t.escaped, t.control);
  if (id == ETT_STRING_NONE) {
    s->oom = 1;
    return NULL;
  }
  *value = id;
  *type = ETT_ID_TEXT;
  return q;
}

/* The string at p (opening quote), unescaped quotes inside healed; behind it. */
static inline const char *healed(ett_json_scan *s, const char *p, const char *end,
                                 span *out) {
  const char *q = string(p + 1, end, out);
  if (!q)
    return NULL;
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

static const char *keep_arg(ett_json_scan *s, const ett_json_slot *slot, const char *p,
                            const char *end, event_state *e) {
  ett_trace_arg arg = {.row = ett_part_next(s->part), .type = ETT_ARG_NONE};
  const char *q;
  int64_t number = 0;
  span t = {0};
  if (*p == '"') {
    q = healed(s, p, end, &t);
    if (!q)
      return NULL;
    arg.type = ETT_ARG_TEXT;
    const char *last = integer(t.text, &number);
    if (slot->builtin & ETT_JSON_ARG_NAME) {
      e->meta_name = t;
      e->has |= ETT_JSON_ARG_NAME;
    } else if (slot->builtin && t.length && last == t.text + t.length) {
      e->has |= slot->builtin;
    }
  } else if ((q = integer(p, &number)) != p) {
    arg.type = ETT_ARG_INTEGER;
    arg.value.integer = number;
    if (!(slot->builtin & ETT_JSON_ARG_NAME))
      e->has |= slot->builtin;
  } else if (*p == '-' || (unsigned char)(*p - '0') < 10) {
    const char *stop = scalar(p);
    if (stop >= end)
      return NULL;
    uint64_t v;
    unsigned n;
    q = digits(p + (*p == '-'), &v, &n);
    if (q == stop) { /* an integer, of more than 18 digits */
      q = p + (*p == '-');
      uint64_t value = 0;
      int wide = 0;
      for (; q < stop; q++)
        wide |= __builtin_mul_overflow(value, 10u, &value) ||
                __builtin_add_overflow(value, (uint64_t)(*q - '0'), &value);
      if (!wide && value <= (uint64_t)INT64_MAX) {
        arg.type = ETT_ARG_INTEGER;
        arg.value.integer = number = *p == '-' ? -(int64_t)value : (int64_t)value;
        if (!(slot->builtin & ETT_JSON_ARG_NAME))
          e->has |= slot->builtin;
      } else {
        ett_json_hurt(s, ETT_DAMAGE_INTEGER_OVERFLOW, s->base + (uint64_t)(p - s->data));
        arg.type = ETT_ARG_TEXT;
        t = (span){p, (size_t)(stop - p), 0, 0};
      }
    } else {
      q = ett_json_number(p, end, &arg.value.number);
      if (!q || q != stop) {
        ett_json_hurt(s, ETT_DAMAGE_BAD_NUMBER, s->base + (uint64_t)(p - s->data));
        q = stop;
      } else {
        arg.type = ETT_ARG_FLOAT;
      }
    }
  } else {
    q = skip_value(s, p, end);
    if (!q)
      return NULL;
    if (*p == '[' || *p == '{') {
      arg.type = ETT_ARG_TEXT;
      t = (span){p, (size_t)(q - p), 0, 0};
    } else if (q - p == 4 && memcmp(p, "true", 4) == 0) {
      arg.type = ETT_ARG_INTEGER;
      arg.value.integer = 1;
    } else if (q - p == 5 && memcmp(p, "false", 5) == 0) {
      arg.type = ETT_ARG_INTEGER;
      arg.value.integer = 0;
    }
  }
  if (e->has & slot->builtin) {
    switch (slot->builtin) {
    case ETT_JSON_ARG_STREAM:
      e->stream = number;
      break;
    case ETT_JSON_ARG_DEVICE:
      e->device = number;
      break;
    case ETT_JSON_ARG_CORRELATION:
      e->correlation = number;
      break;
    default:
      break;
    }
  }
  if (slot->requested >= 0 && arg.type != ETT_ARG_NONE) {
    if (arg.type == ETT_ARG_TEXT) {
      arg.value.text = ett_json_text(s, t.text, t.length, t.escaped, t.control);
      if (arg.value.text == ETT_STRING_NONE)
        goto oom;
    }
    if (ett_part_arg(s->part, (uint32_t)slot->requested, arg))
      goto oom;
    s->kept_args = 1;
  }
  return q;
oom:
  s->oom = 1;
  return NULL;
}

/* The args object that opens at p; behind it, or NULL. */
static const char *arguments(ett_json_scan *s, const char *p, const char *end,
                             event_state *e) {
  const ett_json_args *wanted = s->args;
  p = space(p + 1);
  if (*p == '}')
    return p + 1;
  for (;;) {
    span key;
    if (*p != '"')
      goto bad;
    const char *q = string(p + 1, end, &key);
    if (!q)
      return NULL;
    p = space(q + 1);
    if (*p != ':')
      goto bad;
    p = space(p + 1);
    unsigned char c = (unsigned char)*key.text;
    const ett_json_slot *slot = NULL;
    if (wanted->lengths[c] >> (key.length < 31 ? key.length : 31) & 1) {
      for (int32_t i = wanted->first[c]; i >= 0; i = wanted->slots[i].next)
        if (wanted->slots[i].length == key.length &&
            memcmp(wanted->slots[i].name, key.text, key.length) == 0)
          slot = &wanted->slots[i];
    }
    if (slot) {
      q = keep_arg(s, slot, p, end, e);
      if (!q)
        return NULL;
    } else if (*p == '"') {
      q = healed(s, p, end, &key);
      if (!q)
        return NULL;
    } else {
      q = skip_value(s, p, end);
      if (!q)
        return NULL;
    }
    p = space(q);
    if (*p == ',') {
      p = space(p + 1);
      continue;
    }
    if (*p == '}')
      return p + 1;
    goto bad;
  }
bad:
  s->bad = p;
  return NULL;
}

/* Row, track name or nothing from a whole event that begins at offset. */
static inline int emit(ett_json_scan *s, event_state *e, uint64_t offset) {
  ett_trace_part *part = s->part;
  part->seen++;
  switch (e->ph) {
  case 0:
    ett_json_hurt(s, ETT_DAMAGE_BAD_EVENT, offset);
    return 0;
  case 's':
  case 't':
  case 'f':
    if (!s->flows)
      return 0;
    break;
  case 'M': {
    int process = e->name.length == 12 && memcmp(e->name.text, "process_name", 12) == 0;
    int thread = e->name.length == 11 && memcmp(e->name.text, "thread_name", 11) == 0;
    if (!(e->has & ETT_JSON_ARG_NAME) || !(process || thread))
      return 0;
    uint32_t track = ett_part_track(part, e->pid, e->pid_type, process ? 0 : e->tid,
                                    process ? ETT_ID_NONE : e->tid_type);
    uint32_t text = ett_json_text(s, e->meta_name.text, e->meta_name.length,
                                  e->meta_name.escaped, e->meta_name.control);
    if (track == ETT_TRACE_NONE || text == ETT_STRING_NONE)
      return -1;
    if (process)
      part->tracks[track].process = text;
    else
      part->tracks[track].thread = text;
    return 0;
  }
  default:
    break;
  }
  ett_row row;
  row.ph = e->ph;
  row.ts = e->ts;
  row.dur = e->dur;
  if (row.ts == 0)
    ett_json_hurt(s, ETT_DAMAGE_ZERO_TS, offset);
  if (row.dur < 0) {
    ett_json_hurt(s, ETT_DAMAGE_NEGATIVE_DUR, offset);
    row.ph |= ETT_PH_INVALID;
  }
  if (e->bad_time || !e->has_ts)
    row.ph |= ETT_PH_INVALID;
  if (__builtin_add_overflow(row.ts, row.dur, &(int64_t){0}))
    row.ph |= ETT_PH_INVALID;
  row.name =
      ett_json_text(s, e->name.text, e->name.length, e->name.escaped, e->name.control);
  row.track = ett_part_track(part, e->pid, e->pid_type, e->tid, e->tid_type);
  if (row.name == ETT_STRING_NONE || row.track == ETT_TRACE_NONE)
    return -1;
  row.category = ETT_CATEGORY_NONE;
  ett_trace_class class = ETT_CLASS_OTHER;
  if (e->has_category) {
    if (e->category.length == s->category.length &&
        memcmp(e->category.text, s->category.text, e->category.length) == 0) {
      row.category = s->category.id;
    } else {
      row.category =
          ett_lexicon_category(part->lexicon, e->category.text, e->category.length);
      if (e->category.length <= sizeof s->category.text &&
          row.category != ETT_CATEGORY_NONE) {
        memcpy(s->category.text, e->category.text, e->category.length);
        s->category.length = (uint32_t)e->category.length;
        s->category.id = row.category;
      }
    }
    if (row.category != ETT_CATEGORY_NONE)
      class = part->lexicon->category_class[row.category];
  }
  int on_device = class == ETT_CLASS_KERNEL || class == ETT_CLASS_MEMCPY ||
                  class == ETT_CLASS_MEMSET || class == ETT_CLASS_DEVICE_ANNOTATION;
  int64_t device = -1, stream = -1;
  if (e->has & ETT_JSON_ARG_DEVICE)
    device = e->device;
  else if (on_device && e->pid_type == ETT_ID_INTEGER)
    device = e->pid;
  if (e->has & ETT_JSON_ARG_STREAM)
    stream = e->stream;
  else if (on_device && e->tid_type == ETT_ID_INTEGER)
    stream = e->tid;
  row.device = device >= -1 && device <= INT16_MAX ? (int16_t)device : -1;
  row.stream = stream >= -1 && stream <= INT32_MAX ? (int32_t)stream : -1;
  row.correlation = e->has & ETT_JSON_ARG_CORRELATION ? e->correlation : -1;
  s->kept_args = 0; /* they are this row's */
  return ett_part_append(part, &row);
}

#define KEY(text) (memcmp(p + 1, text "\"", sizeof text) == 0)

/* One event whose '{' is p; behind its '}', or NULL with s->bad set when malformed. */
static inline const char *event(ett_json_scan *s, const char *p, const char *end) {
  event_state e;
  e.has = 0;
  e.ph = e.pid_type = e.tid_type = e.has_category = 0;
  e.has_ts = e.bad_time = 0;
  e.name = (span){p, 0, 0, 0};
  e.ts = e.dur = e.pid = e.tid = 0;
  const char *start = p, *q;
  p = space(p + 1);
  if (*p == '}' && p < end)
    return p + 1; /* {}: what XLA ends its arrays with */
  for (;;) {
    if (*p != '"')
      goto bad;
    if (KEY("ph")) {
      p = space(p + 4);
      if (*p != ':')
        goto bad;
      p = space(p + 1);
      if (p[0] == '"' && p[1] != '\\' && p[1] != '"' && p[2] == '"') {
        e.ph = (uint8_t)p[1] & 0x7F;
        q = p + 3;
      } else {
        q = skip_value(s, p, end);
      }
    } else if (KEY("ts") || KEY("dur")) {
      int ts = p[1] == 't';
      p = space(p + (ts ? 4 : 5));
      if (*p != ':')
        goto bad;
      p = space(p + 1);
      int64_t value = 0;
      uint8_t wrong = 0;
      if (*p == '"') {
        span t;
        q = string(p + 1, end, &t);
        if (!q)
          return NULL;
        if (time_ticks(s, p + 1, q, &value, &wrong) != q && !wrong) {
          ett_json_hurt(s, ETT_DAMAGE_BAD_NUMBER, s->base + (uint64_t)(p - s->data));
          wrong = 1;
        }
        q++;
      } else if (*p == 'n') { /* null: as if it were not there */
        q = skip_value(s, p, end);
        if (!q)
          return NULL;
        goto next;
      } else {
        q = time_ticks(s, p, end, &value, &wrong);
        if (q == p)
          q = skip_value(s, p, end);
      }
      e.bad_time |= wrong;
      if (ts) {
        e.ts = value;
        e.has_ts = 1;
      } else {
        e.dur = value;
      }
    } else if (KEY("pid")) {
      p = space(p + 5);
      if (*p != ':')
        goto bad;
      q = identity(s, space(p + 1), end, &e.pid, &e.pid_type);
    } else if (KEY("tid")) {
      p = space(p + 5);
      if (*p != ':')
        goto bad;
      q = identity(s, space(p + 1), end, &e.tid, &e.tid_type);
    } else if (KEY("cat") || KEY("name")) {
      int name = p[1] == 'n';
      p = space(p + (name ? 6 : 5));
      if (*p != ':')
        goto bad;
      p = space(p + 1);
      if (*p == '"') {
        span *t = name ? &e.name : &e.category;
        q = healed(s, p, end, t);
        if (!name)
          e.has_category = 1;
      } else {
        q = skip_value(s, p, end);
      }
    } else if (KEY("args")) {
      p = space(p + 6);
      if (*p != ':')
        goto bad;
      p = space(p + 1);
      if (*p == '{') {
        q = arguments(s, p, end, &e);
      } else {
        if (p < end)
          ett_json_hurt(s, ETT_DAMAGE_ARGS_NOT_OBJECT, s->base + (uint64_t)(p - s->data));
        q = skip_value(s, p, end);
      }
    } else {
      span key;
      q = string(p + 1, end, &key);
      if (!q)
        return NULL;
      p = space(q + 1);
      if (*p != ':')
        goto bad;
      p = space(p + 1);
      q = *p == '"' ? healed(s, p, end, &key) : skip_value(s, p, end);
    }
    if (!q)
      return NULL;
  next:
    p = space(q);
    if (*p == ',') {
      p = space(p + 1);
      continue;
    }
    if (*p == '}')
      break;
    goto bad;
  }
  if (emit(s, &e, s->base + (uint64_t)(start - s->data))) {
    s->oom = 1;
    return NULL;
  }
  if (s->kept_args)
    ett_json_trim(s);
  return p + 1;
bad:
  s->bad = p;
  return NULL;
}

static ett_json_status SCAN(events)(ett_json_scan *s, const char **position,
                                    const char *end, const char *stop) {
  const char *p = *position;
  for (;;) {
    p = space(p);
    if (*p == ',' && p < end)
      p = space(p + 1);
    if (p >= end) {
      *position = end;
      return ETT_JSON_MORE;
    }
    if (*p == '{') {
      if (p >= stop) {
        *position = p;
        return ETT_JSON_STOP;
      }
      s->bad = NULL;
      const char *q = event(s, p, end);
      if (q) {
        p = q;
        if (s->pending_count)
          ett_json_settle(s, 1);
        continue;
      }
      *position = p;
      if (s->oom)
        return ETT_JSON_MEMORY;
      int bad = s->bad && s->bad < end;
      ett_json_settle(s, bad);
      return bad ? ETT_JSON_BAD : ETT_JSON_MORE;
    }
    *position = p;
    if (*p == ']') {
      *position = p + 1;
      return ETT_JSON_END;
    }
    s->bad = p;
    return ETT_JSON_BAD;
  }
}

const ett_json_scanner SCAN(scanner) = {NAME, SCAN(events), SCAN(skip)};
