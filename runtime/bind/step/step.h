/* step.h - what the files of ett.step's binding share: handles, names, fields. */
#ifndef ETT_BIND_STEP_H
#define ETT_BIND_STEP_H

#include "bind/common.h"
#include "step/step.h"

#define ETT_LUA_PROGRAM "ett.step.program"
#define ETT_LUA_DEMANDS "ett.step.demands"
#define ETT_LUA_WORKSPACE "ett.step.workspace"
#define ETT_LUA_ORDERS "ett.step.orders"

typedef struct ett_step_lua_program_box {
  ett_program *program;
} ett_step_lua_program_box;
typedef struct ett_step_lua_demands_box {
  ett_demands *demands;
} ett_step_lua_demands_box;
typedef struct ett_step_lua_workspace_box {
  ett_step_workspace *step;
  ett_pipeline_workspace *pipeline;
} ett_step_lua_workspace_box;

/* Units of every stage; the arrays stand behind the header in the same userdata. */
typedef struct ett_step_lua_orders_box {
  int stages;
  int has_weight;
  size_t *first_unit;
  ett_unit *units;
} ett_step_lua_orders_box;

/* Names by the values of their enumerations; NULL ends the first. */
extern const char *const ett_step_lua_names[];
extern const char *const ett_step_lua_places[];

/* The value of a name among `names`; raises with the field when there is none. */
int ett_step_lua_name(lua_State *L, const char *field, const char *name,
                      const char *const *names);

/* An integer field of 32 bits. */
int ett_step_lua_integer(lua_State *L, int index, const char *name, int fallback);

/* Sets a field of the table on top. */
void ett_step_lua_set_number(lua_State *L, const char *name, double value);
void ett_step_lua_set_integer(lua_State *L, const char *name, int64_t value);

/* The demands at an index; raises when they are closed. */
ett_demands *ett_step_lua_demands(lua_State *L, int index);

/* Pushes one demand as a table. */
void ett_step_lua_push_demand(lua_State *L, const ett_demands *demands, size_t index);

/* The workspace at an index; raises when it is closed. */
ett_step_lua_workspace_box *ett_step_lua_workspace(lua_State *L, int index);

/* workspace(): pushes a new one. */
int ett_step_lua_workspace_new(lua_State *L);

/* Reads a plan; `split` and `orders` stay on the stack while it is used. */
void ett_step_lua_plan(lua_State *L, int index, ett_step_plan *plan);

/* Pushes the units of every rank, with their times where the result kept them. */
void ett_step_lua_push_units(lua_State *L, const ett_pipeline *pipeline,
                             const ett_pipeline_result *result);

/* Makes a metatable; `close` is its __close and __gc, too. */
void ett_step_lua_make_type(lua_State *L, const char *name, const luaL_Reg *methods,
                            lua_CFunction close);

/* Each adds the functions of its file to the module on top, and makes its types. */
void ett_step_lua_open_demands(lua_State *L);
void ett_step_lua_open_plans(lua_State *L);
void ett_step_lua_open_pipelines(lua_State *L);

#endif
