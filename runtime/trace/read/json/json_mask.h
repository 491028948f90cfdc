/* json_mask.h - arithmetic on the masks of WIDTH bytes; included once per instruction
 * set, which defines NAME, SCAN, WIDTH and ALL before. */
#define MASK uint32_t

static inline unsigned first(MASK m) {
  return (unsigned)__builtin_ctz(m);
}

static inline int count(MASK m) {
  return __builtin_popcount(m);
}

/* Bit i: whether an odd number of bits up to i are set. */
static inline MASK prefix(MASK m) {
  m ^= m << 1;
  m ^= m << 2;
  m ^= m << 4;
#if WIDTH > 8
  m ^= m << 8;
#endif
#if WIDTH > 16
  m ^= m << 16;
#endif
  return m & ALL;
}
