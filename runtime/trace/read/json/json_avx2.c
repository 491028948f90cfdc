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
#include "trace/read/json/json_vector.h"

typedef unsigned char bytes32 __attribute__((vector_size(32)));
#define BITS32(v) ((MASK)_mm256_movemask_epi8((__m256i)(v)))
ALL_TESTS(v, bytes32, BITS32)
FIRST_TESTS(h, bytes16, BITS16)

#define HEAD 16
#include "trace/read/json/json_scan_impl.h"
#endif
