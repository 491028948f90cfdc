/* json_read.h - reads a trace document from a byte stream into a part.
 *
 * Stores the members around traceEvents as JSON text of up to 1 MiB each, and passes the
 * array to the scanner window by window. A window has ETT_JSON_WINDOW bytes, more only
 * for a longer event. A job may begin at any byte of a file. The boundary of an event is
 * found from the surrounding structure, and the caller compares it with the end of the
 * previous job. */
#ifndef ETT_TRACE_JSON_READ_H
#define ETT_TRACE_JSON_READ_H

#include "io/stream.h"
#include "trace/read/json/json_scan.h"

#define ETT_JSON_WINDOW ((size_t)256 << 10)
#define ETT_JSON_LONGEST ((size_t)256 << 20) /* of one event or key */
#define ETT_JSON_MEMBER ((size_t)1 << 20)

typedef enum ett_json_start {
  ETT_JSON_DOCUMENT, /* the source begins with the document */
  ETT_JSON_GUESS,    /* somewhere inside traceEvents: find the next event */
  ETT_JSON_ARRAY,    /* between two events */
} ett_json_start;

#define ETT_JSON_NOWHERE UINT64_MAX

typedef struct ett_json_job {
  const ett_json_scanner *scanner;
  const ett_json_args *args;
  ett_trace_part *part;
  ett_byte_source source;
  ett_json_start start;
  uint64_t offset; /* offset of the source's first byte in the file */
  uint64_t stop;   /* events that begin at or after this offset are skipped */
  unsigned decimals;
  uint32_t learn_after; /* number of events before known event layouts are used; 0: 64 */
  bool flows;
} ett_json_job;

/* Runs a job. On success (0) part->begin is the offset of the first event, and part->end
 * that of the event after the last one. ETT_JSON_NOWHERE: a guess failed (begin), the
 * document ended (end). Damage is recorded in the part. -1 with *err on fatal errors: the
 * source, memory, or a document that is no trace. */
int ett_json_read(ett_json_job *job, ett_err *err);

/* The '{' of an element of the outermost array of objects visible between p and end,
 * whether or not p is inside a string; NULL if the chunk does not determine it. */
const char *ett_json_boundary(const char *p, const char *end);

#endif
