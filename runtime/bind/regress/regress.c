/* ett.regress: fitted regressors, served.
 *
 *   regress.open(bytes) -> model | nil, err
 *   model:predict{dims} -> value, low, high, provenance, outside, base
 *   model:predict_rows(flat) -> values, lows, highs, provenances   (rows after one
 * another) model:facts() -> table      model:bytes() -> string      model:close()
 *   model:text() -> base64 without twins      regress.from_text(text) -> model | nil, err
 *   regress.kernels(design, flat) -> integers    regress.sizes(design, flat) -> numbers
 *   regress.mix(integer) -> integer (splitmix64)
 * A design is {family=, dims=, backward=, multiprocessors=}. */
#include "bind/common.h"

#include <stdlib.h>
#include <string.h>

#include "regress/serve/compact.h"
#include "regress/serve/model.h"

#define MODEL_TYPE "ett.regress"
#define TEXT_TYPE "ett.regress.text"

static ett_model *check_model(lua_State *L) {
  ett_model *model = luaL_checkudata(L, 1, MODEL_TYPE);
  luaL_argcheck(L, model->memory, 1, "closed");
  return model;
}

static int regress_open(lua_State *L) {
  size_t length;
  const char *bytes = luaL_checklstring(L, 1, &length);
  ett_model *model = lua_newuserdatauv(L, sizeof *model, 0);
  memset(model, 0, sizeof *model);
  luaL_setmetatable(L, MODEL_TYPE);
  ett_err err;
  void *block = malloc(length ? length : 1);
  if (!block) {
    ett_err_set(&err, ETT_ERR_MEMORY, "no memory for a model of %zu bytes", length);
    return ett_lua_fail(L, &err);
  }
  memcpy(block, bytes, length);
  if (ett_model_open(block, length, model, &err) != 0)
    return ett_lua_fail(L, &err);
  return 1;
}

static int model_close(lua_State *L) {
  ett_model_close(luaL_checkudata(L, 1, MODEL_TYPE));
  return 0;
}

static const char *const provenances[] = {"measured", "interpolated", "extrapolated"};

static int model_predict(lua_State *L) {
  const ett_model *model = check_model(L);
  size_t count;
  const double *dims = ett_lua_doubles(L, 2, &count);
  if (count != (size_t)model->design.dims)
    return luaL_error(L, "this regressor takes %d dimensions, got %d", model->design.dims,
                      (int)count);
  ett_prediction p;
  ett_err err;
  if (ett_model_predict(model, dims, &p, &err) != 0)
    return ett_lua_raise(L, &err);
  lua_pushnumber(L, p.value);
  lua_pushnumber(L, p.low);
  lua_pushnumber(L, p.high);
  lua_pushstring(L, provenances[p.provenance]);
  lua_pushnumber(L, p.outside);
  lua_pushnumber(L, p.base);
  return 6;
}

static int model_predict_rows(lua_State *L) {
  const ett_model *model = check_model(L);
  size_t count, d = (size_t)model->design.dims;
  const double *dims = ett_lua_doubles(L, 2, &count);
  if (count % d != 0)
    return luaL_error(L, "%d numbers are not whole rows of %d dimensions", (int)count,
                      (int)d);
  size_t rows = count / d;
  for (int i = 0; i < 4; i++)
    lua_createtable(L, (int)rows, 0);
  for (size_t i = 0; i < rows; i++) {
    ett_prediction p;
    ett_err err;
    if (ett_model_predict(model, dims + i * d, &p, &err) != 0)
      return ett_lua_raise(L, &err);
    lua_pushnumber(L, p.value), lua_rawseti(L, -5, (lua_Integer)i + 1);
    lua_pushnumber(L, p.low), lua_rawseti(L, -4, (lua_Integer)i + 1);
    lua_pushnumber(L, p.high), lua_rawseti(L, -3, (lua_Integer)i + 1);
    lua_pushstring(L, provenances[p.provenance]), lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 4;
}

static void set_number(lua_State *L, const char *name, double value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, name);
}

static void set_doubles(lua_State *L, const char *name, const double *values, int count) {
  ett_lua_push_doubles(L, values, (size_t)count);
  lua_setfield(L, -2, name);
}

static int model_facts(lua_State *L) {
  const ett_model *m = check_model(L);
  const ett_model_facts *f = &m->facts;
  lua_Integer nodes = 0, trees = 0;
  for (int i = 0; i < m->forests; i++) {
    nodes += m->forest[i].nodes;
    trees += m->forest[i].trees;
  }
  lua_createtable(L, 0, 24);
  lua_pushstring(L, ett_family_name(m->design.family)), lua_setfield(L, -2, "family");
  lua_pushboolean(L, m->design.backward), lua_setfield(L, -2, "backward");
  lua_pushinteger(L, m->design.dims), lua_setfield(L, -2, "dims");
  lua_pushinteger(L, trees), lua_setfield(L, -2, "trees");
  lua_pushinteger(L, nodes), lua_setfield(L, -2, "nodes");
  lua_pushinteger(L, m->twins), lua_setfield(L, -2, "kernels");
  lua_pushinteger(L, (lua_Integer)f->rows), lua_setfield(L, -2, "rows");
  lua_pushinteger(L, (lua_Integer)f->dropped), lua_setfield(L, -2, "dropped");
  set_number(L, "multiprocessors", m->design.multiprocessors);
  set_number(L, "shrink", f->shrink);
  set_number(L, "shrink_outside", f->shrink_outside);
  set_number(L, "twin_weight", f->twin_weight);
  set_number(L, "error_mean", f->error_mean);
  set_number(L, "error_median", f->error_median);
  set_number(L, "size_least", f->size_least);
  set_number(L, "size_most", f->size_most);
  set_doubles(L, "least", f->least, m->design.dims);
  set_doubles(L, "most", f->most, m->design.dims);
  set_doubles(L, "coefficients", m->x, m->columns);
  return 1;
}

