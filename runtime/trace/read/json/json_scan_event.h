/* json_scan_event.h - the members of an event, and its row; a part of json_scan_impl.h.
 */

static void remember(ett_json_again *again, const char *p, uint32_t length,
                     int64_t value) {
  if (length > 15)
    return;
  for (int i = 0; i < 2; i++) {
    const int bytes = (int)length + 1 - 8 * i;
    again->bits[i] = load8(p + 8 * i);
    again->mask[i] = bytes >= 8 ? UINT64_MAX : bytes <= 0 ? 0 : (1ull << 8 * bytes) - 1;
  }
  again->value = value;
  again->length = length;
}

static const char *new_identity(ett_json_scan *s, const char *p, const char *end,
                                int64_t *value, uint8_t *type, ett_json_again *again) {
  const char *q = integer(p, value);
  if (q != p && (*q == ',' || *q == '}' || (unsigned char)*q <= ' ')) {
    *type = ETT_ID_INTEGER;
    remember(again, p, (uint32_t)(q - p), *value);
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

/* A pid or tid: an integer, a string, or any other value (as its text). Most equal those
 * of the previous event. */
static inline const char *identity(ett_json_scan *s, const char *p, const char *end,
                                   int64_t *value, uint8_t *type, ett_json_again *again) {
  if ((((load8(p) ^ again->bits[0]) & again->mask[0]) |
       ((load8(p + 8) ^ again->bits[1]) & again->mask[1])) == 0) {
    *value = again->value;
    *type = ETT_ID_INTEGER;
    return p + again->length;
  }
  return new_identity(s, p, end, value, type, again);
}

/* A metadata event: the name of a process or thread. -1 if memory runs out. */
static inline int name_track(ett_json_scan *s, const event_state *e) {
  int process = e->name.length == 12 && memcmp(e->name.text, "process_name", 12) == 0;
  int thread = e->name.length == 11 && memcmp(e->name.text, "thread_name", 11) == 0;
  if (!(e->has & ETT_JSON_ARG_NAME) || !(process || thread))
    return 0;
  uint32_t track = ett_part_track(s->part, e->pid, e->pid_type, process ? 0 : e->tid,
                                  process ? ETT_ID_NONE : e->tid_type);
  uint32_t text = ett_json_text(s, e->meta_name.text, e->meta_name.length,
                                e->meta_name.escaped, e->meta_name.control);
  if (track == ETT_TRACE_NONE || text == ETT_STRING_NONE)
    return -1;
  if (process)
    s->part->tracks[track].process = text;
  else
    s->part->tracks[track].thread = text;
  return 0;
}

static inline ett_json_category *category_at(ett_json_scan *s, const char *quoted) {
  return &s->categories[load8(quoted) * 0x9E3779B97F4A7C15u >> 60];
}

/* The number of the event's category; recent categories are cached with their quotes. */
static inline uint16_t category_of(ett_json_scan *s, const event_state *e) {
  if (e->has_category != 1)
    return e->has_category ? e->category_id : ETT_CATEGORY_NONE;
  ett_json_category *c = category_at(s, e->category.text - 1);
  const unsigned quoted = (unsigned)e->category.length + 2;
  if (c->length == quoted && same(e->category.text - 1, c->text, quoted))
    return c->id;
  const char *text = e->category.text;
  size_t length = e->category.length;
  if (e->category.escaped) {
    const uint32_t decoded = ett_json_text(s, text, length, 1, 0);
    if (decoded == ETT_STRING_NONE) {
      s->oom = 1;
      return ETT_CATEGORY_NONE;
    }
    text = s->part->lexicon->strings.items[decoded].text;
    length = s->part->lexicon->strings.items[decoded].length;
  }
  uint16_t id = ett_lexicon_category(s->part->lexicon, text, length);
  if (e->category.length + 2 <= sizeof c->text && id != ETT_CATEGORY_NONE &&
      !s->pending_count) {
    memcpy(c->text, e->category.text - 1, sizeof c->text);
    c->length = quoted;
    c->id = id;
  }
  return id;
}

/* Stores a complete event that begins at `offset`: as a row, as a track's name, or not.
 */
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
  case 'M':
    return name_track(s, e);
  default:
    break;
  }
  ett_row row;
  row.ph = e->ph;
  row.ts = e->ts;
  row.dur = e->dur;
  if (row.ts == 0 && e->has_ts)
    ett_json_hurt(s, ETT_DAMAGE_ZERO_TS, offset);
  if (row.dur < 0) {
    ett_json_hurt(s, ETT_DAMAGE_NEGATIVE_DUR, offset);
    row.ph |= ETT_PH_INVALID;
  } else if (row.dur > s->longest) {
    ett_json_hurt(s, ETT_DAMAGE_LONG_DUR, offset);
    row.ph |= ETT_PH_INVALID;
  }
  if (!e->has_ts)
    ett_json_hurt(s, ETT_DAMAGE_NO_TS, offset);
  if (!e->has_dur && e->ph == 'X')
    ett_json_hurt(s, ETT_DAMAGE_NO_DUR, offset);
  if (e->bad_time || !e->has_ts)
    row.ph |= ETT_PH_INVALID;
  if (__builtin_add_overflow(row.ts, row.dur, &(int64_t){0}))
    row.ph |= ETT_PH_INVALID;
  row.name = text_of(s, &e->name);
  row.track = ett_part_track(part, e->pid, e->pid_type, e->tid, e->tid_type);
  if (row.name == ETT_STRING_NONE || row.track == ETT_TRACE_NONE)
    return -1;
  row.category = category_of(s, e);
  if (s->oom)
    return -1;
  ett_trace_class class = row.category == ETT_CATEGORY_NONE
                              ? ETT_CLASS_OTHER
                              : part->lexicon->category_class[row.category];
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

/* The position after the colon of a key; NULL with s->bad set if there is none. */
static inline const char *behind_colon(ett_json_scan *s, const char *p) {
  if (p[0] == ':' && p[1] == ' ' && (unsigned char)p[2] > ' ')
    return p + 2;
  p = space(p);
  if (*p == ':')
    return space(p + 1);
  s->bad = p;
  return NULL;
}

/* The ts or dur at p: a number, or a string with a number. */
static inline const char *event_time(ett_json_scan *s, const char *p, const char *end,
                                     event_state *e, int ts) {
  int64_t value = 0;
  uint8_t wrong = 0;
  const char *q;
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
  } else if (*p == 'n') { /* null: as if it were missing */
    return skip_value(s, p, end);
  } else {
    q = time_ticks(s, p, end, &value, &wrong);
    if (q == p)
      q = skip_value(s, p, end);
  }
  e->bad_time |= wrong;
  if (ts) {
    e->ts = value;
    e->has_ts = 1;
  } else {
    e->dur = value;
    e->has_dur = 1;
  }
  return q;
}

