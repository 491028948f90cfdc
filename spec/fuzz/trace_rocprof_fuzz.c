/* Any bytes as JSON of rocprofv3: nothing is read beyond them, every row is whole. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trace/read/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const args[] = {"bytes", "size", "kind"};
  ett_lexicon lexicon = {0};
  ett_trace_part part;
  ett_err err;
  uint8_t *bytes = malloc(size ? size : 1);
  if (!bytes)
    abort();
  memcpy(bytes, data, size);
  if (ett_part_init(&part, 0, 3, &lexicon))
    abort();
  if (ett_rocprof_parse(bytes, size, &part, args, 3, 1000000000, &err))
    abort(); /* damage is survived; memory is enough */
  for (uint32_t b = 0; b < part.block_count; b++)
    for (uint32_t i = 0; i < part.blocks[b].count; i++)
      if (part.blocks[b].name[i] >= lexicon.strings.count ||
          part.blocks[b].track[i] >= part.track_count || part.blocks[b].dur[i] < 0)
        abort();
  for (int a = 0; a < 3; a++)
    for (uint32_t i = 0; i < part.args[a].count; i++)
      if (part.args[a].items[i].type == ETT_ARG_TEXT &&
          part.args[a].items[i].value.text >= lexicon.strings.count)
        abort();
  ett_part_free(&part);
  ett_lexicon_free(&lexicon);
  free(bytes);
  return 0;
}
