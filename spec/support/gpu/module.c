/* Modules and launches of the stand-in. A cubin is an ELF file: its sections name the
 * kernels, and
 * ".nv.info.NAME" the size of each parameter, so that a launch can be compared with its
 * kernel. */
#include <dlfcn.h>
#include <elf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cubin.h"
#include "driver.h"

enum { MAX_FUNCTIONS = 32, MAX_PARAMETERS = 64 };

struct CUfunc_st {
  object base;
  char name[128];
  int parameters;
  unsigned sizes[MAX_PARAMETERS];
  int most_shared;
  void (*call)(const unsigned *grid, const unsigned *block, void **values);
};

struct CUmod_st {
  object base;
  CUfunction functions[MAX_FUNCTIONS];
  int count;
  void *computed; /* dlopen handle of its kernels compiled for the host */
};

static const Elf64_Shdr *section(const char *image, int i) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
  return (const Elf64_Shdr *)(image + head->e_shoff) + i;
}

/* Records {format, attribute, size, bytes…}; attribute 0x17 describes one parameter. */
static void read_parameters(CUfunction function, const char *info, size_t bytes) {
  for (size_t at = 0; at + 4 <= bytes;) {
    const unsigned char *record = (const unsigned char *)info + at;
    unsigned size = record[0] == 4 ? record[2] + 256u * record[3] : 0;
    if (record[0] == 4 && record[1] == 0x17 && size >= 12) {
      uint16_t ordinal;
      uint32_t packed;
      memcpy(&ordinal, record + 8, 2);
      memcpy(&packed, record + 12, 4);
      if (ordinal < MAX_PARAMETERS) {
        function->sizes[ordinal] = packed >> 18;
        if (ordinal + 1 > function->parameters)
          function->parameters = ordinal + 1;
      }
    }
    at += 4 + size;
  }
}

static void read_functions(CUmodule module, const char *image) {
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)image;
  const char *names = image + section(image, head->e_shstrndx)->sh_offset;
  for (int i = 0; i < head->e_shnum; i++) {
    const char *name = names + section(image, i)->sh_name;
    if (strncmp(name, ".text.", 6) != 0 || module->count == MAX_FUNCTIONS)
      continue;
    CUfunction function = calloc(1, sizeof *function);
    snprintf(function->name, sizeof function->name, "%s", name + 6);
    function->most_shared = 48 << 10;
    for (int j = 0; j < head->e_shnum; j++) {
      const char *other = names + section(image, j)->sh_name;
      if (strncmp(other, ".nv.info.", 9) == 0 && strcmp(other + 9, name + 6) == 0)
        read_parameters(function, image + section(image, j)->sh_offset,
                        section(image, j)->sh_size);
    }
    module->functions[module->count++] = function;
  }
}

/* With ETT_GPU_EXECUTE: the source of this cubin, stored by the stand-in NVRTC,
 * compiled for the host. */
