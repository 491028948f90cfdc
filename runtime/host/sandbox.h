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
 * paths, write to two pipes, and start threads. It cannot create or write files, start
 * programs, use sockets, or signal other processes. If the kernel has Landlock
 * (*landlock), it cannot open other files; else it can read every file of the user.
 * The parent does not return. It copies the pipes to standard output and standard error
 * without control characters (ett_utf8_plain), and forwards SIGINT and SIGTERM. It ends
 * the child after 10 times processor_seconds, and prints one sentence if a limit ended
 * the child. It exits with the child's status. Returns -1 with *err, without a child,
 * when the kernel refuses. */
int ett_sandbox_enter(const ett_sandbox_limits *limits, int *landlock, ett_err *err);

#endif
