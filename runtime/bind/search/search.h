/* search.h - shared by the files of ett.search's binding. */
#ifndef ETT_BIND_SEARCH_H
#define ETT_BIND_SEARCH_H

#include "bind/common.h"

/* Adds the functions of combinations.c to the module on top, and makes its type. */
void ett_search_lua_open_combinations(lua_State *L);

#endif
