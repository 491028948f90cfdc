/* A child process with few rights besides computing and printing, for untrusted Lua
 * files. */
#ifndef ETT_HOST_SANDBOX_H
#define ETT_HOST_SANDBOX_H

#include <stddef.h>

#include "base/err.h"

typedef struct {
  const char *const *readable; /* readable files and folders; missing ones are ignored */
  size_t readable_count;
  int kept;                   /* descriptor that stays open, or -1 */
  unsigned processor_seconds; /* at least 1 */
  size_t memory_bytes;        /* address space */
  size_t output_bytes;        /* of standard output and standard error together */
} ett_sandbox_limits;

/* Forks. Returns 0 in the child, which is then inside the sandbox: it can read the given
 * paths, write to two pipes, and start threads. It cannot open other files where the
 * kernel has Landlock, create or write files, start programs, use sockets, or signal
 * other processes. *landlock: whether the kernel has Landlock; without it every file of
 * the user can be read. The parent does not return. It copies the pipes to standard
 * output and standard error without control characters (ett_utf8_plain), forwards SIGINT
 * and SIGTERM, ends the child after 10 times processor_seconds, prints one sentence if a
 * limit ended it, and exits with its status. Returns -1 with *err, without a child, when
 * the kernel refuses. */
int ett_sandbox_enter(const ett_sandbox_limits *limits, int *landlock, ett_err *err);

#endif
