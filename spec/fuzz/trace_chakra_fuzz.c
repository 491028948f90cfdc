/* Any bytes as a Chakra execution trace. */
#define PARSE ett_chakra_parse
#define TICKS 1000000000
#define ARGS "Input Dims", "Collective name", "In msg nelems", "pg_name"
#define DURATION_IS_WHOLE(block, i) ((block)->ts[i] >= 0 && (block)->dur[i] >= 0)
#include "trace_parser_fuzz.h"
