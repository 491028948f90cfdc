/* The allocator of the Lua state of ett. */
#ifndef ETT_HOST_ALLOCATOR_H
#define ETT_HOST_ALLOCATOR_H

#include <stddef.h>

/* used: bytes of all blocks of the state; it never exceeds limit. */
typedef struct {
  size_t used, limit;
} host_memory;

/* A lua_Alloc for a state made by lua_newstate with it; context: host_memory. Small
 * blocks come from an arena of 32 MiB and stay in it when freed, for their size. One
 * thread at a time. */
void *host_allocate(void *context, void *block, size_t old_size, size_t size);

/* From now on every allocation is one of malloc: for tests that count blocks or let
 * allocations fail. */
void host_keep_no_blocks(void);

#endif
