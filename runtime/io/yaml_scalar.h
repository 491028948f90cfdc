/* The kinds of plain scalars by YAML's core schema. */
#ifndef ETT_IO_YAML_SCALAR_H
#define ETT_IO_YAML_SCALAR_H

#include <stdbool.h>
#include <stddef.h>

#include "io/yaml.h"

/* Gives a plain scalar its kind and value; false when it is a string. */
bool ett_yaml_resolve(ett_yaml_node *node, const char *text, size_t length);

#endif
