/* json_scan_args.h - what is known of the event being read, and its args; a part of
 * json_scan_impl.h. */

typedef struct event_state {
  span name, category, meta_name;
  int64_t ts, dur, pid, tid, correlation, stream, device;
  uint32_t has; /* ETT_JSON_ARG_… seen */
  uint8_t ph, pid_type, tid_type, has_category, has_ts, bad_time;
} event_state;

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
