/* driver.h - what the driver's parts share: the one state of the stand-in. */
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

/* From now on the context of this thread answers everything with that error. */
void ett_stand_in_die(CUresult status);

/* A call that waits for the device: ends the process when a kernel never ends, as a real
 * call would hang. */
void ett_stand_in_must_end(const char *name);

/* True when a stream of this thread is being captured: the capture is then spoilt. */
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
