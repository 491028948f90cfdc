/* The kinds of plain scalars by YAML's core schema. */
#ifndef ETT_IO_YAML_SCALAR_H
#define ETT_IO_YAML_SCALAR_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
  ETT_YAML_NULL,
  ETT_YAML_BOOLEAN, /* integer is 0 or 1 */
  ETT_YAML_INTEGER,
  ETT_YAML_FLOAT,
  ETT_YAML_STRING,
} ett_yaml_kind;

typedef struct {
  ett_yaml_kind kind;
  int64_t integer;
  double number; /* of integers, too */
} ett_yaml_scalar;

/* The kind and value of a plain scalar. */
ett_yaml_scalar ett_yaml_resolve(const char *text, size_t length);

#endif
