#include <sched.h>

#include "samplers/cpu/measure.h"

/* The affinity at process start; later pins narrow the current affinity. */
static cpu_set_t allowed;
static int known;

static int ask(ett_err *err) {
  if (!known && sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "cannot read which processors this process may use");
  known = 1;
  return 0;
}

int ett_cpu_allowed(int processor, ett_err *err) {
  if (ask(err) != 0)
    return -1;
  while (processor < CPU_SETSIZE && !CPU_ISSET(processor, &allowed))
    processor++;
  return processor < CPU_SETSIZE ? processor : -1;
}

void ett_cpu_unpin(void) {
  if (known)
    sched_setaffinity(0, sizeof allowed, &allowed);
}

int ett_cpu_pin(int processor, int count, int *chosen, ett_err *err) {
  if (ask(err) != 0)
    return -1;
  if (processor < 0)
    processor = sched_getcpu();
  if (processor < 0 || processor >= CPU_SETSIZE || !CPU_ISSET(processor, &allowed))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "processor %d is not one of those that this process may use",
                       processor);
  if (count < 1 || count > CPU_COUNT(&allowed))
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "%d threads need %d processors, this process may use %d", count,
                       count, CPU_COUNT(&allowed));
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int n = 0; n < count; processor = (processor + 1) % CPU_SETSIZE)
    if (CPU_ISSET(processor, &allowed)) {
      CPU_SET(processor, &set);
      chosen[n++] = processor;
    }
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "cannot pin to processor %d", chosen[0]);
  return 0;
}
