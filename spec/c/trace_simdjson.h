/* What simdjson makes of a trace document: the independent oracle of the scanner. */
#ifndef ETT_SPEC_TRACE_SIMDJSON_H
#define ETT_SPEC_TRACE_SIMDJSON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum oracle_type {
  ORACLE_NONE,
  ORACLE_INTEGER,
  ORACLE_UNSIGNED, /* beyond int64 */
  ORACLE_FLOAT,
  ORACLE_TEXT,
  ORACLE_TREE, /* list or object: text is its minified JSON */
  ORACLE_TRUE,
  ORACLE_FALSE,
  ORACLE_NULL
} oracle_type;

typedef struct oracle_value {
  oracle_type type;
  int64_t integer;
  double number;
  const char *text;
  size_t length;
} oracle_value;

#define ORACLE_ARGS 8

typedef struct oracle_event {
  oracle_value ph, name, category, pid, tid, ts, dur;
  int args_is_object;
  oracle_value stream, device, correlation;
  oracle_value args[ORACLE_ARGS];
} oracle_event;

/* Calls event for every object of traceEvents (or of a bare array), the last of equal
 * keys winning. 0; 1 when simdjson rejects the document; 2 when it is not of this shape
 * or uses escapes in a key of an event. */
int oracle_events(const char *bytes, size_t length, const char *const *args,
                  size_t arg_count, void (*event)(void *, const oracle_event *),
                  void *context);

/* Minified JSON of a value's text; 0 when simdjson rejects it. */
size_t oracle_minify(const char *bytes, size_t length, char *out);

#ifdef __cplusplus
}
#endif

#endif
