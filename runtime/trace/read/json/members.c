#include "trace/read/json/members.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

int ett_member_integer(const char *object, const char *key, int64_t *value) {
  size_t n = strlen(key);
  int depth = 0;
  for (const char *p = object; *p; p++) {
    if (*p == '{' || *p == '[') {
      depth++;
    } else if (*p == '}' || *p == ']') {
      depth--;
    } else if (*p == '"') {
      const char *start = p + 1;
      for (p++; *p && *p != '"'; p++)
        if (*p == '\\' && p[1])
          p++;
      if (!*p)
        return 0;
      if (depth != 1 || (size_t)(p - start) != n || memcmp(start, key, n) != 0)
        continue;
      const char *q = p + 1;
      while (isspace((unsigned char)*q))
        q++;
      if (*q != ':')
        continue;
      q++;
      while (isspace((unsigned char)*q))
        q++;
      bool quoted = *q == '"';
      char *end;
      long long v = strtoll(q + quoted, &end, 10);
      if (end == q + quoted || (quoted && *end != '"'))
        return 0;
      *value = v;
      return 1;
    }
  }
  return 0;
}
