/* trace_parser_fuzz.h - any bytes given to a parser of whole trace files: nothing beyond
 * them is read, damage is survived, every row and every arg is whole. The including file
 * defines PARSE, TICKS (of a second), ARGS (a list of names) and DURATION_IS_WHOLE(block,
 * i). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/read/whole.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const args[] = {ARGS};
  enum { COUNT = sizeof args / sizeof *args };
  ett_lexicon lexicon = {0};
  ett_trace_part part;
  char *bytes = malloc(size ? size : 1); /* a byte beyond it is an error */
  if (!bytes)
    abort();
  memcpy(bytes, data, size);
  if (ett_part_init(&part, 0, COUNT, &lexicon))
    abort();
  if (PARSE(&(ett_reading){{bytes, bytes + size}, &part, args, COUNT, TICKS}))
    abort(); /* memory is enough */
  for (uint32_t b = 0; b < part.block_count; b++)
    for (uint32_t i = 0; i < part.blocks[b].count; i++)
      if (part.blocks[b].name[i] >= lexicon.strings.count ||
          part.blocks[b].track[i] >= part.track_count ||
          !DURATION_IS_WHOLE((&part.blocks[b]), i))
        abort();
  for (int a = 0; a < COUNT; a++)
    for (uint32_t i = 0; i < part.args[a].count; i++)
      if (part.args[a].items[i].type == ETT_ARG_TEXT &&
          part.args[a].items[i].value.text >= lexicon.strings.count)
        abort();
  ett_part_free(&part);
  ett_lexicon_free(&lexicon);
  free(bytes);
  return 0;
}
