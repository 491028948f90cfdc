/* step.h - shared by the files of ett.step's binding: handles, names, fields. */
#ifndef ETT_BIND_STEP_H
#define ETT_BIND_STEP_H

#include <stddef.h>

#include "bind/common.h"
#include "step/step.h"

#define ETT_LUA_PROGRAM "ett.step.program"
#define ETT_LUA_DEMANDS "ett.step.demands"
#define ETT_LUA_WORKSPACE "ett.step.workspace"
#define ETT_LUA_ORDERS "ett.step.orders"
#define ETT_LUA_PLAN "ett.step.plan"
#define ETT_LUA_MAP "ett.step.map"

/* Device of each rank. */
typedef struct ett_step_lua_map {
  int64_t count;
  int32_t device[];
} ett_step_lua_map;

/* Names by enumeration value; NULL terminates each list. */
extern const char *const ett_step_lua_schedules[];
extern const char *const ett_step_lua_recomputes[];
extern const char *const ett_step_lua_overlaps[];

/* How a field of a Lua table maps to a member of a struct: int, int64_t, double, int (0
 * or 1), or an enumeration with named values. */
typedef struct ett_step_lua_field {
  const char *name;
  enum { INTEGER, BIG_INTEGER, NUMBER, BOOLEAN, NAME } kind;
  size_t offset;
  const char *const *names;
} ett_step_lua_field;

#define ETT_STEP_LUA_FIELD(type, name, kind, names)                                      \
  { #name, kind, offsetof(type, name), names }

/* Reads the fields of the table at index. There are no defaults: a missing field or a
 * wrong type raises an error. */
void ett_step_lua_read(lua_State *L, int index, const ett_step_lua_field *fields,
                       size_t count, void *to);

/* Pushes the names of the fields. */
void ett_step_lua_push_names(lua_State *L, const ett_step_lua_field *fields,
                             size_t count);

/* As ett_step_lua_read, of a table that may lack fields: their members keep their values.
 * names: index of the first name of ett_step_lua_push_names. Metatables are
 * unused. */
void ett_step_lua_read_given(lua_State *L, int index, int names,
                             const ett_step_lua_field *fields, size_t count, void *to);

/* Reads the value on top of the stack as ett_step_lua_read does. */
void ett_step_lua_read_field(lua_State *L, const ett_step_lua_field *field, void *to);

/* The plan field of that name, with its offset in ett_step_plan; NULL: none. */
const ett_step_lua_field *ett_step_lua_plan_field(const char *name);

/* Pushes one demand of the demands object at `box` as a table. */
void ett_step_lua_push_demand(lua_State *L, int box, size_t index);

/* Writes the counts of a placement to the table on top of the stack. */
void ett_step_lua_set_place(lua_State *L, const ett_placement *place);

/* workspace(): pushes a new one. */
int ett_step_lua_workspace_new(lua_State *L);

/* Reads a plan from a table or a kept_plan. `split`, `orders` and `rank_map` of a table
 * stay on the stack while the plan is used. */
void ett_step_lua_plan(lua_State *L, int index, ett_step_plan *plan);

/* The orders in field `orders` of the table at index. */
const ett_orders *ett_step_lua_orders_of(lua_State *L, int index);

/* Assigns the orders at index to the plan, if any, and sets its schedule to custom. */
void ett_step_lua_give_orders(lua_State *L, int index, ett_step_plan *plan);

/* Sets the field units of the table on top of the stack: those of every rank, with their
 * times unless start and end are NULL. */
void ett_step_lua_set_units(lua_State *L, const ett_pipeline *pipeline,
                            const double *start, const double *end);

/* Sets its fields units and transfers from a run on links that kept them. */
void ett_step_lua_set_transfers(lua_State *L, const ett_pipeline *pipeline,
                                const ett_links_result *result);

/* Reads a pipeline from the table at index 1; its arrays stay on the stack. */
void ett_step_lua_pipeline(lua_State *L, ett_pipeline *pipeline);

/* Reads `want` seconds from a field of the table at index 1; they stay on the stack. */
const double *ett_step_lua_seconds(lua_State *L, const char *name, size_t want,
                                   int needed);

/* Writes the times of a run to the table on top of the stack. */
void ett_step_lua_set_run(lua_State *L, const ett_pipeline *pipeline,
                          const ett_pipeline_result *result);

/* Each function adds the functions of its file to the module on top of the stack, and
 * creates its types. */
void ett_step_lua_open_demands(lua_State *L);
void ett_step_lua_open_plans(lua_State *L);
void ett_step_lua_open_orders(lua_State *L);
void ett_step_lua_open_pipelines(lua_State *L);
void ett_step_lua_open_links(lua_State *L);

#endif
