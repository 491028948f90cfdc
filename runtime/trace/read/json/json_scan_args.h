/* json_scan_args.h - the state of the event being read, and its args; a part of
 * json_scan_impl.h. */

typedef struct event_state {
  span name, category, meta_name;
  int64_t ts, dur, pid, tid, correlation, stream, device;
  uint32_t has; /* ETT_JSON_ARG_… seen */
  uint16_t category_id;
  uint8_t ph, pid_type, tid_type, has_ts, has_dur, bad_time;
  uint8_t has_category; /* 1: in category, 2: in category_id */
} event_state;

/* The value of an arg. */
typedef struct arg_value {
  ett_json_fact fact; /* but for the id of a text */
  span text;
} arg_value;

/* A number at p, other than an integer of up to 18 digits. */
static const char *long_number(ett_json_scan *s, const char *p, const char *end,
                               arg_value *v) {
  const char *stop = scalar(p);
  if (stop >= end)
    return NULL;
  uint64_t value;
  unsigned n;
  const char *q = digits(p + (*p == '-'), &value, &n);
  if (q != stop) {
    q = ett_json_number(p, end, &v->fact.arg.value.number);
    if (q && q == stop) {
      v->fact.arg.type = ETT_ARG_FLOAT;
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
    v->fact.arg.type = ETT_ARG_INTEGER;
    v->fact.arg.value.integer = v->fact.number =
        *p == '-' ? -(int64_t)value : (int64_t)value;
    v->fact.integral = true;
  } else {
    ett_json_hurt(s, ETT_DAMAGE_INTEGER_OVERFLOW, s->base + (uint64_t)(p - s->data));
    v->fact.arg.type = ETT_ARG_TEXT;
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
    v->fact.arg.type = ETT_ARG_TEXT;
    v->fact.integral =
        integer(v->text.text, &v->fact.number) == v->text.text + v->text.length &&
        v->text.length;
  } else if ((q = integer(p, &v->fact.number)) != p) {
    v->fact.arg.type = ETT_ARG_INTEGER;
    v->fact.arg.value.integer = v->fact.number;
    v->fact.integral = true;
  } else if (*p == '-' || (unsigned char)(*p - '0') < 10) {
    q = long_number(s, p, end, v);
  } else {
    q = skip_value(s, p, end);
    if (!q)
      return NULL;
    if (*p == '[' || *p == '{') {
      v->fact.arg.type = ETT_ARG_TEXT;
      v->text = (span){p, (size_t)(q - p), 0, 0};
    } else if (q - p == 4 && memcmp(p, "true", 4) == 0) {
      v->fact.arg.type = ETT_ARG_INTEGER;
      v->fact.arg.value.integer = 1;
    } else if (q - p == 5 && memcmp(p, "false", 5) == 0) {
      v->fact.arg.type = ETT_ARG_INTEGER;
      v->fact.arg.value.integer = 0;
    }
  }
  return q;
}

/* The id of the event's name. Most names repeat: they are found by their first and last
 * bytes, then compared. */
static inline uint32_t text_of(ett_json_scan *s, const span *text) {
  const char *p = text->text;
  const size_t n = text->length;
  if (n < 8 || text->escaped || text->control)
    return ett_json_text(s, p, n, text->escaped, text->control);
  const uint64_t head = load8(p), tail = load8(p + n - 8);
  ett_json_seen *known =
      &s->seen[(head ^ tail * 0xD6E8FEB86659FD93u) * 0x9E3779B97F4A7C15u >> 56];
  if (known->head == head && known->tail == tail && known->length == n &&
      (n <= 16 || same(p + 8, known->text + 8, (unsigned)n - 16)))
    return known->id;
  uint32_t id = ett_json_text(s, p, n, 0, 0);
  if (id != ETT_STRING_NONE)
    *known = (ett_json_seen){s->part->lexicon->strings.items[id].text, head, tail,
                             (uint32_t)n, id};
  return id;
}

/* Sets the id of a value's text; -1 if memory runs out. */
static inline int name_text(ett_json_scan *s, arg_value *v) {
  if (v->fact.arg.type != ETT_ARG_TEXT)
    return 0;
  v->fact.arg.value.text = text_of(s, &v->text);
  s->oom |= v->fact.arg.value.text == ETT_STRING_NONE;
  return s->oom ? -1 : 0;
}

/* Adds an arg to the event; -1 if memory runs out. */
static inline int take_arg(ett_json_scan *s, const ett_json_fact *f, event_state *e) {
  if (f->integral) {
    e->has |= f->slot->builtin;
    switch (f->slot->builtin) {
    case ETT_JSON_ARG_STREAM:
      e->stream = f->number;
      break;
    case ETT_JSON_ARG_DEVICE:
      e->device = f->number;
      break;
    case ETT_JSON_ARG_CORRELATION:
      e->correlation = f->number;
      break;
    default:
      break;
    }
  }
  if (f->slot->requested < 0 || f->arg.type == ETT_ARG_NONE)
    return 0;
  ett_trace_arg arg = f->arg;
  arg.row = ett_part_next(s->part);
  if (ett_part_arg(s->part, (uint32_t)f->slot->requested, arg)) {
    s->oom = 1;
    return -1;
  }
  s->kept_args = 1;
  return 0;
}

static const char *keep_arg(ett_json_scan *s, const ett_json_slot *slot, const char *p,
                            const char *end, event_state *e) {
  arg_value v;
  v.fact.slot = slot;
  v.fact.arg.type = ETT_ARG_NONE;
  v.fact.integral = false;
  const char *q = read_arg(s, p, end, &v);
  if (!q)
    return NULL;
  if (slot->builtin & ETT_JSON_ARG_NAME) {
    v.fact.integral = false;
    if (*p == '"') {
      e->meta_name = v.text;
      e->has |= ETT_JSON_ARG_NAME;
    }
  }
  if ((slot->requested >= 0 && name_text(s, &v)) || take_arg(s, &v.fact, e))
    return NULL;
  return q;
}

/* The slot of an arg's key; NULL if the arg was not requested. */
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

static inline ett_json_member *member_at(ett_json_scan *s, const char *key) {
  return &s->members[load8(key + 1) * 0x9E3779B97F4A7C15u >> 56];
}

/* Stores the member whose key begins at p and whose value begins at `value`. next: the
 * key of the following member, the end of the object, or NULL. */
static inline void remember_member(ett_json_member *m, const char *p, const char *value,
                                   const char *next, bool last,
                                   const ett_json_slot *slot) {
  const size_t to_value = (size_t)(value - p), to_next = next ? (size_t)(next - p) : 0;
  m->changes =
      m->to_value == to_value && same(p, m->text, m->to_value) ? m->changes + 1 : 0;
  m->to_value = to_value <= sizeof m->text ? (uint8_t)to_value : 0;
  m->to_next = m->changes < 8 && to_next <= sizeof m->text ? (uint8_t)to_next : 0;
  m->last = last;
  m->slot = slot;
  memcpy(m->text, p, sizeof m->text);
}

/* The start of the value of the key at p; NULL with s->bad set if there is none. */
static inline const char *key_end(ett_json_scan *s, const char *p, const char *end,
                                  const ett_json_slot **slot) {
  span key;
  p = string(p + 1, end, &key);
  if (!p)
    return NULL;
  p = space(p + 1);
  if (*p != ':') {
    s->bad = p;
    return NULL;
  }
  *slot = slot_of(s->args, &key);
  return space(p + 1);
}

/* Reads the args object at p. Returns its end, or NULL. */
static const char *arguments(ett_json_scan *s, const char *p, const char *end,
                             event_state *e) {
  p = space(p + 1);
  if (*p == '}')
    return p + 1;
  while (*p == '"') {
    ett_json_member *m = member_at(s, p);
    const char *value, *q;
    const ett_json_slot *slot;
    bool known = m->to_value && p + m->to_value <= end && same(p, m->text, m->to_value);
    const bool again =
        known && m->to_next && p + m->to_next <= end && same(p, m->text, m->to_next);
    if (again && !m->slot) {
      if (m->last)
        return p + m->to_next;
      p = space(p + m->to_next);
      continue;
    }
    if (known) {
      slot = m->slot;
      value = space(p + m->to_value);
    } else {
      value = key_end(s, p, end, &slot);
      if (!value)
        return NULL;
    }
    const uint32_t damage = s->pending_count;
    span text;
    q = slot            ? keep_arg(s, slot, value, end, e)
        : *value == '"' ? healed(s, value, end, &text)
                        : skip_value(s, value, end);
    if (!q)
      return NULL;
    q = space(q);
    const bool last = *q == '}';
    if (*q != ',' && !last) {
      p = q;
      break;
    }
    q = last ? q + 1 : space(q + 1);
    if (!known || (m->to_next && !again))
      remember_member(m, p, value, s->pending_count != damage ? NULL : q, last, slot);
    p = q;
    if (last)
      return p;
  }
  s->bad = p;
  return NULL;
}
