/* The scanner on 64 bytes at a time (avx512bw). */
#include "trace/json_scan.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define NAME "avx512"
#define SCAN(name) ett_json_avx512_##name
#define WIDTH 64
#define MASK uint64_t
#define ALL UINT64_MAX

static inline unsigned first(MASK m) {
  return (unsigned)__builtin_ctzll(m);
}

static inline int count(MASK m) {
  return __builtin_popcountll(m);
}

static inline MASK prefix(MASK m) {
  m ^= m << 1;
  m ^= m << 2;
  m ^= m << 4;
  m ^= m << 8;
  m ^= m << 16;
  m ^= m << 32;
  return m;
}

static inline __m512i load(const char *p) {
  return _mm512_loadu_si512((const void *)p);
}

static inline MASK is(__m512i v, char c) {
  return _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8(c));
}

static inline MASK vstop(const char *p) {
  __m512i v = load(p);
  return is(v, '"') | is(v, '\\') | _mm512_cmplt_epu8_mask(v, _mm512_set1_epi8(0x20));
}

static inline MASK vsolid(const char *p) {
  return _mm512_cmpgt_epu8_mask(load(p), _mm512_set1_epi8(0x20));
}

static inline MASK vquote(const char *p) {
  return is(load(p), '"');
}

static inline MASK vslash(const char *p) {
  return is(load(p), '\\');
}

/* '[' and '{', ']' and '}' differ in one bit */
static inline MASK vopen(const char *p) {
  return is(_mm512_or_si512(load(p), _mm512_set1_epi8(0x20)), '{');
}

static inline MASK vclose(const char *p) {
  return is(_mm512_or_si512(load(p), _mm512_set1_epi8(0x20)), '}');
}

static inline MASK vscalar(const char *p) {
  __m512i v = load(p);
  return is(v, ',') | is(v, '"') | is(_mm512_or_si512(v, _mm512_set1_epi8(0x20)), '}') |
         _mm512_cmple_epu8_mask(v, _mm512_set1_epi8(0x20));
}

#include "trace/json_scan_impl.h"
#endif
