#include "io/yaml.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "io/utf8.h"
#include "io/yaml_scalar.h"

const ett_yaml_limits ett_yaml_default_limits = {64, 1000000, (size_t)64 << 20};

typedef struct {
  int32_t node, last; /* the open container and its last child */
  double nodes; /* values in it, with aliases expanded; a double, because it may exceed
                   integers */
  int height;   /* deepest nesting inside it */
} level;

typedef struct {
  char *name;
  int32_t node;
  double nodes; /* -1 while the anchored container is still open */
  int height;
} anchor;

typedef struct {
  yaml_parser_t parser;
  ett_yaml_limits limits;
  ett_yaml_document *document;
  ett_err *err;
  level levels[ETT_YAML_MAX_DEPTH];
  int32_t anchor_of[ETT_YAML_MAX_DEPTH]; /* of the container at a level, or -1 */
  int depth;
  double nodes;
  anchor *anchors;
  size_t anchor_count, anchor_room;
} builder;

static int fault(builder *b, const yaml_mark_t *mark, ett_err_code code,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

static int fault(builder *b, const yaml_mark_t *mark, ett_err_code code,
                 const char *format, ...) {
  char what[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  return ett_err_set(b->err, code, "line %zu: %s", mark->line + 1, what);
}

static int no_memory(builder *b) {
  return ett_err_set(b->err, ETT_ERR_MEMORY, "not enough memory to read yaml");
}

/* Reports libyaml's problem and the construct in which it occurred. */
static int parser_fault(builder *b) {
  const yaml_parser_t *p = &b->parser;
  if (p->error == YAML_MEMORY_ERROR)
    return no_memory(b);
  if (p->error == YAML_READER_ERROR)
    return ett_err_set(b->err, ETT_ERR_FORMAT, "byte %zu: %s", p->problem_offset,
                       p->problem ? p->problem : "unreadable");
  const char *problem = p->problem ? p->problem : "malformed yaml";
  if (p->context)
    return fault(b, &p->problem_mark, ETT_ERR_FORMAT,
                 "column %zu: %s %s that began on line %zu", p->problem_mark.column + 1,
                 problem, p->context, p->context_mark.line + 1);
  return fault(b, &p->problem_mark, ETT_ERR_FORMAT, "column %zu: %s",
               p->problem_mark.column + 1, problem);
}

/* Ensures capacity for one more element. Returns the array, or NULL with the old one
 * unchanged. */
static void *reserve(void *array, size_t count, size_t *room, size_t size) {
  if (count < *room)
    return array;
  size_t wanted = *room ? *room * 2 : 64;
  void *grown = realloc(array, wanted * size);
  if (grown)
    *room = wanted;
  return grown;
}

/* Adds a node as the last child of the open container; returns its index or -1. */
static int32_t add_node(builder *b, ett_yaml_kind kind, const yaml_mark_t *mark) {
  ett_yaml_document *d = b->document;
  b->nodes += 1;
  if (b->nodes > (double)b->limits.nodes || d->count >= INT32_MAX)
    return (int32_t)fault(b, mark, ETT_ERR_LIMIT, "more than %zu values",
                          b->limits.nodes);
  ett_yaml_node *nodes = reserve(d->nodes, d->count, &d->node_room, sizeof *nodes);
  if (!nodes)
    return (int32_t)no_memory(b);
  d->nodes = nodes;
  int32_t index = (int32_t)d->count++;
  nodes[index] = (ett_yaml_node){.kind = kind,
                                 .line = (uint32_t)mark->line + 1,
                                 .column = (uint32_t)mark->column + 1,
                                 .first = -1,
                                 .next = -1};
  if (b->depth > 0) {
    level *l = &b->levels[b->depth - 1];
    if (l->last < 0)
      nodes[l->node].first = index;
    else
      nodes[l->last].next = index;
    l->last = index;
    l->nodes += 1;
  }
  return index;
}

static int add_text(builder *b, ett_yaml_node *node, const char *text, size_t length,
                    const yaml_mark_t *mark) {
  ett_yaml_document *d = b->document;
  if (length > b->limits.text - d->text_length)
    return fault(b, mark, ETT_ERR_LIMIT, "more than %zu bytes of scalars",
                 b->limits.text);
  size_t wanted = d->text_length + length + 1;
  if (wanted > d->text_room) {
    size_t room = wanted * 2;
    char *grown = realloc(d->text, room);
    if (!grown)
      return no_memory(b);
    d->text = grown;
    d->text_room = room;
  }
  node->value.string.offset = d->text_length;
  node->value.string.length = length;
  memcpy(d->text + d->text_length, text, length);
  d->text[wanted - 1] = '\0';
  d->text_length = wanted;
  return 0;
}

/* Whether a tag names this kind of the core schema: "tag:yaml.org,2002:int". */
static bool tag_is(const char *tag, const char *kind) {
  static const char core[] = "tag:yaml.org,2002:";
  return strncmp(tag, core, sizeof core - 1) == 0 &&
         strcmp(tag + sizeof core - 1, kind) == 0;
}

static int apply_tag(builder *b, const yaml_event_t *event, ett_yaml_node *node) {
  static const struct {
    const char *name;
    ett_yaml_kind kind;
  } kinds[] = {{"null", ETT_YAML_NULL},
               {"bool", ETT_YAML_BOOLEAN},
               {"int", ETT_YAML_INTEGER},
               {"float", ETT_YAML_FLOAT},
               {"str", ETT_YAML_STRING}};
  const char *tag = (const char *)event->data.scalar.tag;
  const char *text = (const char *)event->data.scalar.value;
  const size_t length = event->data.scalar.length;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (!tag_is(tag, kinds[i].name))
      continue;
    if (kinds[i].kind == ETT_YAML_STRING)
      return add_text(b, node, text, length, &event->start_mark);
    bool resolved = ett_yaml_resolve(node, text, length);
    if (resolved && kinds[i].kind == ETT_YAML_FLOAT && node->kind == ETT_YAML_INTEGER) {
      node->value.number = (double)node->value.integer;
      node->kind = ETT_YAML_FLOAT;
    }
    if (!resolved || node->kind != kinds[i].kind)
      return fault(b, &event->start_mark, ETT_ERR_FORMAT,
                   "'%.40s' is no %s, as its tag says", text, kinds[i].name);
    return 0;
  }
  return fault(b, &event->start_mark, ETT_ERR_FORMAT, "unknown tag '%.80s'", tag);
}

/* Records the anchor of a node; a later anchor of the same name replaces it. */
static int add_anchor(builder *b, const yaml_char_t *name, int32_t node) {
  if (!name)
    return -1;
  anchor *anchors =
      reserve(b->anchors, b->anchor_count, &b->anchor_room, sizeof *anchors);
  if (!anchors)
    return no_memory(b) - 1;
  b->anchors = anchors;
  anchor *added = &anchors[b->anchor_count];
  *added = (anchor){strdup((const char *)name), node, 1, 0};
  if (!added->name)
    return no_memory(b) - 1;
  return (int)b->anchor_count++;
}

static int scalar(builder *b, const yaml_event_t *event) {
  int32_t index = add_node(b, ETT_YAML_STRING, &event->start_mark);
  if (index < 0)
    return -1;
  if (add_anchor(b, event->data.scalar.anchor, index) < -1)
    return -1;
  ett_yaml_node *node = &b->document->nodes[index];
  const char *text = (const char *)event->data.scalar.value;
  const size_t length = event->data.scalar.length;
  if (event->data.scalar.tag && strcmp((const char *)event->data.scalar.tag, "!") != 0)
    return apply_tag(b, event, node);
  if (event->data.scalar.plain_implicit &&
      event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
      ett_yaml_resolve(node, text, length))
    return 0;
  return add_text(b, node, text, length, &event->start_mark);
}

static int open_container(builder *b, ett_yaml_kind kind, const yaml_event_t *event,
                          const yaml_char_t *name, const yaml_char_t *tag) {
  const yaml_mark_t *mark = &event->start_mark;
  if (b->depth >= b->limits.depth)
    return fault(b, mark, ETT_ERR_LIMIT, "nested deeper than %d levels", b->limits.depth);
  if (tag && strcmp((const char *)tag, "!") != 0 &&
      !tag_is((const char *)tag, kind == ETT_YAML_MAPPING ? "map" : "seq"))
    return fault(b, mark, ETT_ERR_FORMAT, "unknown tag '%.80s'", (const char *)tag);
  int32_t index = add_node(b, kind, mark);
  if (index < 0)
    return -1;
  int anchored = add_anchor(b, name, index);
  if (anchored < -1)
    return -1;
  if (anchored >= 0)
    b->anchors[anchored].nodes = -1;
  b->anchor_of[b->depth] = anchored;
  b->levels[b->depth++] = (level){index, -1, 1, 1};
  return 0;
}

static void close_container(builder *b) {
  const level closed = b->levels[--b->depth];
  const int anchored = b->anchor_of[b->depth];
  if (anchored >= 0) {
    b->anchors[anchored].nodes = closed.nodes;
    b->anchors[anchored].height = closed.height;
  }
  if (b->depth > 0) {
    level *parent = &b->levels[b->depth - 1];
    parent->nodes += closed.nodes - 1; /* the container itself was counted before */
    if (closed.height + 1 > parent->height)
      parent->height = closed.height + 1;
  }
}

static int alias(builder *b, const yaml_event_t *event) {
  const char *name = (const char *)event->data.alias.anchor;
  const yaml_mark_t *mark = &event->start_mark;
  const anchor *found = NULL;
  for (size_t i = b->anchor_count; i > 0 && !found; i--) {
    if (strcmp(b->anchors[i - 1].name, name) == 0)
      found = &b->anchors[i - 1];
  }
  if (!found)
    return fault(b, mark, ETT_ERR_FORMAT, "alias '*%.60s' has no anchor before it", name);
  if (found->nodes < 0)
    return fault(b, mark, ETT_ERR_FORMAT, "alias '*%.60s' is inside its own anchor",
                 name);
  int32_t index = add_node(b, ETT_YAML_ALIAS, mark);
  if (index < 0)
    return -1;
  b->document->nodes[index].value.integer = found->node;
  b->nodes += found->nodes - 1;
  if (b->nodes > (double)b->limits.nodes)
    return fault(b, mark, ETT_ERR_LIMIT, "aliases expand to more than %zu values",
                 b->limits.nodes);
  if (b->depth + found->height > b->limits.depth)
    return fault(b, mark, ETT_ERR_LIMIT, "aliases nest deeper than %d levels",
                 b->limits.depth);
  if (b->depth > 0) {
    level *l = &b->levels[b->depth - 1];
    l->nodes += found->nodes - 1;
    if (found->height + 1 > l->height)
      l->height = found->height + 1;
  }
  return 0;
}

/* Children of a mapping alternate: after an even number the next one is a key. */
static bool at_key(const builder *b) {
  if (b->depth == 0)
    return false;
  const ett_yaml_node *nodes = b->document->nodes;
  const int32_t container = b->levels[b->depth - 1].node;
  if (nodes[container].kind != ETT_YAML_MAPPING)
    return false;
  return nodes[container].value.integer % 2 == 0;
}

static int handle(builder *b, const yaml_event_t *event, int *documents) {
  const bool key = at_key(b);
  if (b->depth > 0 && event->type != YAML_SEQUENCE_END_EVENT &&
      event->type != YAML_MAPPING_END_EVENT)
    b->document->nodes[b->levels[b->depth - 1].node].value.integer++;
  switch (event->type) {
  case YAML_DOCUMENT_START_EVENT:
    if (++*documents > 1)
      return fault(b, &event->start_mark, ETT_ERR_FORMAT,
                   "expected one document, found a second");
    return 0;
  case YAML_SCALAR_EVENT:
    return scalar(b, event);
  case YAML_ALIAS_EVENT:
    if (key)
      return fault(b, &event->start_mark, ETT_ERR_FORMAT, "an alias cannot be a key");
    return alias(b, event);
  case YAML_SEQUENCE_START_EVENT:
  case YAML_MAPPING_START_EVENT:
    if (key)
      return fault(b, &event->start_mark, ETT_ERR_FORMAT,
                   "a key must be a scalar, got a container");
    if (event->type == YAML_SEQUENCE_START_EVENT)
      return open_container(b, ETT_YAML_SEQUENCE, event,
                            event->data.sequence_start.anchor,
                            event->data.sequence_start.tag);
    return open_container(b, ETT_YAML_MAPPING, event, event->data.mapping_start.anchor,
                          event->data.mapping_start.tag);
  case YAML_SEQUENCE_END_EVENT:
  case YAML_MAPPING_END_EVENT:
    close_container(b);
    return 0;
  default:
    return 0;
  }
}

static int build(builder *b) {
  int documents = 0;
  for (bool more = true; more;) {
    yaml_event_t event;
    if (!yaml_parser_parse(&b->parser, &event))
      return parser_fault(b);
    more = event.type != YAML_STREAM_END_EVENT;
    int status = handle(b, &event, &documents);
    yaml_event_delete(&event);
    if (status != 0)
      return -1;
  }
  if (b->document->count == 0)
    return ett_err_set(b->err, ETT_ERR_FORMAT,
                       "holds no value (empty, or comments only)");
  return 0;
}

static int check_text(const char *data, size_t length, ett_err *err) {
  size_t valid = ett_utf8_valid_prefix(data, length);
  if (valid < length)
    return ett_err_set(err, ETT_ERR_FORMAT, "line %zu: not UTF-8 at byte %zu (0x%02x)",
                       ett_place_of(data, valid).line, valid, (unsigned char)data[valid]);
  const char *nul = length ? memchr(data, '\0', length) : NULL;
  if (nul)
    return ett_err_set(err, ETT_ERR_FORMAT, "line %zu: NUL at byte %zu; is this text?",
                       ett_place_of(data, (size_t)(nul - data)).line,
                       (size_t)(nul - data));
  return 0;
}

int ett_yaml_read(const char *data, size_t length, const ett_yaml_limits *limits,
                  ett_yaml_document *document, ett_err *err) {
  memset(document, 0, sizeof *document);
  if (check_text(data, length, err) != 0)
    return -1;
  builder *b = calloc(1, sizeof *b);
  if (!b)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to read yaml");
  b->document = document;
  b->err = err;
  b->limits = limits ? *limits : ett_yaml_default_limits;
  if (b->limits.depth > ETT_YAML_MAX_DEPTH)
    b->limits.depth = ETT_YAML_MAX_DEPTH;
  int status;
  if (!yaml_parser_initialize(&b->parser)) {
    status = no_memory(b);
  } else {
    yaml_parser_set_encoding(&b->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b->parser, (const unsigned char *)data, length);
    status = build(b);
    yaml_parser_delete(&b->parser);
  }
  for (size_t i = 0; i < b->anchor_count; i++)
    free(b->anchors[i].name);
  free(b->anchors);
  free(b);
  if (status != 0)
    ett_yaml_free(document);
  return status;
}

void ett_yaml_free(ett_yaml_document *document) {
  free(document->nodes);
  free(document->text);
  memset(document, 0, sizeof *document);
}
