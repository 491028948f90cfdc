/* json_vector.h - the tests of the scanner on a vector of WIDTH bytes; included by the
 * instruction sets that have vectors, which define VECTOR and the operations on it:
 * load, every (a byte in all places), is, atmost, or, mask. */

static inline MASK vstop(const char *p) {
  VECTOR v = load(p);
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
  return mask(is(or (load(p), every(0x20)), '{'));
}

static inline MASK vclose(const char *p) {
  return mask(is(or (load(p), every(0x20)), '}'));
}

static inline MASK vscalar(const char *p) {
  VECTOR v = load(p);
  VECTOR close = is(or (v, every(0x20)), '}');
  return mask(or (or (is(v, ','), is(v, '"')), or (close, atmost(v, 0x20))));
}
