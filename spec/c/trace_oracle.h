/* Compares what the scanner read with what simdjson says the document holds. */
#ifndef ETT_SPEC_TRACE_ORACLE_H
#define ETT_SPEC_TRACE_ORACLE_H

#include <math.h>

#include "trace_json_support.h"
#include "trace_simdjson.h"

typedef struct comparison {
  const ett_trace_part *part;
  uint32_t row; /* next one, part-local */
  uint32_t next_arg[ASKED];
  uint64_t events;
  char wrong[256]; /* the first difference, or empty */
} comparison;

static inline void differs(comparison *c, const char *what) {
  if (!c->wrong[0])
    snprintf(c->wrong, sizeof c->wrong, "%s of event %" PRIu64, what, c->events);
}

static inline int number_like(const oracle_value *v) {
  return v->type == ORACLE_INTEGER || v->type == ORACLE_UNSIGNED ||
         v->type == ORACLE_FLOAT;
}

static inline int same_text(const ett_trace_part *p, uint32_t id, const char *s,
                            size_t n) {
  const ett_string *t = &p->lexicon->strings.items[id];
  return t->length == n && memcmp(t->text, s, n) == 0;
}

/* A whole text that is an integer of at most 18 digits, as the scanner takes one. */
static inline int digits_only(const oracle_value *v, int64_t *out) {
  size_t i = v->length && v->text[0] == '-';
  if (v->length == i || v->length - i > 18)
    return 0;
  for (size_t k = i; k < v->length; k++)
    if (v->text[k] < '0' || v->text[k] > '9')
      return 0;
  char copy[24];
  memcpy(copy, v->text, v->length);
  copy[v->length] = 0;
  *out = strtoll(copy, NULL, 10);
  return 1;
}

static inline void check_time(comparison *c, const oracle_value *v, int64_t ticks,
                              const char *what) {
  if (!number_like(v))
    return; /* text times and damage are tested elsewhere */
  double want = v->number * 1000.0;
  if (fabs(want) > 9.2e18)
    return;
  if (fabs((double)ticks - want) > 0.51 + fabs(want) * 4.5e-16)
    differs(c, what);
}

static inline void check_arg(comparison *c, const oracle_value *v, unsigned a) {
  const ett_args_column *column = &c->part->args[a];
  uint32_t *at = &c->next_arg[a];
  const ett_trace_arg *have = *at < column->count && column->items[*at].row == c->row
                                  ? &column->items[(*at)++]
                                  : NULL;
  switch (v->type) {
  case ORACLE_NONE:
  case ORACLE_NULL:
    /* a null that follows another value of the same key leaves that one */
    if (have && v->type == ORACLE_NONE)
      differs(c, "absent arg");
    break;
  case ORACLE_INTEGER:
    if (!have || have->type != ETT_ARG_INTEGER || have->value.integer != v->integer)
      differs(c, "integer arg");
    break;
  case ORACLE_UNSIGNED:
    if (!have || have->type != ETT_ARG_TEXT)
      differs(c, "wide arg");
    break;
  case ORACLE_FLOAT:
    if (!have || (have->type == ETT_ARG_FLOAT && have->value.number != v->number))
      differs(c, "float arg");
    break;
  case ORACLE_TEXT:
    if (!have || have->type != ETT_ARG_TEXT ||
        !same_text(c->part, have->value.text, v->text, v->length))
      differs(c, "text arg");
    break;
  case ORACLE_TRUE:
  case ORACLE_FALSE:
    if (!have || have->type != ETT_ARG_INTEGER ||
        have->value.integer != (v->type == ORACLE_TRUE))
      differs(c, "boolean arg");
    break;
  case ORACLE_TREE: {
    if (!have || have->type != ETT_ARG_TEXT) {
      differs(c, "tree arg");
      break;
    }
    const ett_string *t = &c->part->lexicon->strings.items[have->value.text];
    char *copy = malloc((size_t)t->length * 2 + 64);
    if (!copy)
      abort();
    size_t n = oracle_minify(t->text, t->length, copy);
    if (n != v->length || memcmp(copy, v->text, n) != 0)
      differs(c, "tree arg's text");
    free(copy);
  }
  }
}

