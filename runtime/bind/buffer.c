#include "bind/buffer.h"

#include <stdint.h>
#include <string.h>

#define BUFFER_TYPE "ett.buffer"

void ett_lua_buffer_clear(ett_lua_buffer *buffer) {
  void *context;
  lua_Alloc allocate = lua_getallocf(buffer->L, &context);
  if (buffer->data)
    allocate(context, buffer->data, buffer->size, 0);
  buffer->data = NULL;
  buffer->length = buffer->size = 0;
}

static int buffer_gc(lua_State *L) {
  ett_lua_buffer *buffer = luaL_checkudata(L, 1, BUFFER_TYPE);
  buffer->L = L;
  ett_lua_buffer_clear(buffer);
  return 0;
}

ett_lua_buffer *ett_lua_buffer_new(lua_State *L) {
  ett_lua_buffer *buffer = lua_newuserdatauv(L, sizeof *buffer, 0);
  memset(buffer, 0, sizeof *buffer);
  buffer->L = L;
  if (luaL_newmetatable(L, BUFFER_TYPE)) {
    lua_pushcfunction(L, buffer_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, -2);
  return buffer;
}

static void grow(ett_lua_buffer *buffer, size_t extra) {
  if (extra > SIZE_MAX / 2 - buffer->length)
    luaL_error(buffer->L, "text too long");
  size_t size = buffer->size ? buffer->size * 2 : 256;
  while (size < buffer->length + extra)
    size *= 2;
  void *context;
  lua_Alloc allocate = lua_getallocf(buffer->L, &context);
  char *data = allocate(context, buffer->data, buffer->data ? buffer->size : 0, size);
  if (!data)
    luaL_error(buffer->L, "not enough memory");
  buffer->data = data;
  buffer->size = size;
}

void ett_lua_buffer_add(ett_lua_buffer *buffer, const char *text, size_t length) {
  if (length == 0)
    return;
  if (buffer->size - buffer->length < length)
    grow(buffer, length);
  memcpy(buffer->data + buffer->length, text, length);
  buffer->length += length;
}

void ett_lua_buffer_add_string(ett_lua_buffer *buffer, const char *text) {
  ett_lua_buffer_add(buffer, text, strlen(text));
}

void ett_lua_buffer_add_char(ett_lua_buffer *buffer, char c) {
  ett_lua_buffer_add(buffer, &c, 1);
}

void ett_lua_buffer_push(ett_lua_buffer *buffer) {
  lua_pushlstring(buffer->L, buffer->data ? buffer->data : "", buffer->length);
}
