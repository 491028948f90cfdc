/* A child process with few rights besides computing and printing, for untrusted Lua
 * files. */
#ifndef ETT_HOST_SANDBOX_H
#define ETT_HOST_SANDBOX_H

#include <stddef.h>

#include "base/err.h"

typedef struct {
  const char *const *readable; /* readable files and folders; missing ones are ignored */
  size_t readable_count;
  unsigned processor_seconds; /* at least 1 */
  size_t memory_bytes;        /* address space */
  size_t output_bytes;        /* largest file that standard output may become */
} ett_sandbox_limits;

/* Forks. Returns 0 in the child, which is then inside the sandbox: it can read the given
 * paths, write to open files, and start threads. It cannot open other files where the
 * kernel has Landlock, create or write files, start programs, use sockets, or signal
 * other processes. *landlock: whether the kernel has Landlock; without it every file of
 * the user can be read. The parent does not return: it waits, forwards SIGINT and
 * SIGTERM, prints one sentence when a limit ended the child, and exits with the child's
 * status. Returns -1 with *err, without a child, when the kernel refuses. */
int ett_sandbox_enter(const ett_sandbox_limits *limits, int *landlock, ett_err *err);

#endif
