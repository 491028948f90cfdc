#include "host/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <poll.h>
#include <seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "io/file.h"
#include "io/utf8.h"

#define PATIENCE_SECONDS 2 /* from a forwarded signal to SIGKILL */
#define TIME_FACTOR 10     /* time limit over the limit of processor time */

#define READS (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)

/* System calls of a process that computes and prints. All others fail with EPERM.
 * Landlock restricts the paths to read. */
static const int allowed[] = {
    SCMP_SYS(read),
    SCMP_SYS(readv),
    SCMP_SYS(pread64),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(close),
    SCMP_SYS(fstat),
    SCMP_SYS(stat),
    SCMP_SYS(lstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(fstatfs),
    SCMP_SYS(statfs),
    SCMP_SYS(lseek),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),
    SCMP_SYS(getdents64),
    SCMP_SYS(fadvise64),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(mmap),
    SCMP_SYS(munmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(brk),
    SCMP_SYS(futex),
    SCMP_SYS(membarrier),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(times),
    SCMP_SYS(getrusage),
    SCMP_SYS(getrlimit),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(getcpu),
    SCMP_SYS(get_mempolicy),
    SCMP_SYS(sysinfo),
    SCMP_SYS(uname),
    SCMP_SYS(getrandom),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(getppid),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(timer_create),
    SCMP_SYS(timer_settime),
    SCMP_SYS(timer_delete),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(arch_prctl),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
};

static int add(scmp_filter_ctx filter, int call, unsigned count,
               const struct scmp_arg_cmp *rules) {
  return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, count, rules);
}

/* System calls that are allowed with some arguments only. */
static int add_conditional(scmp_filter_ctx filter) {
  const uint64_t writes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
  const uint64_t thread = 0x00010000; /* CLONE_THREAD */
  const struct scmp_arg_cmp reading[2] = {SCMP_A1(SCMP_CMP_MASKED_EQ, writes, 0),
                                          SCMP_A2(SCMP_CMP_MASKED_EQ, writes, 0)};
  const struct scmp_arg_cmp new_thread = SCMP_A0(SCMP_CMP_MASKED_EQ, thread, thread);
  const struct scmp_arg_cmp own = SCMP_A0(SCMP_CMP_EQ, (uint64_t)getpid());
  const struct scmp_arg_cmp caller = SCMP_A0(SCMP_CMP_EQ, 0);
  const struct scmp_arg_cmp no_change = SCMP_A2(SCMP_CMP_EQ, 0);
  int failed = add(filter, SCMP_SYS(open), 1, &reading[0]) ||
               add(filter, SCMP_SYS(openat), 1, &reading[1]) ||
               add(filter, SCMP_SYS(clone), 1, &new_thread) ||
               add(filter, SCMP_SYS(tgkill), 1, &own) ||
               add(filter, SCMP_SYS(kill), 1, &own) ||
               add(filter, SCMP_SYS(sched_setaffinity), 1, &caller) ||
               add(filter, SCMP_SYS(prlimit64), 1, &no_change) ||
               seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0) ||
               seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(openat2), 0);
  static const uint64_t queries[] = {TCGETS, TIOCGWINSZ, FIONREAD};
  for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++)
    failed = failed || seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                                        SCMP_A1(SCMP_CMP_EQ, queries[i]));
  static const uint64_t flags[] = {F_GETFD, F_SETFD, F_GETFL};
  for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
    failed = failed || seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
                                        SCMP_A1(SCMP_CMP_EQ, flags[i]));
  return failed ? -1 : 0;
}

static int restrict_calls(ett_err *err) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
  int failed = !filter;
  for (size_t i = 0; !failed && i < sizeof allowed / sizeof allowed[0]; i++)
    failed = add(filter, allowed[i], 0, NULL);
  failed = failed || add_conditional(filter) || seccomp_load(filter);
  seccomp_release(filter);
  return failed
             ? ett_err_set(err, ETT_ERR_MISSING, "this kernel refuses a seccomp filter")
             : 0;
}

/* Allows reading below a path. Missing paths are ignored. */
static void allow_reading(int rules, const char *path) {
  const int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0)
    return;
  struct stat status;
  const int folder = fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
  const struct landlock_path_beneath_attr beneath = {
      .allowed_access = folder ? READS : LANDLOCK_ACCESS_FS_READ_FILE, .parent_fd = fd};
  syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
  close(fd);
}

