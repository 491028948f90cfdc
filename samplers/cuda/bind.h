/* cuda.h - what the files of ett.cuda's binding share. */
#ifndef ETT_BIND_CUDA_H
#define ETT_BIND_CUDA_H

#include "bind/common.h"
#include "samplers/cuda/work.h"

#define DEVICE_TYPE "ett.cuda.device"
#define WORK_TYPE "ett.cuda.work"

typedef struct ett_bind_cuda_work_box {
  ett_cuda_work *work; /* NULL once closed; its device is user value 1 */
} ett_bind_cuda_work_box;

/* Names by the values of their enumerations; NULL ends them. */
extern const char *const ett_bind_cuda_dtypes[];
extern const char *const ett_bind_cuda_fills[];

/* The value of a name among `names`; raises "unknown WHAT 'NAME'" when there is none. */
int ett_bind_cuda_name(lua_State *L, const char *name, const char *const *names,
                       const char *what);

/* A field of the table at an index that names a dtype. */
ett_cuda_dtype ett_bind_cuda_dtype(lua_State *L, int index, const char *field,
                                   const char *fallback);

/* The device or work list at an index; raises when it is closed. */
ett_cuda_device *ett_bind_cuda_device(lua_State *L, int index);
ett_cuda_work *ett_bind_cuda_work(lua_State *L, int index);

/* Returns true, or nil and the error when status is not 0. */
int ett_bind_cuda_done(lua_State *L, int status, const ett_err *err);

/* Methods of a work list: those that add to it, those of a finished one. */
extern const luaL_Reg ett_bind_cuda_recording[], ett_bind_cuda_running[];

#endif
