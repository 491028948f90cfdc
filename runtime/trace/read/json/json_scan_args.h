/* json_scan_args.h - the state of the event being read, and its args; a part of
 * json_scan_impl.h. */

typedef struct event_state {
  span name, category, meta_name;
  int64_t ts, dur, pid, tid, correlation, stream, device;
  uint32_t has; /* ETT_JSON_ARG_… seen */
  uint8_t ph, pid_type, tid_type, has_category, has_ts, bad_time;
} event_state;

/* The value of an arg. */
typedef struct arg_value {
  ett_trace_arg arg; /* but for the id of a text */
  span text;
  int64_t number;
  bool integral; /* number holds the value, which may be the text of an integer */
} arg_value;

/* A number at p that is no integer of up to 18 digits. */
static const char *long_number(ett_json_scan *s, const char *p, const char *end,
                               arg_value *v) {
  const char *stop = scalar(p);
  if (stop >= end)
    return NULL;
  uint64_t value;
  unsigned n;
  const char *q = digits(p + (*p == '-'), &value, &n);
  if (q != stop) {
    q = ett_json_number(p, end, &v->arg.value.number);
    if (q && q == stop) {
      v->arg.type = ETT_ARG_FLOAT;
      return q;
    }
    ett_json_hurt(s, ETT_DAMAGE_BAD_NUMBER, s->base + (uint64_t)(p - s->data));
    return stop;
  }
  bool wide = false;
  value = 0;
  for (q = p + (*p == '-'); q < stop; q++)
    wide |= __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*q - '0'), &value);
  if (!wide && value <= (uint64_t)INT64_MAX) {
    v->arg.type = ETT_ARG_INTEGER;
    v->arg.value.integer = v->number = *p == '-' ? -(int64_t)value : (int64_t)value;
    v->integral = true;
  } else {
    ett_json_hurt(s, ETT_DAMAGE_INTEGER_OVERFLOW, s->base + (uint64_t)(p - s->data));
    v->arg.type = ETT_ARG_TEXT;
    v->text = (span){p, (size_t)(stop - p), 0, 0};
  }
  return q;
}

/* Reads the value at p; returns its end, or NULL. */
static const char *read_arg(ett_json_scan *s, const char *p, const char *end,
                            arg_value *v) {
  const char *q;
  if (*p == '"') {
    q = healed(s, p, end, &v->text);
    if (!q)
      return NULL;
    v->arg.type = ETT_ARG_TEXT;
    v->integral = integer(v->text.text, &v->number) == v->text.text + v->text.length &&
                  v->text.length;
  } else if ((q = integer(p, &v->number)) != p) {
    v->arg.type = ETT_ARG_INTEGER;
    v->arg.value.integer = v->number;
    v->integral = true;
  } else if (*p == '-' || (unsigned char)(*p - '0') < 10) {
    q = long_number(s, p, end, v);
  } else {
    q = skip_value(s, p, end);
    if (!q)
      return NULL;
    if (*p == '[' || *p == '{') {
      v->arg.type = ETT_ARG_TEXT;
      v->text = (span){p, (size_t)(q - p), 0, 0};
    } else if (q - p == 4 && memcmp(p, "true", 4) == 0) {
      v->arg.type = ETT_ARG_INTEGER;
      v->arg.value.integer = 1;
    } else if (q - p == 5 && memcmp(p, "false", 5) == 0) {
      v->arg.type = ETT_ARG_INTEGER;
      v->arg.value.integer = 0;
    }
  }
  return q;
}

static const char *keep_arg(ett_json_scan *s, const ett_json_slot *slot, const char *p,
                            const char *end, event_state *e) {
  arg_value v = {.arg = {.row = ett_part_next(s->part), .type = ETT_ARG_NONE}};
  const char *q = read_arg(s, p, end, &v);
  if (!q)
    return NULL;
  if (slot->builtin & ETT_JSON_ARG_NAME) {
    if (*p == '"') {
      e->meta_name = v.text;
      e->has |= ETT_JSON_ARG_NAME;
    }
  } else if (v.integral) {
    e->has |= slot->builtin;
  }
  switch (e->has & slot->builtin) {
  case ETT_JSON_ARG_STREAM:
    e->stream = v.number;
    break;
  case ETT_JSON_ARG_DEVICE:
    e->device = v.number;
    break;
  case ETT_JSON_ARG_CORRELATION:
    e->correlation = v.number;
    break;
  default:
    break;
  }
  if (slot->requested < 0 || v.arg.type == ETT_ARG_NONE)
    return q;
  if (v.arg.type == ETT_ARG_TEXT) {
    v.arg.value.text =
        ett_json_text(s, v.text.text, v.text.length, v.text.escaped, v.text.control);
    if (v.arg.value.text == ETT_STRING_NONE) {
      s->oom = 1;
      return NULL;
    }
  }
  if (ett_part_arg(s->part, (uint32_t)slot->requested, v.arg)) {
    s->oom = 1;
    return NULL;
  }
  s->kept_args = 1;
  return q;
}

/* The slot of an arg's key, or NULL when the arg was not requested. */
static inline const ett_json_slot *slot_of(const ett_json_args *wanted, const span *key) {
  unsigned char c = (unsigned char)*key->text;
  const ett_json_slot *slot = NULL;
  if (wanted->lengths[c] >> (key->length < 31 ? key->length : 31) & 1)
    for (int32_t i = wanted->first[c]; i >= 0; i = wanted->slots[i].next)
      if (wanted->slots[i].length == key->length &&
          memcmp(wanted->slots[i].name, key->text, key->length) == 0)
        slot = &wanted->slots[i];
  return slot;
}

/* The args object that opens at p; behind it, or NULL. */
static const char *arguments(ett_json_scan *s, const char *p, const char *end,
                             event_state *e) {
  p = space(p + 1);
  if (*p == '}')
    return p + 1;
  for (;;) {
    span key;
    if (*p != '"')
      break;
    const char *q = string(p + 1, end, &key);
    if (!q)
      return NULL;
    p = space(q + 1);
    if (*p != ':')
      break;
    p = space(p + 1);
    const ett_json_slot *slot = slot_of(s->args, &key);
    if (slot)
      q = keep_arg(s, slot, p, end, e);
    else if (*p == '"')
      q = healed(s, p, end, &key);
    else
      q = skip_value(s, p, end);
    if (!q)
      return NULL;
    p = space(q);
    if (*p == ',') {
      p = space(p + 1);
      continue;
    }
    if (*p == '}')
      return p + 1;
    break;
  }
  s->bad = p;
  return NULL;
}
