/* CUPTI of the stand-in: one buffer of kernel records, handed over at a flush. */
#include <stdlib.h>
#include <string.h>

#include <cupti.h>

#include "stand_in.h"

static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static int enabled;
static struct {
  char name[128];
  uint64_t start, end;
} kept[512];
static int kept_count;

static void listen(const char *name, uint64_t start, uint64_t end) {
  if (!enabled || name[0] == '[' || kept_count == (int)(sizeof kept / sizeof *kept))
    return;
  strncpy(kept[kept_count].name, name, sizeof kept[0].name - 1);
  kept[kept_count].start = start;
  kept[kept_count++].end = end;
}

CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r,
                                                    CUpti_BuffersCallbackCompleteFunc c) {
  if (!r || !c)
    return CUPTI_ERROR_INVALID_PARAMETER;
  request = r;
  complete = c;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
    ett_stand_in_abort("cuptiActivityEnable: kind %d is not known here", kind);
  const char *refuses = getenv("ETT_GPU_NO_CUPTI");
  if (refuses && strcmp(refuses, "flush") != 0)
    return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  enabled = 1;
  kept_count = 0;
  ett_stand_in_listen(listen);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
  (void)kind;
  enabled = 0;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t flag) {
  uint8_t *buffer = NULL;
  size_t bytes = 0, most = 0;
  (void)flag;
  const char *refuses = getenv("ETT_GPU_NO_CUPTI");
  if (refuses && strcmp(refuses, "flush") == 0)
    return CUPTI_ERROR_INVALID_OPERATION;
  if (kept_count == 0 || !request)
    return CUPTI_SUCCESS;
  request(&buffer, &bytes, &most);
  if (!buffer)
    return CUPTI_SUCCESS;
  if ((uintptr_t)buffer % 8)
    ett_stand_in_abort("CUPTI: a buffer must be aligned to 8 bytes");
  CUpti_ActivityKernel10 *records = (CUpti_ActivityKernel10 *)buffer;
  int count = 0;
  /* Records come in the order in which they were completed in hardware queues: not
   * sorted. */
  for (int i = kept_count - 1; i >= 0 && (size_t)(count + 1) * sizeof *records <= bytes;
       i--) {
    memset(&records[count], 0, sizeof records[count]);
    records[count].kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    records[count].start = kept[i].start;
    records[count].end = kept[i].end;
    records[count++].name = kept[i].name;
  }
  /* "A value of 0 for both the start and end timestamps indicates that timestamp
   * information could not be collected for the kernel." */
  if ((size_t)(count + 1) * sizeof *records <= bytes) {
    records[count] = records[0];
    records[count].start = records[count].end = 0;
    count++;
  }
  complete(NULL, 0, buffer, bytes, (size_t)count * sizeof *records);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid,
                                                CUpti_Activity **record) {
  uint8_t *next = *record ? (uint8_t *)*record + sizeof(CUpti_ActivityKernel10) : buffer;
  if (next >= buffer + valid)
    return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = (CUpti_Activity *)next;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult status, const char **text) {
  *text = status == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
              ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
              : "CUPTI_ERROR_UNKNOWN";
  return CUPTI_SUCCESS;
}
