/* ett.regress: evaluates fitted regressors.
 *
 *   regress.open(bytes) -> model | nil, err
 *   regress.load(path [, tail]) -> model | nil, err: of a file that ends with `tail`
 *   regress.from_text(text) -> model | nil, err
 *   model:predict{dims} -> value, low, high, provenance, outside, base
 *   model:predict(dimension) -> the same, of a model of one dimension
 *   model:predict_rows(flat dims) -> values, lows, highs, provenances
 *   model:facts() -> table    model:bytes() -> string    model:close()
 *   model:text() -> base64 without twins
 *   regress.kernels(design, flat dims) -> integers
 *   regress.sizes(design, flat dims) -> numbers
 *   regress.mix(integer) -> integer (splitmix64)
 * A design is {family=, dims=, backward=, multiprocessors=}. */
#include "bind/common.h"
#include "bind/regress/design.h"
#include "bind/value.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "regress/serve/compact.h"
#include "regress/serve/model.h"

#define TEXT_TYPE "ett.regress.text"

static ett_model *check_model(lua_State *L) {
  ett_model *model = luaL_checkudata(L, 1, ETT_LUA_MODEL);
  luaL_argcheck(L, model->memory, 1, "closed");
  return model;
}

static ett_model *new_model(lua_State *L) {
  ett_model *model = lua_newuserdatauv(L, sizeof *model, 0);
  memset(model, 0, sizeof *model);
  luaL_setmetatable(L, ETT_LUA_MODEL);
  return model;
}

static int regress_open(lua_State *L) {
  size_t length;
  const char *bytes = luaL_checklstring(L, 1, &length);
  ett_model *model = new_model(L);
  ett_err err;
  void *block = malloc(length ? length : 1);
  if (!block) {
    ett_err_set(&err, ETT_ERR_MEMORY, "no memory for a model of %zu bytes", length);
    return ett_lua_fail(L, &err);
  }
  memcpy(block, bytes, length);
  if (ett_model_open(block, length, true, model, &err) != 0)
    return ett_lua_fail(L, &err);
  return 1;
}

static int regress_load(lua_State *L) {
  size_t length;
  const char *path = luaL_checkstring(L, 1), *tail = luaL_optlstring(L, 2, "", &length);
  ett_err err, why;
  ett_model *model = new_model(L);
  ett_lua_file *file = ett_lua_file_read(L, path, (size_t)1 << 30, &err);
  if (!file)
    return ett_lua_fail(L, &err);
  if (file->length < length ||
      memcmp(file->data + file->length - length, tail, length) != 0) {
    ett_err_set(&err, ETT_ERR_FORMAT,
                "%s: its end is not as expected: renamed or damaged", path);
    return ett_lua_fail(L, &err);
  }
  char *block = file->data; /* of the model from here on */
  file->data = NULL;
  if (ett_model_open(block, file->length - length, true, model, &why) != 0) {
    ett_err_set(&err, why.code, "%s: %s", path, why.message);
    return ett_lua_fail(L, &err);
  }
  lua_settop(L, lua_gettop(L) - 1);
  return 1;
}

static int model_close(lua_State *L) {
  ett_model_close(luaL_checkudata(L, 1, ETT_LUA_MODEL));
  return 0;
}

static const char *const provenances[] = {"measured", "interpolated", "extrapolated"};