static void load_computed(CUmodule module, const char *image) {
  const char *folder = getenv("ETT_GPU_EXECUTE");
  char base[1024], command[8192];
  if (!folder)
    return;
  snprintf(base, sizeof base - 4, "%.990s/%016llx", folder,
           ett_stand_in_cubin_hash(image));
  snprintf(
      command, sizeof command,
      "[ -e %s.so ] || g++ -std=c++17 -O1 -w -fsanitize=undefined "
      "-fsanitize-undefined-trap-on-error -shared -nostdlib -fPIC -o %s.so.$$ %s.cpp && "
      "{ [ -e %s.so ] || mv %s.so.$$ %s.so; }",
      base, base, base, base, base, base);
  if (system(command) != 0)
    ett_stand_in_abort("a kernel does not compile for the host: %s.cpp", base);
  strcat(base, ".so");
  module->computed = dlopen(base, RTLD_NOW | RTLD_LOCAL);
  if (!module->computed)
    ett_stand_in_abort("%s", dlerror());
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *made, const void *image) {
  ENTER("cuModuleLoadData");
  if (ett_stand_in_forbid_capture())
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const Elf64_Ehdr *head = image;
  if (memcmp(image, ELFMAG, SELFMAG) != 0 || head->e_machine != 190 /* EM_CUDA */)
    return CUDA_ERROR_INVALID_IMAGE;
  CUmodule module = ett_stand_in_make(MODULE, sizeof *module);
  if (!module)
    return CUDA_ERROR_OUT_OF_MEMORY;
  read_functions(module, image);
  load_computed(module, image);
  *made = module;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  ENTER("cuModuleUnload");
  ett_stand_in_must_end("cuModuleUnload");
  ett_stand_in_check(module, MODULE, "cuModuleUnload");
  if (ett_stand_in_forbid_capture())
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  for (int i = 0; i < module->count; i++)
    free(module->functions[i]);
  if (module->computed)
    dlclose(module->computed);
  ett_stand_in_destroy(module, MODULE, "cuModuleUnload");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *found, CUmodule module,
                                     const char *name) {
  ENTER("cuModuleGetFunction");
  ett_stand_in_check(module, MODULE, "cuModuleGetFunction");
  for (int i = 0; i < module->count; i++)
    if (strcmp(module->functions[i]->name, name) == 0) {
      *found = module->functions[i];
      if (module->computed) {
        char symbol[160];
        snprintf(symbol, sizeof symbol, "ett_call_%s", name);
        *(void **)&(*found)->call = dlsym(module->computed, symbol);
      }
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset,
                                    size_t *size) {
  ENTER("cuFuncGetParamInfo");
  if (index >= (size_t)function->parameters)
    return CUDA_ERROR_INVALID_VALUE;
  *offset = 8 * index;
  if (size)
    *size = function->sizes[index];
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute,
                                    int value) {
  ENTER("cuFuncSetAttribute");
  int most = ett_stand_in()->capability >= 90 ? 227 << 10 : 163 << 10;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
      value > most)
    return CUDA_ERROR_INVALID_VALUE;
  function->most_shared = value;
  return CUDA_SUCCESS;
}

/* --- launches ------------------------------------------------------------------- */

typedef struct launch_data {
  CUfunction function;
  unsigned grid[3], block[3];
  unsigned char values[MAX_PARAMETERS][16];
} launch_data;

static void run_launch(void *data) {
  launch_data *launch = data;
  ett_stand_in_state *s = ett_stand_in();
  s->launches++;
  if (s->lost_at && s->launches >= s->lost_at)
    ett_stand_in_die((CUresult)s->lost_status);
  if (strstr(launch->function->name, "out_of_bounds"))
    ett_stand_in_die(CUDA_ERROR_ILLEGAL_ADDRESS);
  if (!launch->function->call)
    return;
  void *pointers[MAX_PARAMETERS];
  for (int i = 0; i < launch->function->parameters; i++)
    pointers[i] = launch->values[i];
  launch->function->call(launch->grid, launch->block, pointers);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy,
                                unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                unsigned shared, CUstream stream, void **parameters,
                                void **extra) {
  ENTER("cuLaunchKernel");
  if (extra || !function)
    return CUDA_ERROR_INVALID_VALUE;
  if (!gx || !gy || !gz || !bx || !by || !bz || gx > 2147483647u || gy > 65535 ||
      gz > 65535 || bx > 1024 || by > 1024 || bz > 64 ||
      (unsigned long long)bx * by * bz > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  if ((int)shared > function->most_shared)
    return CUDA_ERROR_INVALID_VALUE;
  launch_data data = {.function = function, .grid = {gx, gy, gz}, .block = {bx, by, bz}};
  for (int i = 0; i < function->parameters; i++) {
    if (!parameters || !parameters[i])
      ett_stand_in_abort(
          "cuLaunchKernel: kernel '%s' takes %d parameters, parameter %d is missing",
          function->name, function->parameters, i + 1);
    if (function->sizes[i] > sizeof data.values[i])
      ett_stand_in_abort("cuLaunchKernel: '%s': parameter %d has %u bytes",
                         function->name, i + 1, function->sizes[i]);
    memcpy(data.values[i], parameters[i], function->sizes[i]);
  }
  double seconds = strstr(function->name, "never_ends") ? INFINITY : 5e-6;
  ett_stand_in_work work = {function->name, seconds, run_launch, &data, sizeof data};
  return ett_stand_in_enqueue(stream, &work);
}
