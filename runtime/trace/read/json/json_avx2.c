/* The scanner on 32 bytes at a time (avx2). */
#include "trace/read/json/json_scan.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define NAME "avx2"
#define SCAN(name) ett_json_avx2_##name
#define WIDTH 32
#define ALL 0xFFFFFFFFu
#include "trace/read/json/json_mask.h"

#define VECTOR __m256i

static inline __m256i load(const char *p) {
  return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

static inline __m256i every(char c) {
  return _mm256_set1_epi8(c);
}

static inline __m256i is(__m256i v, char c) {
  return _mm256_cmpeq_epi8(v, every(c));
}

static inline __m256i atmost(__m256i v, char c) {
  return _mm256_cmpeq_epi8(_mm256_min_epu8(v, _mm256_set1_epi8(c)), v);
}

static inline __m256i or (__m256i a, __m256i b) {
  return _mm256_or_si256(a, b);
}

static inline MASK mask(__m256i v) {
  return (MASK)_mm256_movemask_epi8(v);
}

#include "trace/read/json/json_vector.h"

/* on 16 bytes */
static inline __m128i load16(const char *p) {
  return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline __m128i is16(__m128i v, char c) {
  return _mm_cmpeq_epi8(v, _mm_set1_epi8(c));
}

static inline __m128i atmost16(__m128i v, char c) {
  return _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(c)), v);
}

static inline MASK mask16(__m128i v) {
  return (MASK)(unsigned)_mm_movemask_epi8(v);
}

static inline MASK hstop(const char *p) {
  __m128i v = load16(p);
  return mask16(
      _mm_or_si128(_mm_or_si128(is16(v, '"'), is16(v, '\\')), atmost16(v, 0x1F)));
}

static inline MASK hsolid(const char *p) {
  return mask16(atmost16(load16(p), 0x20)) ^ 0xFFFF;
}

static inline MASK hscalar(const char *p) {
  __m128i v = load16(p), close = is16(_mm_or_si128(v, _mm_set1_epi8(0x20)), '}');
  return mask16(_mm_or_si128(_mm_or_si128(is16(v, ','), is16(v, '"')),
                             _mm_or_si128(close, atmost16(v, 0x20))));
}

#define HEAD 16
#include "trace/read/json/json_scan_impl.h"
#endif
