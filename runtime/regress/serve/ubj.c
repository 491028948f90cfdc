#include "regress/serve/ubj.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

unsigned ett_ubj_byte(ett_ubj *u) {
  if (u->at >= u->length) {
    u->bad = true;
    return 0;
  }
  return u->data[u->at++];
}

static uint64_t big_endian(ett_ubj *u, int bytes) {
  uint64_t value = 0;
  for (int i = 0; i < bytes; i++)
    value = value << 8 | ett_ubj_byte(u);
  return value;
}

/* Reads a number of the given type; a type that is not a number sets bad. */
static double number(ett_ubj *u, unsigned type) {
  switch (type) {
  case 'i':
    return (int8_t)ett_ubj_byte(u);
  case 'U':
    return (double)ett_ubj_byte(u);
  case 'I':
    return (int16_t)big_endian(u, 2);
  case 'l':
    return (int32_t)big_endian(u, 4);
  case 'L':
    return (double)(int64_t)big_endian(u, 8);
  case 'd': {
    uint32_t bits = (uint32_t)big_endian(u, 4);
    float value;
    memcpy(&value, &bits, 4);
    return (double)value;
  }
  case 'D': {
    uint64_t bits = big_endian(u, 8);
    double value;
    memcpy(&value, &bits, 8);
    return value;
  }
  case 'T':
    return 1;
  case 'F':
    return 0;
  default:
    u->bad = true;
    return 0;
  }
}

static size_t size_of(unsigned type) {
  return type == 'i' || type == 'U'   ? 1
         : type == 'I'                ? 2
         : type == 'l' || type == 'd' ? 4
         : type == 'L' || type == 'D' ? 8
                                      : 0;
}

/* Reads a length; more than the remaining bytes sets bad. */
static size_t length(ett_ubj *u) {
  unsigned type = ett_ubj_byte(u);
  if (size_of(type) == 0 || type == 'd' || type == 'D')
    u->bad = true;
  double value = u->bad ? 0 : number(u, type);
  if (!(value >= 0) || value > (double)(u->length - u->at)) {
    u->bad = true;
    return 0;
  }
  return (size_t)value;
}

void ett_ubj_text(ett_ubj *u, const unsigned char **start, size_t *count) {
  *count = length(u);
  *start = u->data + u->at;
  u->at += *count;
}

bool ett_ubj_same(const unsigned char *start, size_t count, const char *name) {
  return strlen(name) == count && memcmp(start, name, count) == 0;
}

static void push(ett_ubj *u, ett_ubj_numbers *list, double value) {
  if (list->count == list->room) {
    size_t room = list->room ? list->room * 2 : 64;
    double *items = realloc(list->items, room * sizeof *items);
    if (!items) {
      u->bad = true;
      return;
    }
    list->items = items;
    list->room = room;
  }
  list->items[list->count++] = value;
}

bool ett_ubj_head(ett_ubj *u, unsigned *type, size_t *count) {
  bool counted = false;
  *type = 0;
  *count = 0;
  if (u->at < u->length && u->data[u->at] == '$') {
    u->at++;
    *type = ett_ubj_byte(u);
  }
  if (u->at < u->length && u->data[u->at] == '#') {
    u->at++;
    *count = length(u);
    counted = true;
  }
  if (*type && !counted)
    u->bad = true;
  return counted;
}

void ett_ubj_array(ett_ubj *u, ett_ubj_numbers *list) {
  unsigned type;
  size_t count;
  bool counted = ett_ubj_head(u, &type, &count);
  if (list)
    list->count = 0;
  for (size_t i = 0; !u->bad && (!counted || i < count); i++) {
    unsigned item = type;
    if (!item) {
      item = ett_ubj_byte(u);
      if (!counted && item == ']')
        return;
    }
    if (list)
      push(u, list, number(u, item));
    else
      ett_ubj_skip(u, item);
  }
}

void ett_ubj_object(ett_ubj *u, ett_ubj_member member, void *context) {
  size_t count = 0;
  bool counted = false;
  if (++u->depth > 32)
    u->bad = true;
  if (!u->bad && u->at < u->length && u->data[u->at] == '#') {
    u->at++;
    count = length(u);
    counted = true;
  }
  for (size_t i = 0; !u->bad && (!counted || i < count); i++) {
    if (!counted && u->at < u->length && u->data[u->at] == '}') {
      u->at++;
      break;
    }
    const unsigned char *key;
    size_t key_length;
    ett_ubj_text(u, &key, &key_length);
    unsigned type = ett_ubj_byte(u);
    if (!u->bad)
      member(u, key, key_length, type, context);
  }
  u->depth--;
}

static void skip_member(ett_ubj *u, const unsigned char *key, size_t n, unsigned type,
                        void *context) {
  (void)key, (void)n, (void)context;
  ett_ubj_skip(u, type);
}

void ett_ubj_skip(ett_ubj *u, unsigned type) {
  const unsigned char *start;
  size_t count;
  switch (type) {
  case '{':
    ett_ubj_object(u, skip_member, NULL);
    break;
  case '[':
    if (++u->depth > 32)
      u->bad = true;
    else
      ett_ubj_array(u, NULL);
    u->depth--;
    break;
  case 'S':
    ett_ubj_text(u, &start, &count);
    break;
  case 'Z':
  case 'N':
    break;
  case 'C':
    ett_ubj_byte(u);
    break;
  default:
    number(u, type);
  }
}
