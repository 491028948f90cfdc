/* json_scan_known.h - fast reading of events with a known layout; a part of
 * json_scan_impl.h.
 *
 * Most events of a trace repeat the keys, the order and the white space of an earlier
 * one. A tree stores these layouts. A step of the tree is a run of constant bytes, then a
 * value. If the bytes of an event lead from the root to an end of the tree, only its
 * values are read. Other events are read by the general scanner, and their layouts are
 * added to the tree. */

/* Reads the ts or dur at p, usually digits before a comma. Returns its end, or NULL. */
static inline const char *known_time(ett_json_scan *s, const char *p, const char *end,
                                     event_state *e, int ts) {
  uint64_t whole, part;
  unsigned n, m;
  const char *q = digits(p, &whole, &n);
  if (n - 1 >= 18 || whole > s->whole_limit)
    return event_time(s, p, end, e, ts);
  whole *= s->per_us;
  if (*q == '.') {
    q = digits(q + 1, &part, &m);
    if (m - 1 >= s->decimals)
      return event_time(s, p, end, e, ts);
    whole += part * powers[s->decimals - m];
  }
  if (*q != ',')
    return event_time(s, p, end, e, ts);
  if (ts) {
    e->ts = (int64_t)whole;
    e->has_ts = 1;
  } else {
    e->dur = (int64_t)whole;
    e->has_dur = 1;
  }
  return q;
}

/* Reads the value of a step as the general scanner does. Returns its end, or NULL. */
static inline const char *known_value(ett_json_scan *s, const ett_json_step *step,
                                      const char *p, const char *end, event_state *e) {
  switch (step->value) {
  case ETT_JSON_VALUE_NAME:
    return *p == '"' ? healed(s, p, end, &e->name) : NULL;
  case ETT_JSON_VALUE_TS:
    return known_time(s, p, end, e, 1);
  case ETT_JSON_VALUE_DUR:
    return known_time(s, p, end, e, 0);
  case ETT_JSON_VALUE_PID:
    return identity(s, p, end, &e->pid, &e->pid_type, &s->pid);
  case ETT_JSON_VALUE_TID:
    return identity(s, p, end, &e->tid, &e->tid_type, &s->tid);
  case ETT_JSON_VALUE_ARG:
    return keep_arg(s, step->slot, p, end, e);
  default: {
    span text;
    return *p == '"' ? healed(s, p, end, &text) : skip_value(s, p, end);
  }
  }
}

static inline int take_fact(ett_json_scan *s, const ett_json_fact *f, event_state *e) {
  if (f->slot)
    return take_arg(s, f, e);
  *(f->is_tid ? &e->tid : &e->pid) = f->number;
  *(f->is_tid ? &e->tid_type : &e->pid_type) = ETT_ID_INTEGER;
  return 0;
}

/* Whether the step's bytes are at p. They cannot extend beyond the window: its padding is
 * quotes, and the last byte of a step is not a quote. */
static inline bool is_step(const ett_json_known *k, const ett_json_step *step,
                           const char *p) {
  if ((load8(p + step->before) ^ step->last) & step->mask)
    return false;
  const ptrdiff_t n = step->before;
  const char *q = k->bytes + step->text;
  if (n < WIDTH)
    return (vsame(p, q) | (MASK)(ALL << n)) == ALL;
  for (ptrdiff_t i = 0; i < n - WIDTH; i += WIDTH)
    if (vsame(p + i, q + i) != ALL)
      return false;
  return vsame(p + n - WIDTH, q + n - WIDTH) == ALL;
}

/* The step after `at`, other than the first alternative, whose bytes are at p; NULL if
 * there is none. It becomes the first alternative, because consecutive events are alike.
 */
static ett_json_step *find_step(ett_json_known *k, ett_json_step *at, const char *p) {
  for (ett_json_step *before = at->child, *step; (step = before->next); before = step)
    if (is_step(k, step, p)) {
      before->next = step->next;
      step->next = at->child;
      return at->child = step;
    }
  return NULL;
}

/* Reads the event whose '{' is at p if the tree has its layout, and returns the position
 * after its '}'. Otherwise returns NULL, and k->stuck is the last step that matched. */
