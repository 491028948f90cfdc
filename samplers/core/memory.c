#include "samplers/core/memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PATH = 4096 };

/* Differences between cgroup v1 and v2. */
typedef struct {
  const char *mount, *limit, *usage, *inactive;
} version;

static const version v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                           "memory.usage_in_bytes", "total_inactive_file"};
static const version v2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                           "inactive_file"};

/* The number in a file; the fallback if the file is missing or holds "max". */
static double number_in(const char *folder, const char *name, double fallback) {
  char path[PATH + 64], text[64] = "", *end;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  if (!file)
    return fallback;
  const char *line = fgets(text, sizeof text, file);
  fclose(file);
  const double value = line ? strtod(line, &end) : 0;
  return line && end != line ? value : fallback;
}

/* The number after `key` and spaces in a file of such lines; 0 if there is none. */
static double number_of(const char *folder, const char *name, const char *key) {
  char path[PATH + 64], line[256];
  double value = 0;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) {
    const size_t length = strlen(key);
    if (strncmp(line, key, length) == 0 && line[length] == ' ')
      value = strtod(line + length, NULL);
  }
  if (file)
    fclose(file);
  return value;
}

/* Free bytes of a group and its ancestors. In a container the named group may not be
 * mounted; then the mount point is the group. */
static double left_by(const char *root, const version *v, const char *group,
                      double least) {
  char folder[PATH];
  const size_t base = (size_t)snprintf(folder, sizeof folder, "%s%s", root, v->mount);
  if (base + strlen(group) >= sizeof folder)
    return least;
  strcpy(folder + base, group);
  for (;;) {
    const double limit = number_in(folder, v->limit, 1e300);
    if (limit < 1e18) { /* v1 writes a very large number for "no limit" */
      const double used =
          number_in(folder, v->usage, 0) - number_of(folder, "memory.stat", v->inactive);
      const double left = limit > used ? limit - used : 0;
      least = left < least ? left : least;
    }
    char *slash = strrchr(folder + base, '/');
    if (!slash)
      return least;
    *slash = '\0';
  }
}

double ett_sample_memory_free(const char *root) {
  double least = 1024 * number_of(root, "proc/meminfo", "MemAvailable:");
  if (least <= 0)
    least = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  char path[PATH], line[PATH];
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *file = fopen(path, "r");
  if (!file)
    return least;
  while (fgets(line, sizeof line, file)) { /* "4:memory:/group" or "0::/group" */
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group)
      continue;
    *group++ = '\0';
    if (strcmp(controllers + 1, "memory") == 0)
      least = left_by(root, &v1, group, least);
    else if (controllers[1] == '\0')
      least = left_by(root, &v2, group, least);
  }
  fclose(file);
  return least;
}

/* Refused here, because AddressSanitizer's allocator aborts on such a size. */
static int beyond_memory(size_t bytes) {
  return bytes > PTRDIFF_MAX;
}

#ifdef __SANITIZE_ADDRESS__ /* use ASan's allocator, which detects out-of-bounds         \
                               accesses */

void *ett_sample_pages_new(size_t bytes) {
  void *at = NULL;
  if (beyond_memory(bytes) || posix_memalign(&at, 64, bytes ? bytes : 1) != 0)
    return NULL;
  return memset(at, 0, bytes);
}

void ett_sample_pages_free(void *at, size_t bytes) {
  (void)bytes;
  free(at);
}

#else

static const size_t huge = (size_t)2 << 20;

static size_t rounded(size_t bytes) {
  return (bytes + huge - 1) / huge * huge;
}

void *ett_sample_pages_new(size_t bytes) {
  if (beyond_memory(bytes))
    return NULL;
  const size_t size = rounded(bytes ? bytes : 1);
  char *at =
      mmap(NULL, size + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    return NULL;
  const size_t before = (huge - (uintptr_t)at % huge) % huge;
  if (before > 0)
    munmap(at, before);
  munmap(at + before + size, huge - before);
#ifdef MADV_HUGEPAGE
  madvise(at + before, size, MADV_HUGEPAGE); /* only a hint; small pages also work */
#endif
  return at + before;
}

void ett_sample_pages_free(void *at, size_t bytes) {
  if (at)
    munmap(at, rounded(bytes ? bytes : 1));
}

#endif
