/* walk.h - the members of JSON objects and the items of arrays, one after the other. */
#ifndef ETT_TRACE_WALK_H
#define ETT_TRACE_WALK_H

#include "trace/read/whole.h"

/* Starts as { .rest = the object or array }. */
typedef struct ett_walk {
  slice rest;
  bool begun, damaged;
} ett_walk;

/* The next member (key is not NULL; without its quotes) or item; false at the end, or
 * with damaged set. */
bool ett_walk_next(ett_walk *w, slice *key, slice *value);

/* The text between the quotes of a string value, with its escapes; false for other
 * values. */
bool ett_walk_text(slice value, slice *text);

#endif