static int model_predict(lua_State *L) {
  ett_model *model = check_model(L);
  int one = lua_type(L, 2) == LUA_TNUMBER;
  double dims[ETT_DESIGN_DIMS];
  size_t count = one ? 1 : (luaL_checktype(L, 2, LUA_TTABLE), lua_rawlen(L, 2));
  if (count != (size_t)model->design.dims)
    return luaL_error(L, "this regressor takes %d dimensions, got %d", model->design.dims,
                      (int)count);
  for (size_t i = 0; i < count; i++) {
    int is_number = one || lua_rawgeti(L, 2, (lua_Integer)i + 1) == LUA_TNUMBER;
    if (!is_number)
      return luaL_error(L, "element %d must be a number, got %s", (int)i + 1,
                        luaL_typename(L, -1));
    dims[i] = lua_tonumber(L, one ? 2 : -1);
    lua_settop(L, 2);
  }
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
  ett_model *model = check_model(L);
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

static int model_facts(lua_State *L) {
  const ett_model *m = check_model(L);
  const ett_model_facts *f = &m->facts;
  lua_Integer nodes = 0, trees = 0;
  for (int i = 0; i < m->forests; i++) {
    nodes += m->forest[i].nodes;
    trees += m->forest[i].trees;
  }
  lua_createtable(L, 0, 24);
  ett_lua_set_string(L, "family", ett_family_name(m->design.family));
  ett_lua_set_boolean(L, "backward", m->design.backward);
  ett_lua_set_integer(L, "dims", m->design.dims);
  ett_lua_set_integer(L, "trees", trees);
  ett_lua_set_integer(L, "nodes", nodes);
  ett_lua_set_integer(L, "kernels", m->twins);
  ett_lua_set_integer(L, "rows", (lua_Integer)f->rows);
  ett_lua_set_integer(L, "dropped", (lua_Integer)f->dropped);
  ett_lua_set_number(L, "multiprocessors", m->design.multiprocessors);
  ett_lua_set_number(L, "shrink", f->shrink);
  ett_lua_set_number(L, "shrink_outside", f->shrink_outside);
  ett_lua_set_number(L, "twin_weight", f->twin_weight);
  ett_lua_set_number(L, "error_mean", f->error_mean);
  ett_lua_set_number(L, "error_median", f->error_median);
  ett_lua_set_number(L, "size_least", f->size_least);
  ett_lua_set_number(L, "size_most", f->size_most);
  ett_lua_set_doubles(L, "least", f->least, (size_t)m->design.dims);
  ett_lua_set_doubles(L, "most", f->most, (size_t)m->design.dims);
  ett_lua_set_doubles(L, "coefficients", m->x, (size_t)m->columns);
  return 1;
}

static int model_bytes(lua_State *L) {
  const ett_model *model = check_model(L);
  void **block = ett_lua_box_new(L, TEXT_TYPE); /* as in model_text */
  size_t length;
  ett_err err;
  if (model->length == 0 && ett_model_pack(model, block, &length, &err) != 0)
    return ett_lua_raise(L, &err);
  if (model->length == 0)
    lua_pushlstring(L, *block, length);
  else
    lua_pushlstring(L, model->memory, model->length);
  return 1;
}

static int regress_from_text(lua_State *L) {
  size_t length;
  const char *text = luaL_checklstring(L, 1, &length);
  ett_model *model = new_model(L);
  ett_err err;
  if (ett_model_from_text(text, length, model, &err) != 0)
    return ett_lua_fail(L, &err);
  return 1;
}

ETT_LUA_CLOSE(text_close, TEXT_TYPE, free)

static int model_text(lua_State *L) {
  const ett_model *model = check_model(L);
  char **text = (char **)ett_lua_box_new(
      L, TEXT_TYPE); /* owned by a userdata: later calls may raise */
  size_t length;
  ett_err err;
  if (ett_model_to_text(model, text, &length, &err) != 0)
    return ett_lua_raise(L, &err);
  lua_pushlstring(L, *text, length);
  return 1;
}

static int model_tostring(lua_State *L) {
  const ett_model *m = luaL_checkudata(L, 1, ETT_LUA_MODEL);
  if (!m->memory)
    lua_pushliteral(L, "regressor (closed)");
  else
    lua_pushfstring(L, "regressor of family %s: %d rows, error %f %%",
                    ett_family_name(m->design.family), (int)m->facts.rows,
                    100 * m->facts.error_mean);
  return 1;
}

/* A list with the kernel or the size of each row of flat dims. */
static int each_row(lua_State *L, bool kernels) {
  ett_design design;
  ett_err err;
  size_t count, d;
  ett_lua_design(L, 1, &design);
  d = (size_t)design.dims;
  const double *dims = ett_lua_doubles(L, 2, &count);
  if (count % d != 0)
    luaL_error(L, "%d numbers are not whole rows of %d dimensions", (int)count, (int)d);
  lua_createtable(L, (int)(count / d), 0);
  for (size_t i = 0; i < count / d; i++) {
    if (ett_design_row_check(&design, dims + i * d, &err) != 0)
      ett_lua_raise(L, &err);
    if (kernels)
      lua_pushinteger(L, (lua_Integer)ett_design_kernel(&design, dims + i * d));
    else
      lua_pushnumber(L, ett_design_size(&design, dims + i * d));
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

static int regress_kernels(lua_State *L) {
  return each_row(L, true);
}

static int regress_sizes(lua_State *L) {
  return each_row(L, false);
}

static int regress_mix(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)ett_mix64((uint64_t)luaL_checkinteger(L, 1)));
  return 1;
}

static const luaL_Reg functions[] = {
    {"open", regress_open},
    {"load", regress_load},
    {"from_text", regress_from_text},
    {"kernels", regress_kernels},
    {"sizes", regress_sizes},
    {"mix", regress_mix},
    {NULL, NULL},
};

static const luaL_Reg methods[] = {
    {"predict", model_predict},
    {"predict_rows", model_predict_rows},
    {"facts", model_facts},
    {"bytes", model_bytes},
    {"text", model_text},
    {"__tostring", model_tostring},
    {NULL, NULL},
};

int luaopen_ett_regress(lua_State *L);

int luaopen_ett_regress(lua_State *L) {
  ett_lua_type(L, ETT_LUA_MODEL, methods, model_close);
  ett_lua_type(L, TEXT_TYPE, NULL, text_close);
  luaL_newlib(L, functions);
  return 1;
}
