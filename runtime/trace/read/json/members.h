/* members.h - small questions about the JSON text of a root member. */
#ifndef ETT_TRACE_MEMBERS_H
#define ETT_TRACE_MEMBERS_H

#include <stdint.h>

/* An integer member of a JSON object's text: 1 when it is there. */
int ett_member_integer(const char *object, const char *key, int64_t *value);

#endif
