/* Time per kernel, recorded by CUPTI. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "samplers/cuda/work.h"

#ifndef ETT_HAVE_CUPTI

int ett_cuda_profile(ett_cuda_work *work, double time_limit_seconds,
                     ett_cuda_kernel_time *times, int room, ett_err *err) {
  (void)work;
  (void)time_limit_seconds;
  (void)times;
  (void)room;
  return ett_err_set(err, ETT_ERR_MISSING,
                     "this ett was built without CUPTI; install its headers and rebuild");
}

#else

/* CUPTI calls back on its own thread without a user pointer. The receiver is therefore a
 * variable of this file, protected by a lock and set during one profile. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
  const ett_cuda_cupti *cupti;
  ett_cuda_kernel_time *times;
  uint64_t *starts;
  int count, room;
} receiver;

enum { BUFFER_BYTES = 1 << 20 };

static void CUPTIAPI request(uint8_t **buffer, size_t *bytes, size_t *records) {
  *buffer = aligned_alloc(8, BUFFER_BYTES);
  *bytes = *buffer ? BUFFER_BYTES : 0;
  *records = 0;
}

/* CUPTI gives a record without times 0 for both. */
static void receive(const CUpti_ActivityKernel9 *kernel) {
  pthread_mutex_lock(&lock);
  if (receiver.times && kernel->end > kernel->start) {
    if (receiver.count < receiver.room) {
      ett_cuda_kernel_time *slot = &receiver.times[receiver.count];
      memset(slot, 0, sizeof *slot);
      strncpy(slot->name, kernel->name ? kernel->name : "?", sizeof slot->name - 1);
      slot->seconds = 1e-9 * (double)(kernel->end - kernel->start);
      receiver.starts[receiver.count] = kernel->start;
    }
    receiver.count++;
  }
  pthread_mutex_unlock(&lock);
}

static void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t *buffer,
                              size_t bytes, size_t valid) {
  (void)context;
  (void)stream;
  (void)bytes;
  CUpti_Activity *record = NULL;
  while (receiver.cupti && receiver.cupti->cuptiActivityGetNextRecord(
                               buffer, valid, &record) == CUPTI_SUCCESS)
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
      receive((const CUpti_ActivityKernel9 *)record);
  free(buffer);
}

/* Insertion sort by start: a work list has a handful of kernels. */
static void sort_by_start(ett_cuda_kernel_time *times, uint64_t *starts, int count) {
  for (int i = 1; i < count; i++)
    for (int j = i; j > 0 && starts[j] < starts[j - 1]; j--) {
      ett_cuda_kernel_time time = times[j];
      uint64_t start = starts[j];
      times[j] = times[j - 1];
      starts[j] = starts[j - 1];
      times[j - 1] = time;
      starts[j - 1] = start;
    }
}

static int cupti_fail(const ett_cuda_cupti *cupti, CUptiResult status, ett_err *err) {
  const char *text = NULL;
  cupti->cuptiGetResultString(status, &text);
  return ett_err_set(
      err, ETT_ERR_IO,
      "CUPTI: %s (profiling may need administrator rights on this machine)",
      text ? text : "unknown error");
}

int ett_cuda_profile(ett_cuda_work *work, double time_limit_seconds,
                     ett_cuda_kernel_time *times, int room, ett_err *err) {
  const ett_cuda_cupti *cupti = ett_cuda_cupti_open(err);
  if (!cupti)
    return -1;
  uint64_t *starts = calloc((size_t)room + 1, sizeof *starts);
  if (!starts)
    return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory to profile");
  pthread_mutex_lock(&lock);
  receiver.cupti = cupti;
  receiver.times = times;
  receiver.starts = starts;
  receiver.count = 0;
  receiver.room = room;
  pthread_mutex_unlock(&lock);
  CUptiResult status = cupti->cuptiActivityRegisterCallbacks(request, complete);
  if (status == CUPTI_SUCCESS)
    status = cupti->cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  int result = 0;
  if (status == CUPTI_SUCCESS) {
    double seconds;
    /* Launches one by one: CUPTI may not see the kernels of a graph that was made
     * before it was enabled. */
    CUgraphExec graph = work->executable;
    work->executable = NULL;
    result = ett_cuda_work_time(work, 1, 0, time_limit_seconds, &seconds, err);
    work->executable = graph;
    status = cupti->cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    cupti->cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  }
  if (result == 0 && status != CUPTI_SUCCESS)
    result = cupti_fail(cupti, status, err);
  pthread_mutex_lock(&lock);
  int count = receiver.count;
  receiver.times = NULL;
  pthread_mutex_unlock(&lock);
  if (result == 0)
    sort_by_start(times, starts, count < room ? count : room);
  free(starts);
  return result == 0 ? count : -1;
}

#endif
