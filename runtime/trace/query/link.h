/* link.h - for each row of one selection, its counterpart in another. */
#ifndef ETT_TRACE_LINK_H
#define ETT_TRACE_LINK_H

#include "trace/query/group.h"

/* All results except that of ett_link_having have the length of s, with ETT_TRACE_NONE
 * for rows without a counterpart. A row is never its own counterpart. 0, or -1 if memory
 * runs out. */

/* Same file and same key value (correlation, or an arg); the first match in the order of
 * r. */
int ett_link_match(ett_selection *out, const ett_trace *t, const ett_selection *s,
                   const ett_selection *r, ett_key key);

/* The rows of s that have a counterpart in r (ett_link_match), in their order. */
int ett_link_having(ett_selection *out, const ett_trace *t, const ett_selection *s,
                    const ett_selection *r, ett_key key);

/* The innermost row of r on the same track that encloses the row. */
int ett_link_enclosing(ett_selection *out, const ett_trace *t, const ett_selection *s,
                       const ett_selection *r);

/* Last row of r on the same track that starts at or before the row. */
int ett_link_preceding(ett_selection *out, const ett_trace *t, const ett_selection *s,
                       const ett_selection *r);

/* out: the rows of s without holes, by track, then start, then longer first, then row: an
 * outer row comes before its inner ones. parents[s->count]: the place of each row's
 * parent in out, from 1; 0 if it has none. A parent starts at or before its child, ends
 * after the child's start, and at most `slack` ticks before the child's end. */
int ett_link_nest(ett_selection *out, uint32_t *parents, const ett_trace *t,
                  const ett_selection *s, int64_t slack);

/* homes: for each row of s the row that it belongs to, or a hole. The rows that belong to
 * one row have a hull: the interval from their first start to their last end. out: the
 * union of the hulls; *count: their number. */
int ett_link_hulls(ett_intervals *out, size_t *count, const ett_trace *t,
                   const ett_selection *s, const ett_selection *homes);

typedef struct ett_named_hull {
  uint32_t name; /* a string of the trace */
  ett_interval interval;
} ett_named_hull;

/* homes: for each row of s a host row, or a hole. A row of s belongs to the innermost
 * range of each name that encloses its host row on the same track. out[0 .. *count),
 * sorted by name: for each range with rows, their hull. `out` has room for ranges->count.
 * One pass serves all names; ett_link_enclosing needs a pass for each. */
int ett_link_named_hulls(ett_named_hull *out, size_t *count, const ett_trace *t,
                         const ett_selection *s, const ett_selection *homes,
                         const ett_selection *ranges);

#endif
