/* Reads Universal Binary JSON (draft 12), the subset written by XGBoost: objects, arrays,
 * numbers and text, in place. The bytes are untrusted: lengths and depth are bounded, and
 * malformed input sets `bad`. After that, values are meaningless. */
#ifndef ETT_REGRESS_UBJ_H
#define ETT_REGRESS_UBJ_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  const unsigned char *data;
  size_t length, at;
  bool bad;
  int depth;
} ett_ubj;

typedef struct {
  double *items; /* of one array, grown as needed; the caller frees it */
  size_t count, room;
} ett_ubj_numbers;

/* Called for each member of an object. u is at the value, after its type; the function
 * must read or skip the value. The key is not terminated. */
typedef void (*ett_ubj_member)(ett_ubj *u, const unsigned char *key, size_t key_length,
                               unsigned type, void *context);

/* The next byte; at the end returns 0 and sets bad. */
unsigned ett_ubj_byte(ett_ubj *u);

/* Start and length of a text in the data; advances u. */
void ett_ubj_text(ett_ubj *u, const unsigned char **start, size_t *count);
bool ett_ubj_same(const unsigned char *start, size_t count, const char *name);

/* Reads the head of an array: the type of all its items (0: each item has its own) and
 * their number. Returns whether it states a number; if not, ']' ends the items. */
bool ett_ubj_head(ett_ubj *u, unsigned *type, size_t *count);

/* Reads the array after '[' into list, which must hold numbers. With list NULL it skips
 * an array of any items. */
void ett_ubj_array(ett_ubj *u, ett_ubj_numbers *list);

/* Reads the object after '{' and calls member for each of its members. */
void ett_ubj_object(ett_ubj *u, ett_ubj_member member, void *context);

/* Skips a value of the given type. */
void ett_ubj_skip(ett_ubj *u, unsigned type);

#endif
