/* A timeout for kernels. Compiled code has no point at which to stop, so the signal
 * handler of a timer leaves it by a long jump. If other threads use its stack, the
 * process exits instead. */
#ifndef ETT_CPU_LIMIT_H
#define ETT_CPU_LIMIT_H

/* Calls work(data). Returns 0, or -1 on a timeout: more than `seconds` inside a kernel
 * since the last ett_cpu_limit_renew. With last_words, a timeout instead writes them to
 * standard error and exits with status 1. seconds 0: no limit. Not reentrant. */
int ett_cpu_limit_run(void (*work)(void *data), void *data, double seconds,
                      const char *last_words);

/* Restarts the timer, unless less than an eighth of it has passed. */
void ett_cpu_limit_renew(void);

/* Called around a kernel; timeouts take effect only inside. */
void ett_cpu_limit_enter(void);
void ett_cpu_limit_leave(void);

#endif