static const char *known_event(ett_json_scan *s, const char *p, const char *end,
                               event_state *e) {
  ett_json_known *k = s->known;
  ett_json_step *at = k->steps;
  for (;;) {
    ett_json_step *next = at->child;
    if (!next || (!is_step(k, next, p) && !(next = find_step(k, at, p)))) {
      k->stuck = at;
      k->stuck_at = p;
      return NULL;
    }
    p += next->length;
    for (uint32_t i = 0; i < next->facts; i++)
      if (take_fact(s, &k->facts[next->fact + i], e))
        return NULL;
    if (next->value == ETT_JSON_VALUE_END) {
      e->ph = next->ph;
      e->has_category = next->has_category ? 2 : 0;
      e->category_id = next->category;
      return p;
    }
    if ((unsigned char)*p <= ' ' || !(p = known_value(s, next, p, end, e))) {
      k->stuck_at = NULL;
      return NULL;
    }
    at = next;
  }
}

/* The path of an event through the tree. Steps from `at` on are new. */
typedef struct way {
  const char *from;  /* bytes of the next step */
  ett_json_step *at; /* the step before it */
  uint16_t facts;    /* facts of the next step: the last ones of the tree */
  uint16_t category;
  uint8_t ph;
  bool has_ph, has_category, crowded, failed;
} way;

/* Adds a step whose bytes end at `to`. */
static void add_step(ett_json_known *k, way *w, const char *to, ett_json_value value,
                     const ett_json_slot *slot) {
  const size_t length = (size_t)(to - w->from);
  if (w->failed || k->step_count == ETT_JSON_STEPS || length > ETT_JSON_STEP_BYTES ||
      length > ETT_JSON_BYTES - k->byte_count) {
    w->failed = true;
    return;
  }
  ett_json_step *step = &k->steps[k->step_count++];
  const size_t before = length < 8 ? 0 : length - 8;
  *step =
      (ett_json_step){.last = load8(w->from + before),
                      .mask = length < 8 ? ((uint64_t)1 << 8 * length) - 1 : UINT64_MAX,
                      .before = (uint16_t)before,
                      .text = k->byte_count,
                      .length = (uint16_t)length,
                      .next = w->at->child,
                      .fact = (uint16_t)(k->fact_count - w->facts),
                      .facts = w->facts,
                      .category = w->category,
                      .value = (uint8_t)value,
                      .ph = w->ph,
                      .has_category = w->has_category,
                      .slot = slot};
  memcpy(k->bytes + k->byte_count, w->from, length);
  k->byte_count += (uint32_t)length;
  w->at->child = step;
  w->at = step;
  w->from = to;
  w->facts = 0;
  w->crowded = false;
}

/* Whether a member of args, with its key and value, belongs to the constant bytes. If so,
 * it is added to the facts. */
static bool is_fixed(ett_json_scan *s, way *w, const char *key, const char *value,
                     const char *end, const ett_json_slot *slot) {
  ett_json_known *k = s->known;
  const ett_json_member *m = member_at(s, key);
  if (w->crowded || !m->to_next || !same(key, m->text, m->to_next))
    return false;
  if (!slot)
    return true;
  arg_value v = {.fact = {.slot = slot, .arg = {.type = ETT_ARG_NONE}}};
  if (slot->builtin & ETT_JSON_ARG_NAME || k->fact_count == ETT_JSON_FACTS ||
      !read_arg(s, value, end, &v) || (slot->requested >= 0 && name_text(s, &v)))
    return false;
  k->facts[k->fact_count++] = v.fact;
  w->facts++;
  return true;
}

/* The same for the pid or tid of an event. */
static bool is_fixed_id(ett_json_known *k, way *w, const char *value, const char *q,
                        bool is_tid) {
  ett_json_fact f = {.is_tid = is_tid};
  if (w->crowded || k->fact_count == ETT_JSON_FACTS || integer(value, &f.number) != q)
    return false;
  k->facts[k->fact_count++] = f;
  w->facts++;
  return true;
}

static inline bool is_key(const char *key, size_t length, const char *name) {
  return strlen(name) == length && memcmp(key + 1, name, length) == 0;
}

