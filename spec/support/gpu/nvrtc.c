/* NVRTC of the stand-in: the real one compiles. Its code is kept in the folder that
 * ETT_GPU_CUBINS names, by a hash of the compiler's version, the options and the source,
 * so that each kernel is compiled once. ETT_GPU_EXECUTE names a folder for the sources as
 * C++ for the host: with it the stand-in driver computes the kernels. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

struct _nvrtcProgram {
  char *source;
  char element[64];
  nvrtcProgram real;
  char *code;
  size_t bytes;
};

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
  nvrtcProgram made = calloc(1, sizeof *made);
  made->source = malloc(strlen(source) + 1);
  strcpy(made->source, source);
  *program = made;
  return real.nvrtcCreateProgram(&made->real, source, name, headers, texts, names);
}

static unsigned long long hash_text(unsigned long long hash, const char *text) {
  do
    hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
  while (*text++);
  return hash;
}

/* Path of the code of a program; empty without a folder. */
static void place(char path[4096], const char *source, int count,
                  const char *const *options) {
  const char *folder = getenv("ETT_GPU_CUBINS");
  char version[32];
  int major = 0, minor = 0;
  path[0] = 0;
  if (!folder)
    return;
  real.nvrtcVersion(&major, &minor);
  snprintf(version, sizeof version, "%d.%d", major, minor);
  unsigned long long hash = hash_text(0xcbf29ce484222325ull, version);
  for (int i = 0; i < count; i++)
    hash = hash_text(hash, options[i]);
  snprintf(path, 4096, "%s/%016llx.cubin", folder, hash_text(hash, source));
}

static void load_code(nvrtcProgram program, const char *path) {
  FILE *in = path[0] ? fopen(path, "rb") : NULL;
  if (!in)
    return;
  fseek(in, 0, SEEK_END);
  program->bytes = (size_t)ftell(in);
  rewind(in);
  program->code = malloc(program->bytes);
  if (fread(program->code, 1, program->bytes, in) != program->bytes)
    ett_stand_in_abort("cannot read %s", path);
  fclose(in);
}

/* Written under another name first: other processes read the folder at the same time. */
static FILE *begin_file(const char *path, char part[4200]) {
  snprintf(part, 4200, "%s.%ld", path, (long)getpid());
  FILE *out = fopen(part, "wb");
  if (!out)
    ett_stand_in_abort("cannot write %s", part);
  return out;
}

static void end_file(FILE *out, const char *part, const char *path) {
  if (fclose(out) != 0 || rename(part, path) != 0)
    ett_stand_in_abort("cannot write %s", path);
}

/* The code never runs: only names and parameters of its cubin are read. CUDA 13 can
 * leave out optimizations and unused parts of the language, which halves the time. */
static nvrtcResult compile_fast(nvrtcProgram program, int count,
                                const char *const *options) {
  const char *all[16];
  int major = 0, minor = 0;
  real.nvrtcVersion(&major, &minor);
  if (major < 13 || count + 2 > (int)(sizeof all / sizeof *all))
    return real.nvrtcCompileProgram(program, count, options);
  memcpy(all, options, (size_t)count * sizeof *all);
  all[count] = "--Ofast-compile=max";
  all[count + 1] = "--minimal";
  return real.nvrtcCompileProgram(program, count + 2, all);
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count,
                                const char *const *options) {
  char path[4096], part[4200];
  ett_stand_in_count("nvrtcCompileProgram");
  for (int i = 0; i < count; i++)
    if (strncmp(options[i], "-DETT_DTYPE=", 12) == 0)
      snprintf(program->element, sizeof program->element, "#define ETT_DTYPE %s\n",
               options[i] + 12);
  place(path, program->source, count, options);
  load_code(program, path);
  if (program->code)
    return NVRTC_SUCCESS;
  nvrtcResult status = compile_fast(program->real, count, options);
  if (status != NVRTC_SUCCESS)
    return status;
  status = real.nvrtcGetCUBINSize(program->real, &program->bytes);
  program->code = malloc(program->bytes);
  if (status == NVRTC_SUCCESS)
    status = real.nvrtcGetCUBIN(program->real, program->code);
  if (status == NVRTC_SUCCESS && path[0]) {
    FILE *out = begin_file(path, part);
    fwrite(program->code, 1, program->bytes, out);
    end_file(out, part, path);
  }
  return status;
}

/* After the source: one function per kernel that takes the parameters in the driver's
 * form. */
static void keep(nvrtcProgram program) {
  char path[4096], part[4200];
  const char *folder = getenv("ETT_GPU_EXECUTE"), *host = getenv("ETT_GPU_HOST_HEADER");
  if (!folder || !host)
    return;
  snprintf(path, sizeof path, "%s/%016llx.cpp", folder,
           ett_stand_in_cubin_hash(program->code));
  if (access(path, R_OK) == 0)
    return;
  FILE *out = begin_file(path, part);
  fprintf(out, "%s#include \"%s\"\n%s\n", program->element, host, program->source);
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
  for (const char *at = program->source; (at = strstr(at, mark)) != NULL;) {
    at += sizeof mark - 1;
    int length = (int)strcspn(at, "( \n");
    fprintf(out,
            "extern \"C\" void ett_call_%.*s(const unsigned *g, const unsigned *b, void "
            "**v) {\n"
            "  ett_launch(%.*s, g, b, v);\n}\n",
            length, at, length, at);
  }
  end_file(out, part, path);
}

nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *code) {
  memcpy(code, program->code, program->bytes);
  keep(program);
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram program, size_t *bytes) {
  return real.nvrtcGetProgramLogSize(program->real, bytes);
}

nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char *log) {
  return real.nvrtcGetProgramLog(program->real, log);
}

nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) {
  *bytes = program->bytes;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram *program) {
  nvrtcResult status = real.nvrtcDestroyProgram(&(*program)->real);
  free((*program)->source);
  free((*program)->code);
  free(*program);
  *program = NULL;
  return status;
}

const char *nvrtcGetErrorString(nvrtcResult status) {
  return real.nvrtcGetErrorString(status);
}