/* Returns 1 if paths are restricted, 0 if the kernel has no Landlock. */
static int restrict_paths(const ett_sandbox_limits *limits) {
  /* The 13 rights of the first version; later versions add moving and truncating. */
  struct landlock_ruleset_attr attributes = {.handled_access_fs = (1u << 13) - 1};
  const long version =
      syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (version >= 2)
    attributes.handled_access_fs |= 1u << 13; /* refer */
  if (version >= 3)
    attributes.handled_access_fs |= 1u << 14; /* truncate */
  const int rules =
      (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
  if (rules < 0)
    return 0;
  for (size_t i = 0; i < limits->readable_count; i++)
    allow_reading(rules, limits->readable[i]);
  const long failed = syscall(SYS_landlock_restrict_self, rules, 0);
  close(rules);
  return failed == 0;
}

static void limit(__rlimit_resource_t what, rlim_t value) {
  struct rlimit old,
      bound = {value, value + 1}; /* SIGXCPU at the first, SIGKILL at the second */
  if (getrlimit(what, &old) == 0 && old.rlim_max <= value)
    bound.rlim_cur = bound.rlim_max = old.rlim_max;
  setrlimit(what, &bound);
}

static int restrict_child(const ett_sandbox_limits *limits, int *landlock, ett_err *err) {
  limit(RLIMIT_CPU, limits->processor_seconds);
  limit(RLIMIT_FSIZE, 0);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, 256);
#ifndef __SANITIZE_ADDRESS__ /* ASan reserves terabytes of address space */
  limit(RLIMIT_AS, limits->memory_bytes);
#endif
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    return ett_err_set(err, ETT_ERR_MISSING, "this kernel cannot drop privileges: %s",
                       strerror(errno));
  *landlock = restrict_paths(limits);
  return restrict_calls(err);
}

/* The parent process. It copies the child's output without control characters. */

static volatile pid_t child;            /* 0 after its end */
static volatile sig_atomic_t forwarded; /* the last signal forwarded */

typedef struct {
  int from, to; /* from: -1 after its end */
  int terminal;
  size_t held; /* bytes of an incomplete character, at the start of `bytes` */
  char bytes[16384];
} stream;

static stream streams[2];
static size_t copied;
static char last = '\n'; /* on the terminal */

static _Noreturn void die_of(int number) {
  signal(number, SIG_DFL);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_UNBLOCK, &all, NULL);
  raise(number);
  _exit(128 + number);
}

static void forward(int number) {
  const int kept = errno; /* of the call that it interrupts */
  if (number == SIGALRM)
    die_of(forwarded ? forwarded : number);
  forwarded = number;
  if (child > 0)
    kill(child, number);
  alarm(PATIENCE_SECONDS);
  errno = kept;
}

/* Says why the child ends; a running one gets SIGKILL at the parent's end. */
__attribute__((format(printf, 1, 2))) static _Noreturn void fail(const char *format,
                                                                 ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs(last == '\n' ? "ett: " : "\nett: ", stderr);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  _exit(1);
}

/* Whether the first character of text is complete. The carriage return that clears a line
 * has three more bytes. */
static int is_complete(const char *text, size_t length) {
  const unsigned char c = (unsigned char)*text;
  return length >= (c >= 0xF0 || c == '\r' ? 4u : c >= 0xE0 ? 3u : c >= 0xC0 ? 2u : 1u);
}

static void copy_output(stream *s, size_t most) {
  static const char clear[4] = "\r\33[K"; /* lua/ett/cli/progress.lua; for terminals */
  char text[4 * sizeof s->bytes];
  const ssize_t count = read(s->from, s->bytes + s->held, sizeof s->bytes - s->held);
  const size_t end = s->held + (count > 0 ? (size_t)count : 0);
  size_t at = 0, length = 0;
  while (at < end && (count == 0 || is_complete(s->bytes + at, end - at))) {
    if (s->terminal && end - at >= 4 && memcmp(s->bytes + at, clear, 4) == 0) {
      memcpy(text + length, clear, 4);
      length += 4;
      at += 4;
    } else {
      at += ett_utf8_plain(s->bytes + at, end - at, text + length, &length);
    }
  }
  s->held = end - at;
  memmove(s->bytes, s->bytes + at, s->held);
  copied += length;
  if (copied > most)
    fail("stopped by the sandbox: more than %zu MiB of output\n", most >> 20);
  const int fault = ett_file_write_all(s->to, text, length);
  if (fault && s->to == STDOUT_FILENO)
    fail("cannot write the output: %s\n", strerror(fault));
  last = s->terminal && length > 0 ? text[length - 1] : last;
  if (count == 0) {
    close(s->from);
    s->from = -1;
  }
}

