/* NVRTC of the stand-in: the real one compiles; what it compiled is kept as C++ for the
 * host, so that the stand-in driver can compute the kernel (ETT_GPU_EXECUTE names the
 * folder). */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nvrtc.h>

#include "cubin.h"
#include "stand_in.h"

#define FUNCTIONS(X)                                                                     \
  X(nvrtcVersion)                                                                        \
  X(nvrtcCreateProgram)                                                                  \
  X(nvrtcCompileProgram)                                                                 \
  X(nvrtcGetProgramLogSize)                                                              \
  X(nvrtcGetProgramLog)                                                                  \
  X(nvrtcGetCUBINSize)                                                                   \
  X(nvrtcGetCUBIN)                                                                       \
  X(nvrtcDestroyProgram)                                                                 \
  X(nvrtcGetErrorString)

#define FIELD(name) __typeof__(name) *name;
static struct { FUNCTIONS(FIELD) } real;
static char *kept_source;
static char kept_element[64];

static void open_real(void) {
  static const char *const places[] = {"/usr/local/cuda/lib64/libnvrtc.so",
                                       "/opt/cuda/lib64/libnvrtc.so"};
  void *library = NULL;
  const char *home = getenv("CUDA_HOME");
  if (home) {
    char path[4096];
    snprintf(path, sizeof path, "%s/lib64/libnvrtc.so", home);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  }
  for (size_t i = 0; !library && i < sizeof places / sizeof *places; i++)
    library = dlopen(places[i], RTLD_NOW | RTLD_LOCAL);
  if (!library)
    ett_stand_in_abort("no real NVRTC to compile with");
#define LOOK_UP(name) *(void **)&real.name = dlsym(library, #name);
  FUNCTIONS(LOOK_UP)
}

nvrtcResult nvrtcVersion(int *major, int *minor) {
  if (!real.nvrtcVersion)
    open_real();
  return real.nvrtcVersion(major, minor);
}

nvrtcResult nvrtcCreateProgram(nvrtcProgram *program, const char *source,
                               const char *name, int headers, const char *const *texts,
                               const char *const *names) {
  if (!real.nvrtcCreateProgram)
    open_real();
  free(kept_source);
  kept_source = malloc(strlen(source) + 1);
  strcpy(kept_source, source);
  return real.nvrtcCreateProgram(program, source, name, headers, texts, names);
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count,
                                const char *const *options) {
  ett_stand_in_count("nvrtcCompileProgram");
  for (int i = 0; i < count; i++)
    if (strncmp(options[i], "-DETT_DTYPE=", 12) == 0)
      snprintf(kept_element, sizeof kept_element, "#define ETT_DTYPE %s\n",
               options[i] + 12);
  return real.nvrtcCompileProgram(program, count, options);
}

/* Behind the source: one function a kernel that takes its parameters as a driver gets
 * them. */
static void keep(const char *cubin) {
  char path[4096];
  const char *folder = getenv("ETT_GPU_EXECUTE"), *host = getenv("ETT_GPU_HOST_HEADER");
  if (!folder || !host)
    return;
  snprintf(path, sizeof path, "%s/%016llx.cpp", folder, ett_stand_in_cubin_hash(cubin));
  FILE *out = fopen(path, "w");
  if (!out)
    ett_stand_in_abort("cannot write %s", path);
  fprintf(out, "%s#include \"%s\"\n#include <utility>\n%s\n", kept_element, host,
          kept_source);
  fprintf(
      out,
      "template <class... A, size_t... I>\n"
      "static void ett_apply(void (*f)(A...), void **v, std::index_sequence<I...>) {\n"
      "  f(*(A *)v[I]...);\n}\n"
      "template <class... A>\n"
      "static void ett_launch(void (*f)(A...), const unsigned *g, const unsigned *b, "
      "void **v) {\n"
      "  run_grid({g[0], g[1], g[2]}, {b[0], b[1], b[2]}, [=] {\n"
      "    ett_apply(f, v, std::index_sequence_for<A...>()); });\n}\n");
  static const char mark[] = "extern \"C\" __global__ void ";
  for (const char *at = kept_source; (at = strstr(at, mark)) != NULL;) {
    at += sizeof mark - 1;
    int length = (int)strcspn(at, "( \n");
    fprintf(out,
            "extern \"C\" void ett_call_%.*s(const unsigned *g, const unsigned *b, void "
            "**v) {\n"
            "  ett_launch(%.*s, g, b, v);\n}\n",
            length, at, length, at);
  }
  fclose(out);
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *code) {
  nvrtcResult status = real.nvrtcGetCUBIN(program, code);
  if (status == NVRTC_SUCCESS)
    keep(code);
  return status;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes) {
  return real.nvrtcGetProgramLogSize(program, bytes);
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
  return real.nvrtcGetProgramLog(program, log);
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) {
  return real.nvrtcGetCUBINSize(program, bytes);
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  return real.nvrtcDestroyProgram(program);
}

const char *nvrtcGetErrorString(nvrtcResult status) {
  return real.nvrtcGetErrorString(status);
}
