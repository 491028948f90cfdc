/* The scanner on 16 bytes at a time (sse2). */
#include "trace/read/json/json_scan.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define NAME "sse2"
#define SCAN(name) ett_json_sse2_##name
#define WIDTH 16
#define ALL 0xFFFFu
#include "trace/read/json/json_mask.h"

#define VECTOR __m128i

static inline __m128i load(const char *p) {
  return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline __m128i every(char c) {
  return _mm_set1_epi8(c);
}

static inline __m128i is(__m128i v, char c) {
  return _mm_cmpeq_epi8(v, every(c));
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

#include "trace/read/json/json_vector.h"

#define HEAD WIDTH
#define hstop vstop
#define hsolid vsolid
#define hscalar vscalar
#include "trace/read/json/json_scan_impl.h"
#endif
