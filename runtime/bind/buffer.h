/* A growing byte buffer in a userdata, so that a raised error does not leak it. It uses
 * the allocator of the Lua state and counts towards its limit. */
#ifndef ETT_BIND_BUFFER_H
#define ETT_BIND_BUFFER_H

#include <lauxlib.h>
#include <lua.h>
#include <stddef.h>

typedef struct {
  lua_State *L;
  char *data;
  size_t length, size;
} ett_lua_buffer;

/* Pushes a new empty buffer; raises if memory runs out. */
ett_lua_buffer *ett_lua_buffer_new(lua_State *L);

/* Appends; raises if memory runs out. */
void ett_lua_buffer_add(ett_lua_buffer *buffer, const char *text, size_t length);
void ett_lua_buffer_add_string(ett_lua_buffer *buffer, const char *text);
void ett_lua_buffer_add_char(ett_lua_buffer *buffer, char c);

/* Pushes the content as a Lua string and keeps the buffer. */
void ett_lua_buffer_push(ett_lua_buffer *buffer);

/* Frees the content before the garbage collector does. */
void ett_lua_buffer_clear(ett_lua_buffer *buffer);

#endif