/* The cat at p (opening quote); behind it, or NULL. Few categories return again and
 * again.
 */
static inline const char *event_category(ett_json_scan *s, const char *p, const char *end,
                                         event_state *e) {
  const ett_json_category *c = category_at(s, p);
  e->has_category = 1;
  if (c->length && p + c->length < end && same(p, c->text, c->length) &&
      (p[c->length] == ',' || p[c->length] == '}')) {
    e->category = (span){p + 1, c->length - 2, 0, 0};
    return p + c->length;
  }
  return healed(s, p, end, &e->category);
}

#define KEY(text) (memcmp(p + 1, text "\"", sizeof text) == 0)

/* Reads the member of an event whose key begins at p. Returns the end of its value, or
 * NULL. */
static inline const char *member(ett_json_scan *s, const char *p, const char *end,
                                 event_state *e) {
  if (KEY("ph")) {
    p = behind_colon(s, p + 4);
    if (!p)
      return NULL;
    if (p[0] != '"' || p[1] == '\\' || p[1] == '"' || p[2] != '"')
      return skip_value(s, p, end);
    e->ph = (uint8_t)p[1] & 0x7F;
    return p + 3;
  }
  if (KEY("ts") || KEY("dur")) {
    int ts = p[1] == 't';
    p = behind_colon(s, p + (ts ? 4 : 5));
    return p ? event_time(s, p, end, e, ts) : NULL;
  }
  if (KEY("pid")) {
    p = behind_colon(s, p + 5);
    return p ? identity(s, p, end, &e->pid, &e->pid_type, &s->pid) : NULL;
  }
  if (KEY("tid")) {
    p = behind_colon(s, p + 5);
    return p ? identity(s, p, end, &e->tid, &e->tid_type, &s->tid) : NULL;
  }
  if (KEY("cat") || KEY("name")) {
    int name = p[1] == 'n';
    p = behind_colon(s, p + (name ? 6 : 5));
    if (!p)
      return NULL;
    if (*p != '"')
      return skip_value(s, p, end);
    return name ? healed(s, p, end, &e->name) : event_category(s, p, end, e);
  }
  if (KEY("args")) {
    p = behind_colon(s, p + 6);
    if (!p)
      return NULL;
    if (*p == '{')
      return arguments(s, p, end, e);
    if (p < end)
      ett_json_hurt(s, ETT_DAMAGE_ARGS_NOT_OBJECT, s->base + (uint64_t)(p - s->data));
    return skip_value(s, p, end);
  }
  span key;
  p = string(p + 1, end, &key);
  if (p)
    p = behind_colon(s, p + 1);
  if (!p)
    return NULL;
  return *p == '"' ? healed(s, p, end, &key) : skip_value(s, p, end);
}

static inline void no_event(event_state *e, const char *p) {
  e->has = 0;
  e->ph = e->pid_type = e->tid_type = e->has_category = 0;
  e->has_ts = e->has_dur = e->bad_time = 0;
  e->name = (span){p, 0, 0, 0};
  e->ts = e->dur = e->pid = e->tid = 0;
}
