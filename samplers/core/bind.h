/* The parts of the binding ett.sample. */
#ifndef ETT_BIND_SAMPLE_H
#define ETT_BIND_SAMPLE_H

#include "bind/common.h"

/* Each function creates its types and adds its functions to the module on top of the
 * stack. */
void ett_bind_sample_surface(lua_State *L);
void ett_bind_sample_tensor(lua_State *L);

#endif