/* Adds a member to the path: its key and its value, which ends at q. */
static void pass_member(ett_json_scan *s, way *w, const span *key, const char *value,
                        const char *q, const char *end, bool in_args) {
  const char *text = key->text - 1;
  const bool is_new = value >= w->from;
  ett_json_value kind = ETT_JSON_VALUE_OTHER;
  const ett_json_slot *slot = NULL;
  if (in_args) {
    slot = slot_of(s->args, key);
    kind = slot ? ETT_JSON_VALUE_ARG : kind;
    if (!is_new || is_fixed(s, w, text, value, end, slot))
      return;
  } else if (is_key(text, key->length, "ph")) {
    w->failed |= w->has_ph || q - value != 3 || *value != '"' || value[1] == '\\';
    w->has_ph = true;
    w->ph = (uint8_t)value[1] & 0x7F;
    return;
  } else if (is_key(text, key->length, "cat")) {
    const size_t length = (size_t)(q - value) - 2;
    w->failed |= w->has_category || *value != '"' || memchr(value, '\\', length);
    w->has_category = true;
    if (!w->failed)
      w->category = ett_lexicon_category(s->part->lexicon, value + 1, length);
    return;
  } else if (is_key(text, key->length, "name")) {
    kind = ETT_JSON_VALUE_NAME;
    w->failed |= *value != '"';
  } else {
    static const char *const names[] = {"ts", "dur", "pid", "tid"};
    for (int i = 0; i < 4; i++)
      if (is_key(text, key->length, names[i]))
        kind = (ett_json_value)(ETT_JSON_VALUE_TS + i);
  }
  const bool is_tid = kind == ETT_JSON_VALUE_TID;
  if (!is_new || ((is_tid || kind == ETT_JSON_VALUE_PID) &&
                  is_fixed_id(s->known, w, value, q, is_tid)))
    return;
  add_step(s->known, w, value, kind, slot);
  w->from = q;
}

/* Adds the event from p to end to the tree; it was read without damage. */
static void learn(ett_json_scan *s, const char *p, const char *end) {
  ett_json_known *k = s->known;
  way w = {.from = k->stuck_at, .at = k->stuck};
  uint32_t alike = 0;
  for (const ett_json_step *i = w.at->child; i; i = i->next)
    alike++;
  w.crowded = alike >= 8; /* its args probably change, too */
  bool in_args = false;
  p = space(p + 1);
  while (!w.failed) {
    span key;
    const char *q = *p == '"' ? string(p + 1, end, &key) : NULL;
    if (!q || key.escaped || key.control)
      return;
    const char *value = space(space(q + 1) + 1);
    if (!in_args && is_key(p, key.length, "args")) {
      p = space(value + 1);
      if (*value != '{' || *p == '}')
        return;
      in_args = true;
      continue;
    }
    q = SCAN(skip)(value, end);
    if (!q || q == value)
      return;
    pass_member(s, &w, &key, value, q, end, in_args);
    p = space(q);
    if (*p == '}' && in_args) {
      in_args = false;
      p = space(p + 1);
    }
    if (*p == '}') {
      add_step(k, &w, end, ETT_JSON_VALUE_END, NULL);
      return;
    }
    p = space(p + 1);
  }
}

/* Called after an event from p to end whose layout was unknown. Makes the tree, and frees
 * it if too few events match. */
static void unknown_event(ett_json_scan *s, const char *p, const char *end) {
  if (s->until_known) {
    if (--s->until_known == 0 && WIDTH > 8 && (s->known = calloc(1, sizeof *s->known)))
      s->known->step_count = 1;
    return;
  }
  ett_json_known *k = s->known;
  if (++k->misses >= 1024) {
    const bool full =
        k->step_count == ETT_JSON_STEPS || k->byte_count > ETT_JSON_BYTES - 1024;
    if (k->hits < 4 * k->misses && (++k->renewals == 4 || !full)) {
      free(k);
      s->known = NULL;
      return;
    }
    if (k->hits < 4 * k->misses) {
      k->step_count = 1;
      k->fact_count = k->byte_count = 0;
      k->steps[0] = (ett_json_step){0};
      k->stuck_at = NULL;
    }
    k->hits = k->misses = 0;
  }
  if (k->stuck_at && !s->pending_count)
    learn(s, p, end);
}
