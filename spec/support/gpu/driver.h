/* driver.h - the state of the stand-in, shared by the parts of the driver. */
#ifndef ETT_STAND_IN_DRIVER_H
#define ETT_STAND_IN_DRIVER_H

#include "stand_in.h"

enum { MAX_DEVICES = 8, MAX_ALLOCATIONS = 512, MAX_COUNTERS = 96 };

struct CUctx_st {
  int ordinal, references;
  int objects;    /* streams, events, modules, graphs */
  unsigned peers; /* bit i: may write into device i */
  CUresult died;
};

typedef struct allocation {
  CUdeviceptr address;
  size_t bytes, mapped;
  CUcontext context;
} allocation;

typedef struct ett_stand_in_state {
  int initialized, devices, capability, l2;
  size_t memory, used, peak;
  long long allocation_fails, allocations_made;
  long long lost_at, launches;
  int lost_status;
  struct CUctx_st contexts[MAX_DEVICES];
  allocation allocations[MAX_ALLOCATIONS];
  int allocation_count;
  int objects;
  struct {
    const char *name;
    long count;
  } counters[MAX_COUNTERS];
  int counter_count;
} ett_stand_in_state;

ett_stand_in_state *ett_stand_in(void);
CUcontext ett_stand_in_context(void);

/* From now on every call in this thread's context returns that error. */
void ett_stand_in_die(CUresult status);

/* Called by functions that wait for the device: ends the process if a kernel never
 * ends, because a real call would hang. */
void ett_stand_in_must_end(const char *name);

/* True if a stream of this thread is being captured; the capture then becomes invalid. */
int ett_stand_in_forbid_capture(void);

/* Every handle begins with this. */
typedef struct object {
  enum { STREAM = 0x51, EVENT, MODULE, FUNCTION, GRAPH, EXECUTABLE } kind;
  CUcontext context;
} object;

void *ett_stand_in_make(int kind, size_t bytes);
void ett_stand_in_check(const void *handle, int kind, const char *name);
void ett_stand_in_destroy(void *handle, int kind, const char *name);

#define ENTER(name)                                                                      \
  do {                                                                                   \
    ett_stand_in_count(name);                                                            \
    CUresult entered = ett_stand_in_status();                                            \
    if (entered != CUDA_SUCCESS)                                                         \
      return entered;                                                                    \
  } while (0)

#endif
