/* json_vector.h - the scanner's tests on byte vectors. The including file defines MASK;
 * `vector` is a GNU vector of unsigned char, bits(v) the top bits of its bytes. */

#define LOADED(vector, p)                                                                \
  vector v;                                                                              \
  memcpy(&v, p, sizeof v)
#define IS(c) (v == (unsigned char)(c))
#define UPTO(c) (v <= (unsigned char)(c))
/* '[' and '{', ']' and '}' differ in one bit */
#define IS_BRACKET(c) ((v | (unsigned char)0x20) == (unsigned char)(c))

/* The tests that the scanner tries first: XYZstop, XYZsolid, XYZscalar for a prefix XYZ.
 */
#define FIRST_TESTS(prefix, vector, bits)                                                \
  static inline MASK prefix##stop(const char *p) {                                       \
    LOADED(vector, p);                                                                   \
    return bits(IS('"') | IS('\\') | UPTO(0x1F));                                        \
  }                                                                                      \
  static inline MASK prefix##solid(const char *p) {                                      \
    LOADED(vector, p);                                                                   \
    return bits(UPTO(0x20)) ^ (MASK)((1ull << sizeof v) - 1);                            \
  }                                                                                      \
  static inline MASK prefix##scalar(const char *p) {                                     \
    LOADED(vector, p);                                                                   \
    return bits(IS(',') | IS('"') | IS_BRACKET('}') | UPTO(0x20));                       \
  }

#define ALL_TESTS(prefix, vector, bits)                                                  \
  FIRST_TESTS(prefix, vector, bits)                                                      \
  static inline MASK prefix##quote(const char *p) {                                      \
    LOADED(vector, p);                                                                   \
    return bits(IS('"'));                                                                \
  }                                                                                      \
  static inline MASK prefix##same(const char *p, const char *q) {                        \
    vector a, b;                                                                         \
    memcpy(&a, p, sizeof a);                                                             \
    memcpy(&b, q, sizeof b);                                                             \
    return bits(a == b);                                                                 \
  }                                                                                      \
  static inline MASK prefix##slash(const char *p) {                                      \
    LOADED(vector, p);                                                                   \
    return bits(IS('\\'));                                                               \
  }                                                                                      \
  static inline MASK prefix##open(const char *p) {                                       \
    LOADED(vector, p);                                                                   \
    return bits(IS_BRACKET('{'));                                                        \
  }                                                                                      \
  static inline MASK prefix##close(const char *p) {                                      \
    LOADED(vector, p);                                                                   \
    return bits(IS_BRACKET('}'));                                                        \
  }

typedef unsigned char bytes16 __attribute__((vector_size(16)));
#define BITS16(v) ((MASK)(unsigned)_mm_movemask_epi8((__m128i)(v)))
