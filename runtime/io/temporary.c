#include "io/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct ett_temporary {
  char path[PATH_MAX];
  pid_t remover;
  int end; /* of a pipe; the remover starts when all copies are closed */
};

extern char **environ;

/* Ranks of a process that was killed write for some seconds more: rm then fails. */
static char script[] =
    "read -r none; n=0; until rm -rf -- \"$0\" 2>/dev/null || [ $n -ge 50 ]; "
    "do n=$((n + 1)); sleep 0.1; done";

/* Starts the remover, whose standard input is the pipe. Returns 0 or an errno. */
static int start(ett_temporary *t) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return errno;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID); /* no signals of the terminal */
  char name[] = "sh", option[] = "-c";
  char *arguments[] = {name, option, script, t->path, NULL};
  int status =
      posix_spawn(&t->remover, "/bin/sh", &actions, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[0]);
  if (status != 0)
    close(ends[1]);
  else
    t->end = ends[1];
  return status;
}

ett_temporary *ett_temporary_new(const char *under, ett_err *err) {
  ett_temporary *t = malloc(sizeof *t);
  if (!t) {
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory for a temporary folder");
    return NULL;
  }
  /* The remover inherits this mask, so that these signals do not end it. */
  sigset_t ending, before;
  sigemptyset(&ending);
  sigaddset(&ending, SIGHUP);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGQUIT);
  sigaddset(&ending, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ending, &before);
  int status = ENAMETOOLONG;
  if ((size_t)snprintf(t->path, sizeof t->path, "%s/ett-XXXXXX", under) < sizeof t->path)
    status = mkdtemp(t->path) ? 0 : errno;
  if (status == 0 && (status = start(t)) != 0)
    rmdir(t->path);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (status == 0)
    return t;
  free(t);
  ett_err_set(err, ETT_ERR_IO, "cannot make a temporary folder in '%s': %s", under,
              strerror(status));
  return NULL;
}

const char *ett_temporary_path(const ett_temporary *temporary) {
  return temporary->path;
}

void ett_temporary_free(ett_temporary *temporary) {
  if (!temporary)
    return;
  close(temporary->end);
  while (waitpid(temporary->remover, NULL, 0) < 0 && errno == EINTR) {
  }
  free(temporary);
}
