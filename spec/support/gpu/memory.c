/* The memory of the stand-in: allocations, copies, and copies between devices. */
#include <string.h>
#include <sys/mman.h>

#include "driver.h"

enum { GUARD_BYTES = 4096, GUARD = 77 };

/* The bytes behind an allocation, which no kernel may write. */
static void check_guard(const allocation *a) {
  const unsigned char *memory = (const unsigned char *)a->address;
  for (size_t i = a->bytes; i < a->mapped; i++)
    if (memory[i] != GUARD)
      ett_stand_in_abort("an allocation of %zu bytes was written past its end", a->bytes);
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *address, size_t bytes) {
  ENTER("cuMemAlloc");
  ett_stand_in_state *s = ett_stand_in();
  if (bytes == 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (ett_stand_in_forbid_capture())
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  s->allocations_made++;
  if (s->allocation_fails && s->allocations_made >= s->allocation_fails)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (bytes > s->memory - s->used)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (s->allocation_count == MAX_ALLOCATIONS)
    ett_stand_in_abort("more than %d allocations at once: a leak", MAX_ALLOCATIONS);
  size_t mapped = (bytes + 2 * GUARD_BYTES - 1) / GUARD_BYTES * GUARD_BYTES;
  char *memory = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  memset(memory + bytes, GUARD, mapped - bytes);
  allocation *a = &s->allocations[s->allocation_count++];
  a->address = (CUdeviceptr)memory;
  a->bytes = bytes;
  a->mapped = mapped;
  a->context = ett_stand_in_context();
  s->used += bytes;
  s->peak = s->used > s->peak ? s->used : s->peak;
  *address = a->address;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr address) {
  ENTER("cuMemFree");
  ett_stand_in_state *s = ett_stand_in();
  ett_stand_in_must_end("cuMemFree");
  if (ett_stand_in_forbid_capture())
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  for (int i = 0; i < s->allocation_count; i++)
    if (s->allocations[i].address == address) {
      check_guard(&s->allocations[i]);
      munmap((void *)address, s->allocations[i].mapped);
      s->used -= s->allocations[i].bytes;
      s->allocations[i] = s->allocations[--s->allocation_count];
      return CUDA_SUCCESS;
    }
  ett_stand_in_abort("cuMemFree of %#llx, which is no allocation (freed twice?)",
                     address);
}

/* The live allocation that contains [address, address + bytes), or NULL. */
static const allocation *holder(CUdeviceptr address, size_t bytes) {
  const ett_stand_in_state *s = ett_stand_in();
  for (int i = 0; i < s->allocation_count; i++) {
    const allocation *a = &s->allocations[i];
    if (address >= a->address && address - a->address <= a->bytes &&
        bytes <= a->bytes - (address - a->address))
      return a;
  }
  return NULL;
}

int ett_stand_in_holds(CUdeviceptr address, size_t bytes) {
  return holder(address, bytes) != NULL;
}

static int held_by(CUdeviceptr address, size_t bytes, CUcontext context) {
  const allocation *a = holder(address, bytes);
  return a && a->context == context;
}

CUresult CUDAAPI cuMemGetInfo(size_t *available, size_t *total) {
  ENTER("cuMemGetInfo");
  ett_stand_in_state *s = ett_stand_in();
  *available = s->memory - s->used;
  *total = s->memory;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
  ENTER("cuMemcpyHtoD");
  ett_stand_in_must_end("cuMemcpyHtoD");
  if (!ett_stand_in_holds(to, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  memcpy((void *)to, from, bytes);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
  ENTER("cuMemcpyDtoH");
  ett_stand_in_must_end("cuMemcpyDtoH");
  if (!ett_stand_in_holds(from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  memcpy(to, (const void *)from, bytes);
  return CUDA_SUCCESS;
}

typedef struct set_data {
  CUdeviceptr address;
  size_t bytes;
  unsigned char value;
} set_data;

static void run_set(void *data) {
  const set_data *s = data;
  /* Large ones are cache flushes, which are never read. */
  if (s->bytes <= (size_t)1 << 20)
    memset((void *)s->address, s->value, s->bytes);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes,
                                 CUstream stream) {
  ENTER("cuMemsetD8Async");
  if (!ett_stand_in_holds(address, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  set_data data = {address, bytes, value};
  ett_stand_in_work work = {"[memset]", 1e-6 + (double)bytes / 2e12, run_set, &data,
                            sizeof data};
  return ett_stand_in_enqueue(stream, &work);
}

/* Over the link if access is enabled, else through the host at an eighth of the rate. */
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                                   CUcontext from_context, size_t bytes,
                                   CUstream stream) {
  ENTER("cuMemcpyPeerAsync");
  if (!to_context || !from_context || !to_context->references ||
      !from_context->references)
    return CUDA_ERROR_INVALID_CONTEXT;
  if (!held_by(to, bytes, to_context) || !held_by(from, bytes, from_context))
    return CUDA_ERROR_INVALID_VALUE;
  if (to_context->died != CUDA_SUCCESS || from_context->died != CUDA_SUCCESS)
    return to_context->died != CUDA_SUCCESS ? to_context->died : from_context->died;
  CUcontext current = ett_stand_in_context();
  CUcontext other = current == from_context ? to_context : from_context;
  double rate = current->peers >> other->ordinal & 1 ? 4e11 : 5e10;
  ett_stand_in_work work = {"[memcpy peer]", 2e-6 + (double)bytes / rate, NULL, NULL, 0};
  return ett_stand_in_enqueue(stream, &work);
}
