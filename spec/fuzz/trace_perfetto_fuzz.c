/* Any bytes as a Perfetto trace. */
#define PARSE ett_perfetto_parse
#define TICKS 1000000000
#define ARGS "bytes", "name", "stream"
#define DURATION_IS_WHOLE(block, i) ((block)->dur[i] == 0)
#include "trace_parser_fuzz.h"
