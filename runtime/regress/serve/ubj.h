/* Universal Binary JSON (draft 12), as far as XGBoost writes it: objects, arrays, numbers
 * and text, read in place. The bytes are untrusted: no length reaches beyond them, depth
 * is bounded, and what is malformed sets `bad`, after which nothing more is to be
 * believed.
 */
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
  double *items; /* of one array; the caller's to free, grown as needed */
  size_t count, room;
} ett_ubj_numbers;

/* Called for each member of an object, with u behind the type of its value, which it
 * must read or skip. The key is not terminated. */
typedef void (*ett_ubj_member)(ett_ubj *u, const unsigned char *key, size_t key_length,
                               unsigned type, void *context);

/* The next byte; 0 and bad behind the last. */
unsigned ett_ubj_byte(ett_ubj *u);

/* A text's place in the data, with u behind it. */
void ett_ubj_text(ett_ubj *u, const unsigned char **start, size_t *count);
bool ett_ubj_same(const unsigned char *start, size_t count, const char *name);

/* The head of an array: the type of all its items (0: each says its own), and how many
 * there are. Returns whether they are counted; if not, ']' ends them. */
bool ett_ubj_head(ett_ubj *u, unsigned *type, size_t *count);

/* What follows '[': an array of numbers into list, whose count it sets; NULL to skip an
 * array of anything. */
void ett_ubj_array(ett_ubj *u, ett_ubj_numbers *list);

/* What follows '{', member by member. */
void ett_ubj_object(ett_ubj *u, ett_ubj_member member, void *context);

/* A value of the given type. */
void ett_ubj_skip(ett_ubj *u, unsigned type);

#endif
