/* The scanner on 16 bytes at a time (sse2). */
#include "trace/json_scan.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define NAME "sse2"
#define SCAN(name) ett_json_sse2_##name
#define WIDTH 16
#define MASK uint32_t
#define ALL 0xFFFFu

static inline unsigned first(MASK m) {
  return (unsigned)__builtin_ctz(m);
}

static inline int count(MASK m) {
  return __builtin_popcount(m);
}

static inline MASK prefix(MASK m) {
  m ^= m << 1;
  m ^= m << 2;
  m ^= m << 4;
  m ^= m << 8;
  return m & ALL;
}

static inline __m128i load(const char *p) {
  return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline __m128i is(__m128i v, char c) {
  return _mm_cmpeq_epi8(v, _mm_set1_epi8(c));
}

static inline __m128i atmost(__m128i v, char c) {
  return _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(c)), v);
}

static inline __m128i or (__m128i a, __m128i b) {
  return _mm_or_si128(a, b);
}

static inline MASK mask(__m128i v) {
  return (MASK)_mm_movemask_epi8(v);
}

static inline MASK vstop(const char *p) {
  __m128i v = load(p);
  return mask(or (or (is(v, '"'), is(v, '\\')), atmost(v, 0x1F)));
}

static inline MASK vsolid(const char *p) {
  return ~mask(atmost(load(p), 0x20)) & ALL;
}

static inline MASK vquote(const char *p) {
  return mask(is(load(p), '"'));
}

static inline MASK vslash(const char *p) {
  return mask(is(load(p), '\\'));
}

/* '[' and '{', ']' and '}' differ in one bit */
static inline MASK vopen(const char *p) {
  return mask(is(or (load(p), _mm_set1_epi8(0x20)), '{'));
}

static inline MASK vclose(const char *p) {
  return mask(is(or (load(p), _mm_set1_epi8(0x20)), '}'));
}

static inline MASK vscalar(const char *p) {
  __m128i v = load(p);
  __m128i close = is(or (v, _mm_set1_epi8(0x20)), '}');
  return mask(or (or (is(v, ','), is(v, '"')), or (close, atmost(v, 0x20))));
}

#define HEAD WIDTH
#define hstop vstop
#define hsolid vsolid
#define hscalar vscalar
#include "trace/json_scan_impl.h"
#endif
