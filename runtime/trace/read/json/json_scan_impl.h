/* json_scan_impl.h - the scanner; included once per instruction set.
 *
 * The including file defines SCAN(name), WIDTH and the primitives on WIDTH bytes at p:
 *   vstop(p)   mask of quote, backslash and bytes below 0x20
 *   vsolid(p)  mask of bytes above 0x20 (not white space)
 *   vquote(p), vslash(p), vopen(p) ('{' '['), vclose(p) ('}' ']')
 *   vscalar(p) mask of ',' '}' ']' '"' and bytes up to 0x20
 * hstop, hsolid and hscalar do the same on HEAD bytes: most strings, numbers and runs of
 * white space are short, and narrow registers are faster. prefix(m) is the running
 * exclusive-or of the bits. All masks have type MASK. */

#include <stdlib.h>

/* Each uses the ones before it. */
#include "trace/read/json/json_scan_tokens.h"

#include "trace/read/json/json_scan_args.h"

#include "trace/read/json/json_scan_event.h"

#include "trace/read/json/json_scan_known.h"

/* Stores an event by its members; -1 if memory runs out. */
static inline int finish(ett_json_scan *s, event_state *e, const char *start) {
  if (emit(s, e, s->base + (uint64_t)(start - s->data))) {
    s->oom = 1;
    return -1;
  }
  if (s->kept_args)
    ett_json_trim(s);
  return 0;
}

/* Reads the members of an event; p is after its '{'. Returns the position after its '}',
 * or NULL with s->bad set if it is malformed. */
static inline const char *members(ett_json_scan *s, const char *p, const char *end,
                                  event_state *e) {
  for (;;) {
    if (*p != '"')
      break;
    const char *q = member(s, p, end, e);
    if (!q)
      return NULL;
    if (q[0] == ',' && q[1] == ' ' && q[2] == '"') {
      p = q + 2;
      continue;
    }
    p = space(q);
    if (*p == ',') {
      p = space(p + 1);
      continue;
    }
    if (*p != '}')
      break;
    return p + 1;
  }
  s->bad = p;
  return NULL;
}

/* Reads the event whose '{' is at p. Returns the position after its '}', or NULL with
 * s->bad set if it is malformed. */
static inline const char *event(ett_json_scan *s, const char *p, const char *end) {
  event_state e;
  no_event(&e, p);
  const char *q = s->known ? known_event(s, p, end, &e) : NULL;
  if (q) {
    s->known->hits++;
    return finish(s, &e, p) ? NULL : q;
  }
  if (s->known) {
    if (s->oom)
      return NULL;
    no_event(&e, p);
    s->bad = NULL;
    ett_json_settle(s, 0);
  }
  q = space(p + 1);
  if (*q == '}' && q < end)
    return q + 1; /* {}: XLA ends its arrays with an empty event */
  q = members(s, q, end, &e);
  if (!q || finish(s, &e, p))
    return NULL;
  if (s->known || s->until_known)
    unknown_event(s, p, q);
  return q;
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
      if (s->kept_args) /* the next event must not have them */
        ett_json_trim(s);
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
