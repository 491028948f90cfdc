/* Any bytes as JSON of rocprofv3. */
#define PARSE ett_rocprof_parse
#define TICKS 1000000000
#define ARGS "bytes", "size", "kind"
#define DURATION_IS_WHOLE(block, i) ((block)->dur[i] >= 0)
#include "trace_parser_fuzz.h"
