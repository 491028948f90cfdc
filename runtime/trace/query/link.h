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

/* The rows of s without holes, outer before inner: by track, start, longer first, row.
 * The parent of each, as its place from 1; 0: none. A parent starts at or before its
 * child, ends after the child's start, and at most `slack` ticks before the child's end.
 * parents[s->count]. */
int ett_link_nest(ett_selection *out, uint32_t *parents, const ett_trace *t,
                  const ett_selection *s, int64_t slack);

/* For each row of homes (of the length of s, with holes) the interval from the first
 * start to the last end of the rows of s at its places; united. *count: number of
 * intervals before. */
int ett_link_hulls(ett_intervals *out, size_t *count, const ett_trace *t,
                   const ett_selection *s, const ett_selection *homes);

#endif
