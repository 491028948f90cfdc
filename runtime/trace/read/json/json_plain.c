/* The scanner without vector instructions: the reference, and other machines. */
#include "trace/read/json/json_scan.h"

#include <string.h>

#define NAME "plain"
#define SCAN(name) ett_json_plain_##name
#define WIDTH 8
#define ALL 0xFFu
#include "trace/read/json/json_mask.h"

#define TEST(name, condition)                                                            \
  static inline MASK name(const char *p) {                                               \
    MASK m = 0;                                                                          \
    for (unsigned i = 0; i < WIDTH; i++) {                                               \
      unsigned char c = (unsigned char)p[i];                                             \
      m |= (MASK)(condition) << i;                                                       \
    }                                                                                    \
    return m;                                                                            \
  }
TEST(vstop, c == '"' || c == '\\' || c < 0x20)
TEST(vsolid, c > 0x20)
TEST(vquote, c == '"')
TEST(vslash, c == '\\')
TEST(vopen, c == '{' || c == '[')
TEST(vclose, c == '}' || c == ']')
TEST(vscalar, c == ',' || c == '}' || c == ']' || c == '"' || c <= 0x20)

static inline MASK vsame(const char *p, const char *q) {
  MASK m = 0;
  for (unsigned i = 0; i < WIDTH; i++)
    m |= (MASK)(p[i] == q[i]) << i;
  return m;
}

#define HEAD WIDTH
#define hstop vstop
#define hsolid vsolid
#define hscalar vscalar
#include "trace/read/json/json_scan_impl.h"

const ett_json_scanner *ett_json_scanner_named(const char *name) {
  if (strcmp(name, "plain") == 0)
    return &ett_json_plain_scanner;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (strcmp(name, "sse2") == 0)
    return &ett_json_sse2_scanner;
  if (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2") &&
      __builtin_cpu_supports("bmi2"))
    return &ett_json_avx2_scanner;
#endif
  return NULL;
}

/* AVX-512 reads no faster than AVX2: the tokens are short. */
const ett_json_scanner *ett_json_scanner_best(void) {
  static const char *const order[] = {"avx2", "sse2"};
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    const ett_json_scanner *s = ett_json_scanner_named(order[i]);
    if (s)
      return s;
  }
  return &ett_json_plain_scanner;
}
