/* What the files of ett.sample share. */
#ifndef ETT_BIND_SAMPLE_H
#define ETT_BIND_SAMPLE_H

#include "bind/common.h"

/* A metatable that indexes itself and hides from getmetatable. */
void ett_bind_sample_type(lua_State *L, const char *name, const luaL_Reg *methods);

/* Each adds its types, and its functions to the module on the top of the stack. */
void ett_bind_sample_surface(lua_State *L);
void ett_bind_sample_tensor(lua_State *L);
void ett_bind_sample_machine(lua_State *L);

#endif
