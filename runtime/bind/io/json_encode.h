/* json_encode.h - Lua values as JSON, with a canonical text. */
#ifndef ETT_BIND_JSON_ENCODE_H
#define ETT_BIND_JSON_ENCODE_H

#include <lua.h>

/* Pushes the JSON text of the value at index value. Keys are sorted; numbers have the
 * fewest digits that read back equal; integers stay integers. The table at index options
 * (or nil) may hold indent (spaces a level, 0 for one line) and nan = "null". Raises an
 * error with the path of a value that JSON cannot represent. */
void ett_lua_json_encode(lua_State *L, int value, int options);

#endif
