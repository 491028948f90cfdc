/* Any bytes as a trace document: nothing is read outside of them, all instruction sets
 * read the same, a document read in two stretches is read as in one, and what simdjson
 * accepts has the rows that simdjson sees (where it is installed). The first byte chooses
 * how the source hands the bytes out. */
#include <stdint.h>
#include <stdlib.h>

#include "../c/trace_json_support.h"
#ifdef ETT_TRACE_ORACLE
#include "../c/trace_oracle.h"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t read_with(const char *scanner, const char *bytes, size_t length,
                          size_t step, int *status, ett_trace_part *part,
                          ett_lexicon *lexicon) {
  ett_json_args args;
  ett_err err;
  const ett_json_scanner *s = ett_json_scanner_named(scanner);
  memset(lexicon, 0, sizeof *lexicon);
  if (!s)
    s = ett_json_scanner_named("plain");
  if (ett_json_args_init(&args, asked, ASKED))
    abort();
  *status = read_memory(s, bytes, length, step, ETT_JSON_DOCUMENT, 0, UINT64_MAX, &args,
                        lexicon, part, &err);
  ett_json_args_free(&args);
  uint64_t h = digest(1, part) + part->seen;
  for (int d = 0; d < ETT_DAMAGE_COUNT; d++)
    h = mix(mix(h, &part->damage[d].count, 8), &part->damage[d].offset, 8);
  return h;
}

/* Reads in stretches as load.c does; returns the rows. */
static uint64_t read_stretches(const char *bytes, size_t length, uint64_t chunk) {
  ett_json_args args;
  ett_lexicon lexicon = {0};
  ett_trace_part part;
  ett_err err;
  uint64_t rows = 0, position = 0;
  if (ett_json_args_init(&args, asked, ASKED))
    abort();
  for (uint64_t at = 0; at < length && position != ETT_JSON_NOWHERE; at += chunk) {
    uint64_t stop = at + chunk < length ? at + chunk : UINT64_MAX;
    int status = read_memory(ett_json_scanner_best(), bytes, length, 0,
                             at ? ETT_JSON_GUESS : ETT_JSON_DOCUMENT, at, stop, &args,
                             &lexicon, &part, &err);
    if (at && (status || part.begin != position)) {
      ett_part_free(&part);
      if (position >= stop)
        continue;
      status = read_memory(ett_json_scanner_best(), bytes, length, 0, ETT_JSON_ARRAY,
                           position, stop, &args, &lexicon, &part, &err);
    }
    if (status)
      position = ETT_JSON_NOWHERE;
    else
      position = part.end;
    for (uint32_t b = 0; b < part.block_count; b++)
      rows += part.blocks[b].count;
    ett_part_free(&part);
  }
  ett_lexicon_free(&lexicon);
  ett_json_args_free(&args);
  return rows;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const names[] = {"plain", "sse2", "avx2"};
  if (size < 1)
    return 0;
  /* a copy of exactly this size, so that a byte too far is seen */
  size_t length = size - 1;
  char *bytes = malloc(length ? length : 1);
  if (!bytes)
    abort();
  memcpy(bytes, data + 1, length);
  uint64_t first = 0, rows = 0;
  int first_status = 0;
  for (int i = 0; i < 3; i++) {
    ett_trace_part part;
    ett_lexicon lexicon;
    int status;
    uint64_t h = read_with(names[i], bytes, length, i == 1 ? data[0] : 0, &status, &part,
                           &lexicon);
    if (i == 0) {
      first = h;
      first_status = status;
      for (uint32_t b = 0; b < part.block_count; b++)
        rows += part.blocks[b].count;
#ifdef ETT_TRACE_ORACLE
      comparison c;
      if (status == 0 && compare_with_oracle(&c, bytes, length, &part) < 0) {
        fprintf(stderr, "differs from simdjson: %s\n", c.wrong);
        abort();
      }
#endif
    } else if (h != first || status != first_status) {
      fprintf(stderr, "%s reads otherwise than plain\n", names[i]);
      abort();
    }
    ett_part_free(&part);
    ett_lexicon_free(&lexicon);
  }
  if (first_status == 0 && length > 64 &&
      read_stretches(bytes, length, 32 + data[0]) != rows) {
    fprintf(stderr, "stretches of %d bytes have other rows\n", 32 + data[0]);
    abort();
  }
  free(bytes);
  return 0;
}
