/* The parts of the binding ett.sample, and functions that other back ends use. */
#ifndef ETT_BIND_SAMPLE_H
#define ETT_BIND_SAMPLE_H

#include "bind/common.h"
#include "samplers/core/tensor.h"

#define ETT_JOURNAL_TYPE "ett.sample.journal"

/* The tensor at index; raises if it is closed. */
static inline ett_tensor *ett_lua_tensor(lua_State *L, int index) {
  ett_tensor *t = luaL_checkudata(L, index, ETT_TENSOR_TYPE);
  lua_getiuservalue(L, index, 1);
  char *const *block = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (!t->data || !block || !*block)
    luaL_error(L, "the tensor is closed");
  return t;
}

/* Each function creates its types and adds its functions to the module on top of the
 * stack. */
void ett_bind_sample_surface(lua_State *L);
void ett_bind_sample_tensor(lua_State *L);

#endif
