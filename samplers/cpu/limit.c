#include "samplers/cpu/limit.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* Missing before glibc 2.34. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static sigjmp_buf out;
static volatile sig_atomic_t inside, armed;
static timer_t timer;
static const char *words;
static double limit_seconds, set_at;

static void set_timer(double seconds) {
  struct itimerspec when;
  memset(&when, 0, sizeof when);
  when.it_value.tv_sec = (time_t)seconds;
  when.it_value.tv_nsec = (long)((seconds - floor(seconds)) * 1e9);
  when.it_interval.tv_nsec = 100000000; /* repeats if it fires between kernels */
  timer_settime(timer, 0, &when, NULL);
}

static void on_alarm(int number) {
  (void)number;
  if (!armed || !inside)
    return;
  if (words) {
    _exit(write(STDERR_FILENO, words, strlen(words)) < 0 ? 2 : 1);
  }
  siglongjmp(out, 1);
}

/* Renews only after an eighth of the limit: a system call before each short repeat would
 * disturb the caches. */
void ett_cpu_limit_renew(void) {
  if (!armed || ett_clock(CLOCK_MONOTONIC) - set_at < limit_seconds / 8)
    return;
  set_timer(limit_seconds);
  set_at = ett_clock(CLOCK_MONOTONIC);
}

void ett_cpu_limit_enter(void) {
  inside = 1;
}

void ett_cpu_limit_leave(void) {
  inside = 0;
}

int ett_cpu_limit_run(void (*work)(void *data), void *data, double seconds,
                      const char *last_words) {
  struct sigaction action, before;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm;
  sigemptyset(&action.sa_mask);
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGALRM;
  event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
  if (!(seconds > 0) || timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) {
    work(data); /* without timers there is no timeout */
    return 0;
  }
  sigaction(SIGALRM, &action, &before);
  limit_seconds = seconds;
  words = last_words;
  int status = 0;
  if (sigsetjmp(out, 1) == 0) {
    armed = 1;
    set_at = ett_clock(CLOCK_MONOTONIC);
    set_timer(seconds);
    work(data);
  } else {
    status = -1;
  }
  armed = inside = 0;
  timer_delete(timer);
  sigaction(SIGALRM, &before, NULL);
  return status;
}
