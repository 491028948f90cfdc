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
#include "trace/read/json/json_vector.h"

ALL_TESTS(v, bytes16, BITS16)

#define HEAD WIDTH
#define hstop vstop
#define hsolid vsolid
#define hscalar vscalar
#include "trace/read/json/json_scan_impl.h"
#endif