/* Copies until the child has ended; returns its status. The time limit excludes writing,
 * as to a pager, and stops by Ctrl-Z. */
static int copy_until_end(const ett_sandbox_limits *limits) {
  const clock_t second = sysconf(_SC_CLK_TCK);
  const clock_t most = (clock_t)TIME_FACTOR * limits->processor_seconds;
  clock_t waited = 0;
  int status = 0;
  for (int closed = 0; !closed || waitpid(child, &status, WNOHANG) == 0;) {
    struct pollfd ready[2] = {{streams[0].from, POLLIN, 0}, {streams[1].from, POLLIN, 0}};
    const clock_t begin = times(NULL);
    poll(ready, 2, closed ? 1 : 1000);
    const clock_t spent = times(NULL) - begin;
    waited += spent < second ? spent : second;
    if (waited / second >= most)
      fail("stopped by the sandbox: still running after %ld s (%d times "
           "ETT_SANDBOX_SECONDS)\n",
           most, TIME_FACTOR);
    for (int i = 0; i < 2; i++)
      if (ready[i].revents)
        copy_output(&streams[i], limits->output_bytes);
    closed = streams[0].from < 0 && streams[1].from < 0;
  }
  child = 0;
  return status;
}

static _Noreturn void wait_for_child(const ett_sandbox_limits *limits,
                                     const sigset_t *signals_before) {
  static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM};
  struct sigaction action = {.sa_handler = forward};
  sigfillset(&action.sa_mask);
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
    sigaction(signals[i], &action, NULL);
  sigprocmask(SIG_SETMASK, signals_before, NULL);
  const int status = copy_until_end(limits);
  if (WIFEXITED(status))
    _exit(WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  if (forwarded)
    die_of(forwarded);
  struct rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  const double seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                         1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
  if (number == SIGXCPU ||
      (number == SIGKILL && seconds >= 0.9 * (double)limits->processor_seconds))
    fail("stopped by the sandbox: more than %u s of processor time "
         "(ETT_SANDBOX_SECONDS sets the limit)\n",
         limits->processor_seconds);
  if (number == SIGINT || number == SIGTERM)
    die_of(number); /* sent to the child itself */
  fail("the process in the sandbox ended by signal %d\n", number);
}

/* Makes pipes for standard output and standard error: one if both are the same file, so
 * that their order stays. */
static int make_pipes(int writers[2]) {
  struct stat output, errors;
  const int same = fstat(STDOUT_FILENO, &output) == 0 &&
                   fstat(STDERR_FILENO, &errors) == 0 && output.st_dev == errors.st_dev &&
                   output.st_ino == errors.st_ino;
  streams[1].from = -1;
  for (int i = 0; i < 2 - same; i++) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      return -1;
    streams[i].from = ends[0];
    streams[i].to = STDOUT_FILENO + i;
    streams[i].terminal = isatty(STDOUT_FILENO + i);
    writers[i] = ends[1];
  }
  writers[1] = same ? writers[0] : writers[1];
  return 0;
}

/* Leaves the child the pipes and no other open file of the caller. */
static void replace_files(const int writers[2], int kept) {
  if ((fcntl(STDIN_FILENO, F_GETFL) & O_ACCMODE) != O_RDONLY) /* as that of a terminal */
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(writers[0], STDOUT_FILENO);
  dup2(writers[1], STDERR_FILENO);
  enum { COMMON = 1024 }; /* close_range needs Linux 5.9 */
  for (int fd = STDERR_FILENO + 1; fd < COMMON; fd++)
    if (fd != kept)
      close(fd);
  close_range(COMMON, ~0U, 0);
  if (streams[0].terminal)
    setvbuf(stdout, NULL, _IOLBF, 0);
}

int ett_sandbox_enter(const ett_sandbox_limits *limits, int *landlock, ett_err *err) {
  sigset_t all, before; /* no signal is lost between fork and the parent's handlers */
  int writers[2];
  sigfillset(&all);
  fflush(NULL);
  sigprocmask(SIG_BLOCK, &all, &before);
  signal(SIGCHLD, SIG_DFL); /* ignored, the child's status would be lost */
  child = make_pipes(writers) == 0 ? fork() : -1;
  if (child > 0) {
    close(writers[0]);
    close(writers[1]);
    wait_for_child(limits, &before);
  }
  sigprocmask(SIG_SETMASK, &before, NULL);
  if (child < 0)
    return ett_err_set(err, ETT_ERR_IO, "cannot start the sandbox's process: %s",
                       strerror(errno));
  replace_files(writers, limits->kept);
  return restrict_child(limits, landlock, err);
}
