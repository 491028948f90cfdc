#include "samplers/core/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 4096 };

/* What differs between the versions of control groups. */
typedef struct {
  const char *mount, *limit, *usage, *inactive;
} version;

static const version v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                           "memory.usage_in_bytes", "total_inactive_file"};
static const version v2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                           "inactive_file"};

/* The number in a file; fallback where there is none, or the word "max". */
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

static double inactive_files(const char *folder, const char *key) {
  char path[PATH + 64], line[256];
  double bytes = 0;
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) {
    const size_t length = strlen(key);
    if (strncmp(line, key, length) == 0 && line[length] == ' ')
      bytes = strtod(line + length, NULL);
  }
  if (file)
    fclose(file);
  return bytes;
}

/* What a group and all above it leave. In a container the path may name a group that is
 * not mounted there: then the mount itself is the process's group. */
static double left_by(const char *root, const version *v, const char *group,
                      double least) {
  char folder[PATH];
  const size_t base = (size_t)snprintf(folder, sizeof folder, "%s%s", root, v->mount);
  if (base + strlen(group) >= sizeof folder)
    return least;
  strcpy(folder + base, group);
  for (;;) {
    const double limit = number_in(folder, v->limit, 1e300);
    if (limit < 1e18) { /* v1 says "none" by the largest number of pages */
      const double used =
          number_in(folder, v->usage, 0) - inactive_files(folder, v->inactive);
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
  double least = (double)sysconf(_SC_AVPHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
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
