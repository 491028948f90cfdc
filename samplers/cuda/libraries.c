#include "samplers/cuda/libraries.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cuda.h renames functions by macro (cuMemAlloc is cuMemAlloc_v2): the symbol to look up
 * is the expanded name. */
#define NAME_OF(name) #name
#define SYMBOL(name) NAME_OF(name)

typedef struct symbol {
  const char *name;
  size_t offset; /* of the function pointer in the table */
  int optional;
} symbol;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Tries the loader's own path, then $CUDA_HOME and the usual toolkit folders. */
static void *open_library(const char *name) {
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  const char *roots[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda",
                         "/opt/cuda"};
  for (size_t i = 0; !library && i < sizeof roots / sizeof *roots; i++) {
    char path[4096];
    if (!roots[i])
      continue;
    snprintf(path, sizeof path, "%s/lib64/%s", roots[i], name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  return library;
}

/* Opens the first existing library of the names and fills the table. */
static int fill(void *table, const char *const *names, const symbol *symbols,
                size_t count, const char *remedy, ett_err *err) {
  void *library = NULL;
  for (; *names && !library; names++)
    library = open_library(*names);
  if (!library)
    return ett_err_set(err, ETT_ERR_MISSING, "%s", remedy);
  for (size_t i = 0; i < count; i++) {
    void *address = dlsym(library, symbols[i].name);
    /* The second version came with CUDA 12.8 and has the arguments of the first. */
    if (!address && strcmp(symbols[i].name, "cuEventElapsedTime_v2") == 0)
      address = dlsym(library, "cuEventElapsedTime");
    if (!address && !symbols[i].optional)
      return ett_err_set(err, ETT_ERR_MISSING, "%s; the one found lacks %s", remedy,
                         symbols[i].name);
    *(void **)((char *)table + symbols[i].offset) = address;
  }
  return 0;
}

#define ENTRY(type, name) {SYMBOL(name), offsetof(type, name), 0},
#define DRIVER_ENTRY(name) ENTRY(ett_cuda_driver, name)
#define DRIVER_OPTIONAL_ENTRY(name) {SYMBOL(name), offsetof(ett_cuda_driver, name), 1},
#define DRIVER_ENTRIES(X)                                                                \
  ETT_CUDA_DRIVER(X) ETT_CUDA_DRIVER_OPTIONAL(DRIVER_OPTIONAL_ENTRY)
#define NVRTC_ENTRY(name) ENTRY(ett_cuda_nvrtc, name)
#define BLAS_ENTRY(name) ENTRY(ett_cuda_blas, name)
#define DNN_ENTRY(name) ENTRY(ett_cuda_dnn, name)
#define CUPTI_ENTRY(name) ENTRY(ett_cuda_cupti, name)

#define OPENER(function, type, LIST, ENTRY_OF, remedy, ...)                              \
  const type *function(ett_err *err) {                                                   \
    static type table;                                                                   \
    static int state; /* 0 untried, 1 open */                                            \
    static const symbol symbols[] = {LIST(ENTRY_OF)};                                    \
    static const char *const names[] = {__VA_ARGS__, NULL};                              \
    pthread_mutex_lock(&lock);                                                           \
    if (state == 0 && fill(&table, names, symbols, sizeof symbols / sizeof *symbols,     \
                           remedy, err) == 0)                                            \
      state = 1;                                                                         \
    const type *opened = state == 1 ? &table : NULL;                                     \
    pthread_mutex_unlock(&lock);                                                         \
    return opened;                                                                       \
  }

OPENER(ett_cuda_driver_open, ett_cuda_driver, DRIVER_ENTRIES, DRIVER_ENTRY,
       "no CUDA driver on this machine (libcuda.so.1); install the NVIDIA driver",
       "libcuda.so.1")
OPENER(ett_cuda_nvrtc_open, ett_cuda_nvrtc, ETT_CUDA_NVRTC, NVRTC_ENTRY,
       "no CUDA run-time compiler (libnvrtc); install the CUDA toolkit", "libnvrtc.so",
       "libnvrtc.so.13", "libnvrtc.so.12")
OPENER(ett_cuda_blas_open, ett_cuda_blas, ETT_CUDA_BLAS, BLAS_ENTRY,
       "no cuBLASLt (libcublasLt); install the CUDA toolkit", "libcublasLt.so",
       "libcublasLt.so.13", "libcublasLt.so.12")
#ifdef ETT_HAVE_CUDNN
OPENER(ett_cuda_dnn_open, ett_cuda_dnn, ETT_CUDA_DNN, DNN_ENTRY,
       "no cuDNN 9 (libcudnn.so.9); install cuDNN for your CUDA toolkit", "libcudnn.so.9")
#endif
#ifdef ETT_HAVE_CUPTI
OPENER(ett_cuda_cupti_open, ett_cuda_cupti, ETT_CUDA_CUPTI, CUPTI_ENTRY,
       "no CUPTI (libcupti); install the CUDA toolkit with its profiling tools",
       "libcupti.so", "libcupti.so.13", "libcupti.so.12")
#endif

int ett_cuda_check(const ett_cuda_driver *driver, CUresult status, const char *doing,
                   ett_err *err) {
  const char *text = NULL;
  if (status == CUDA_SUCCESS)
    return 0;
  driver->cuGetErrorString(status, &text);
  ett_err_code code = status == CUDA_ERROR_OUT_OF_MEMORY ? ETT_ERR_MEMORY : ETT_ERR_IO;
  return ett_err_set(err, code, "cuda: %s: %s", doing, text ? text : "unknown error");
}
