/* YAML, read by libyaml into one flat array of nodes with their lines.
 *
 * Plain scalars follow the YAML 1.2 core schema: 1.26e9 is a number, `yes` is a string.
 * Refused, with the line: text that is not UTF-8, a second document, unknown tags, keys
 * that are not scalars, documents beyond the limits. An alias refers to its anchor's
 * node; the limits count each use of an alias, so a few lines cannot expand to billions.
 */
#ifndef ETT_IO_YAML_H
#define ETT_IO_YAML_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

typedef enum {
  ETT_YAML_NULL,
  ETT_YAML_BOOLEAN, /* value.integer is 0 or 1 */
  ETT_YAML_INTEGER,
  ETT_YAML_FLOAT,
  ETT_YAML_STRING,
  ETT_YAML_SEQUENCE,
  ETT_YAML_MAPPING, /* children: key, value, key, value, ... */
  ETT_YAML_ALIAS,   /* value.integer is the index of the anchored node */
} ett_yaml_kind;

typedef struct {
  ett_yaml_kind kind;
  uint32_t line, column; /* from 1 */
  int32_t first;         /* first child, or -1 */
  int32_t next;          /* next sibling, or -1 */
  union {
    int64_t integer;
    double number;
    struct {
      size_t offset, length; /* in text; a NUL follows */
    } string;
  } value;
} ett_yaml_node;

typedef struct {
  ett_yaml_node *nodes; /* nodes[0] is the root */
  size_t count;
  char *text;
  size_t text_length;
  size_t node_room, text_room;
} ett_yaml_document;

typedef struct {
  int depth;    /* of containers, with aliases expanded */
  size_t nodes; /* values, with aliases expanded */
  size_t text;  /* bytes of all scalars */
} ett_yaml_limits;

/* 64 levels, a million values, 64 MiB of scalars. */
extern const ett_yaml_limits ett_yaml_default_limits;

/* The largest depth that limits may have. */
#define ETT_YAML_MAX_DEPTH 128

/* Reads the one document in data[0 .. length). Returns 0; the caller then owns *document.
 * Returns -1 on a fault; *document is then empty. */
int ett_yaml_read(const char *data, size_t length, const ett_yaml_limits *limits,
                  ett_yaml_document *document, ett_err *err);

/* Frees a document's memory; may be called twice, and on a zeroed document. */
void ett_yaml_free(ett_yaml_document *document);

#endif
