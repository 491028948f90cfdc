/* A time limit on kernels: compiled code cannot be asked to stop, so a timer's signal to
 * the measuring thread leaves it by a long jump. Threads that help it work on what lies
 * on its stack: then the process ends instead. */
#ifndef ETT_CPU_LIMIT_H
#define ETT_CPU_LIMIT_H

/* Calls work(data). Returns 0, or -1 when a stretch between two calls of
 * ett_cpu_limit_renew took longer than seconds inside of a kernel; with last_words,
 * writes them to standard error there and exits with status 1. seconds 0: no limit. Not
 * reentrant. */
int ett_cpu_limit_run(void (*work)(void *data), void *data, double seconds,
                      const char *last_words);

/* Starts a new stretch, unless the present one is younger than an eighth of the limit. */
void ett_cpu_limit_renew(void);

/* Around the kernels: only there the limit ends anything. */
void ett_cpu_limit_enter(void);
void ett_cpu_limit_leave(void);

#endif