static inline void check_id(comparison *c, const oracle_value *v, int64_t value,
                            uint8_t type, const char *what) {
  int64_t number;
  if (v->type == ORACLE_NONE || v->type == ORACLE_NULL) {
    if (type != ETT_ID_NONE && v->type == ORACLE_NONE)
      differs(c, what);
  } else if (v->type == ORACLE_INTEGER && v->integer < 1000000000000000000 &&
             v->integer > -1000000000000000000) {
    if (type != ETT_ID_INTEGER || value != v->integer)
      differs(c, what);
  } else if (v->type == ORACLE_TEXT) {
    if (digits_only(v, &number)
            ? type != ETT_ID_INTEGER || value != number
            : type != ETT_ID_TEXT ||
                  !same_text(c->part, (uint32_t)value, v->text, v->length))
      differs(c, what);
  }
}

static inline void check_event(void *context, const oracle_event *e) {
  comparison *c = context;
  c->events++;
  if (e->ph.type != ORACLE_TEXT || e->ph.length != 1)
    return;
  char ph = e->ph.text[0];
  if (ph == 'M' || ph == 's' || ph == 't' || ph == 'f' || ph & 0x80)
    return;
  uint32_t block = c->row >> 16, i = c->row & 0xFFFF;
  if (block >= c->part->block_count || i >= c->part->blocks[block].count) {
    differs(c, "absence");
    return;
  }
  const ett_trace_block *k = &c->part->blocks[block];
  if ((k->ph[i] & 0x7F) != ph)
    differs(c, "phase");
  if (e->name.type == ORACLE_TEXT &&
      !same_text(c->part, k->name[i], e->name.text, e->name.length))
    differs(c, "name");
  if (e->category.type == ORACLE_TEXT && k->category[i] != ETT_CATEGORY_NONE &&
      !memchr(e->category.text, '"', e->category.length)) {
    const ett_string *t = &c->part->lexicon->categories.items[k->category[i]];
    if (!memchr(t->text, '\\', t->length) &&
        (t->length != e->category.length ||
         memcmp(t->text, e->category.text, t->length) != 0))
      differs(c, "category");
  }
  check_time(c, &e->ts, k->ts[i], "ts");
  check_time(c, &e->dur, k->dur[i], "dur");
  const ett_track *w = &c->part->tracks[k->track[i]];
  check_id(c, &e->pid, w->pid, w->pid_type, "pid");
  check_id(c, &e->tid, w->tid, w->tid_type, "tid");
  if (e->correlation.type == ORACLE_INTEGER &&
      k->correlation[i] != e->correlation.integer)
    differs(c, "correlation");
  if (e->stream.type == ORACLE_INTEGER && e->stream.integer >= -1 &&
      e->stream.integer <= INT32_MAX && k->stream[i] != e->stream.integer)
    differs(c, "stream");
  for (unsigned a = 0; a < ASKED; a++)
    check_arg(c, &e->args[a], a);
  c->row = i + 1 == ETT_TRACE_BLOCK ? (block + 1) << 16 : c->row + 1;
}

/* 0 same, 1 simdjson rejects, 2 another shape, -1 they differ (*c says where). */
static inline int compare_with_oracle(comparison *c, const char *bytes, size_t length,
                                      const ett_trace_part *part) {
  memset(c, 0, sizeof *c);
  c->part = part;
  int status = oracle_events(bytes, length, asked, ASKED, check_event, c);
  if (status)
    return status;
  uint64_t rows = 0;
  for (uint32_t b = 0; b < part->block_count; b++)
    rows += part->blocks[b].count;
  uint64_t expected = (uint64_t)(c->row >> 16) * ETT_TRACE_BLOCK + (c->row & 0xFFFF);
  if (rows != expected)
    differs(c, "a row too many");
  return c->wrong[0] ? -1 : 0;
}

#endif
