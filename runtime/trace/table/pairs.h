/* pairs.h - begin and end events joined to complete events. */
#ifndef ETT_TRACE_PAIRS_H
#define ETT_TRACE_PAIRS_H

#include "trace/table/trace.h"

/* Joins the events of a file, with a stack per track. The row of a begin becomes the
 * complete event; the correlation of an end is the row of its begin, or -1. unmatched:
 * events without a partner or with an invalid duration; their rows are invalid. Returns
 * 0, or -1 if memory runs out. */
int ett_pairs_join(ett_trace *t, uint32_t file, uint64_t *unmatched);

/* Gives the args of end events to the joined rows, where they replace equal ones. */
void ett_pairs_join_args(const ett_trace *t);

#endif
