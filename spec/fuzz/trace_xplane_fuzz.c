/* Any bytes as an XPlane protobuf. */
#define PARSE ett_xplane_parse
#define TICKS 1000000000000
#define ARGS "hlo_category", "bytes_accessed", "long_name", "correlation_id"
#define DURATION_IS_WHOLE(block, i)                                                      \
  ((block)->dur[i] >= 0 || (block)->ph[i] & ETT_PH_INVALID)
#include "trace_parser_fuzz.h"