static int model_bytes(lua_State *L) {
  const ett_model *model = check_model(L);
  lua_pushlstring(L, model->memory, model->length);
  return 1;
}

static int regress_from_text(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  ett_model *model = lua_newuserdatauv(L, sizeof *model, 0);
  memset(model, 0, sizeof *model);
  luaL_setmetatable(L, MODEL_TYPE);
  ett_err err;
  if (ett_model_from_text(text, length, model, &err) != 0)
    return ett_lua_fail(L, &err);
  return 1;
}

/* C memory that a raise must not lose. */
typedef struct {
  char *text;
} text_hold;

static int text_close(lua_State *L) {
  text_hold *h = luaL_checkudata(L, 1, TEXT_TYPE);
  free(h->text);
  h->text = NULL;
  return 0;
}

static int model_text(lua_State *L) {
  const ett_model *model = check_model(L);
  text_hold *h = lua_newuserdatauv(L, sizeof *h, 0);
  h->text = NULL;
  luaL_setmetatable(L, TEXT_TYPE);
  size_t length;
  ett_err err;
  if (ett_model_to_text(model, &h->text, &length, &err) != 0)
    return ett_lua_raise(L, &err);
  lua_pushlstring(L, h->text, length);
  free(h->text);
  h->text = NULL;
  return 1;
}

static int model_tostring(lua_State *L) {
  const ett_model *m = luaL_checkudata(L, 1, MODEL_TYPE);
  if (!m->memory)
    lua_pushliteral(L, "regressor (closed)");
  else
    lua_pushfstring(L, "regressor of family %s: %d rows, error %f %%",
                    ett_family_name(m->design.family), (int)m->facts.rows,
                    100 * m->facts.error_mean);
  return 1;
}

static void check_design(lua_State *L, int index, ett_design *design) {
  luaL_checktype(L, index, LUA_TTABLE);
  const char *name = ett_lua_string_field(L, index, "family", "raw");
  int family = ett_family_find(name);
  if (family < 0)
    luaL_error(L, "unknown family '%s'", name);
  lua_Integer dims = ett_lua_integer_field(L, index, "dims", 1);
  *design =
      (ett_design){(ett_family)family, ett_lua_boolean_field(L, index, "backward", 0),
                   ett_lua_number_field(L, index, "multiprocessors", 100),
                   dims > 0 && dims < 1000 ? (int)dims : 0};
  ett_err err;
  if (ett_design_check(design, &err) != 0)
    ett_lua_raise(L, &err);
}

/* Rows of a flat table under a design, each checked. */
static const double *check_rows(lua_State *L, const ett_design *design, int index,
                                size_t *rows) {
  size_t count;
  const double *dims = ett_lua_doubles(L, index, &count);
  if (count % (size_t)design->dims != 0)
    luaL_error(L, "%d numbers are not whole rows of %d dimensions", (int)count,
               design->dims);
  *rows = count / (size_t)design->dims;
  for (size_t i = 0; i < *rows; i++) {
    ett_err err;
    if (ett_design_row_check(design, dims + i * (size_t)design->dims, &err) != 0)
      ett_lua_raise(L, &err);
  }
  return dims;
}

static int regress_kernels(lua_State *L) {
  ett_design design;
  size_t rows;
  check_design(L, 1, &design);
  const double *dims = check_rows(L, &design, 2, &rows);
  lua_createtable(L, (int)rows, 0);
  for (size_t i = 0; i < rows; i++) {
    lua_pushinteger(
        L, (lua_Integer)ett_design_kernel(&design, dims + i * (size_t)design.dims));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int regress_sizes(lua_State *L) {
  ett_design design;
  size_t rows;
  check_design(L, 1, &design);
  const double *dims = check_rows(L, &design, 2, &rows);
  lua_createtable(L, (int)rows, 0);
  for (size_t i = 0; i < rows; i++) {
    lua_pushnumber(L, ett_design_size(&design, dims + i * (size_t)design.dims));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int regress_mix(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)ett_mix64((uint64_t)luaL_checkinteger(L, 1)));
  return 1;
}

static const luaL_Reg functions[] = {
    {"open", regress_open},       {"from_text", regress_from_text},
    {"kernels", regress_kernels}, {"sizes", regress_sizes},
    {"mix", regress_mix},         {NULL, NULL},
};

static const luaL_Reg methods[] = {
    {"predict", model_predict},
    {"predict_rows", model_predict_rows},
    {"facts", model_facts},
    {"bytes", model_bytes},
    {"text", model_text},
    {"close", model_close},
    {NULL, NULL},
};

static const luaL_Reg metamethods[] = {
    {"__gc", model_close},
    {"__close", model_close},
    {"__tostring", model_tostring},
    {NULL, NULL},
};

int luaopen_ett_regress(lua_State *L);

int luaopen_ett_regress(lua_State *L) {
  if (luaL_newmetatable(L, MODEL_TYPE)) {
    luaL_setfuncs(L, metamethods, 0);
    luaL_newlib(L, methods);
    lua_setfield(L, -2, "__index");
  }
  if (luaL_newmetatable(L, TEXT_TYPE)) {
    lua_pushcfunction(L, text_close);
    lua_setfield(L, -2, "__gc");
  }
  lua_pop(L, 1);
  luaL_newlib(L, functions);
  return 1;
}
