/* link.h - for each row of one selection, its counterpart in another. */
#ifndef ETT_TRACE_LINK_H
#define ETT_TRACE_LINK_H

#include "trace/query/group.h"

/* Each result but ett_link_having's is as long as s, with ETT_TRACE_NONE where there is
 * no counterpart. A row is never its own counterpart. 0, or -1 when memory ran out. */

/* Same file and same key value (correlation, or an arg); the first of r by its order. */
int ett_link_match(ett_selection *out, const ett_trace *t, const ett_selection *s,
                   const ett_selection *r, ett_key key);

/* The rows of s that have a counterpart in r (ett_link_match), in their order. */
int ett_link_having(ett_selection *out, const ett_trace *t, const ett_selection *s,
                    const ett_selection *r, ett_key key);

/* Innermost row of r on the same track that holds the whole row. */
int ett_link_enclosing(ett_selection *out, const ett_trace *t, const ett_selection *s,
                       const ett_selection *r);

/* Last row of r on the same track that starts at or before the row. */
int ett_link_preceding(ett_selection *out, const ett_trace *t, const ett_selection *s,
                       const ett_selection *r);

#endif
