/* Streams, events and graphs of the stand-in: device time beside the host's clock. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver.h"

typedef struct graph {
  object base;
  ett_stand_in_work *works;
  int count, room;
} graph;

struct CUstream_st {
  object base;
  double end; /* time at which the enqueued work ends */
  graph *capture;
  int spoilt;
};

struct CUevent_st {
  object base;
  int recorded;
  double time;
};

static CUstream streams[16]; /* those alive */
static ett_stand_in_listener *listener;
static void *live[4096];
static int live_count;

static double now(void) {
  static double origin;
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  double seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
  if (origin == 0)
    origin = seconds;
  return seconds - origin;
}

/* --- handles -------------------------------------------------------------------- */

void *ett_stand_in_make(int kind, size_t bytes) {
  object *made = calloc(1, bytes);
  if (!made)
    return NULL;
  if (live_count == (int)(sizeof live / sizeof *live))
    ett_stand_in_abort("more than %d handles at once: a leak", live_count);
  made->kind = kind;
  made->context = ett_stand_in_context();
  made->context->objects++;
  ett_stand_in()->objects++;
  live[live_count++] = made;
  return made;
}

static int find(const void *handle) {
  for (int i = 0; i < live_count; i++)
    if (live[i] == handle)
      return i;
  return -1;
}

void ett_stand_in_check(const void *handle, int kind, const char *name) {
  if (find(handle) < 0 || ((const object *)handle)->kind != (unsigned)kind)
    ett_stand_in_abort("%s: %p is no living handle of its kind", name, handle);
}

void ett_stand_in_destroy(void *handle, int kind, const char *name) {
  ett_stand_in_check(handle, kind, name);
  ((object *)handle)->context->objects--;
  ett_stand_in()->objects--;
  live[find(handle)] = live[live_count - 1];
  live_count--;
  free(handle);
}

/* --- streams -------------------------------------------------------------------- */

void ett_stand_in_must_end(const char *name) {
  for (int i = 0; i < 16; i++)
    if (streams[i] && isinf(streams[i]->end))
      ett_stand_in_abort("%s would never return: a kernel that never ends is running",
                         name);
}

int ett_stand_in_forbid_capture(void) {
  int any = 0;
  for (int i = 0; i < 16; i++)
    if (streams[i] && streams[i]->capture) {
      streams[i]->spoilt = 1;
      any = 1;
    }
  return any;
}

CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags) {
  ENTER("cuStreamCreate");
  if (flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  CUstream made = ett_stand_in_make(STREAM, sizeof *made);
  if (!made)
    return CUDA_ERROR_OUT_OF_MEMORY;
  for (int i = 0; i < 16; i++)
    if (!streams[i]) {
      streams[i] = made;
      break;
    }
  *stream = made;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
  ENTER("cuStreamDestroy");
  ett_stand_in_check(stream, STREAM, "cuStreamDestroy");
  for (int i = 0; i < 16; i++)
    if (streams[i] == stream)
      streams[i] = NULL;
  ett_stand_in_destroy(stream, STREAM, "cuStreamDestroy");
  return CUDA_SUCCESS;
}

/* A call that a capture forbids; after the first one the capture is invalid. */
static CUresult spoil(CUstream stream) {
  const int before = stream->spoilt;
  stream->spoilt = 1;
  return before ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult CUDAAPI cuStreamQuery(CUstream stream) {
  ENTER("cuStreamQuery");
  ett_stand_in_check(stream, STREAM, "cuStreamQuery");
  if (stream->capture)
    return spoil(stream);
  return now() < stream->end ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

void ett_stand_in_listen(ett_stand_in_listener *l) {
  listener = l;
}

static void execute(CUstream stream, const ett_stand_in_work *work) {
  double start = now() + 2e-6; /* the way to the device */
  start = start > stream->end ? start : stream->end;
  stream->end = start + work->seconds;
  if (work->run)
    work->run(work->data);
  if (listener && !isinf(stream->end))
    listener(work->name, (uint64_t)(start * 1e9), (uint64_t)(stream->end * 1e9));
}

CUresult ett_stand_in_enqueue(CUstream stream, const ett_stand_in_work *work) {
  ett_stand_in_check(stream, STREAM, work->name);
  if (!stream->capture) {
    execute(stream, work);
    return CUDA_SUCCESS;
  }
  if (stream->spoilt || getenv("ETT_GPU_NO_CAPTURE"))
    return spoil(stream);
  graph *g = stream->capture;
  if (g->count == g->room) {
    g->room = g->room ? 2 * g->room : 8;
    g->works = realloc(g->works, (size_t)g->room * sizeof *g->works);
  }
  g->works[g->count] = *work;
  g->works[g->count].data = NULL;
  if (work->data) {
    g->works[g->count].data = malloc(work->data_bytes);
    memcpy(g->works[g->count].data, work->data, work->data_bytes);
  }
  g->count++;
  return CUDA_SUCCESS;
}

/* --- graphs --------------------------------------------------------------------- */

static graph *new_graph(int kind) {
  return ett_stand_in_make(kind, sizeof(graph));
}

static void free_graph(void *handle, int kind, const char *name) {
  ett_stand_in_check(handle, kind, name);
  graph *g = handle;
  for (int i = 0; i < g->count; i++)
    free(g->works[i].data);
  free(g->works);
  ett_stand_in_destroy(g, kind, name);
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  ENTER("cuStreamBeginCapture");
  ett_stand_in_check(stream, STREAM, "cuStreamBeginCapture");
  if (stream->capture || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = new_graph(GRAPH);
  stream->spoilt = 0;
  return stream->capture ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *made) {
  ENTER("cuStreamEndCapture");
  ett_stand_in_check(stream, STREAM, "cuStreamEndCapture");
  if (!stream->capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  graph *g = stream->capture;
  stream->capture = NULL;
  if (stream->spoilt) {
    free_graph(g, GRAPH, "cuStreamEndCapture");
    *made = NULL;
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  *made = (CUgraph)g;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph from,
                                             unsigned long long flags) {
  ENTER("cuGraphInstantiateWithFlags");
  ett_stand_in_check(from, GRAPH, "cuGraphInstantiateWithFlags");
  if (flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const graph *source = (const graph *)from;
  graph *g = new_graph(EXECUTABLE);
  if (!g)
    return CUDA_ERROR_OUT_OF_MEMORY;
  g->works = calloc((size_t)source->count + 1, sizeof *g->works);
  for (int i = 0; i < source->count; i++) {
    g->works[i] = source->works[i];
    if (source->works[i].data) {
      g->works[i].data = malloc(source->works[i].data_bytes);
      memcpy(g->works[i].data, source->works[i].data, source->works[i].data_bytes);
    }
  }
  g->count = g->room = source->count;
  *made = (CUgraphExec)g;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  ENTER("cuGraphLaunch");
  ett_stand_in_check(executable, EXECUTABLE, "cuGraphLaunch");
  ett_stand_in_check(stream, STREAM, "cuGraphLaunch");
  const graph *g = (const graph *)executable;
  for (int i = 0; i < g->count; i++)
    ett_stand_in_enqueue(stream, &g->works[i]);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec executable) {
  ENTER("cuGraphExecDestroy");
  free_graph(executable, EXECUTABLE, "cuGraphExecDestroy");
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph g) {
  ENTER("cuGraphDestroy");
  free_graph(g, GRAPH, "cuGraphDestroy");
  return CUDA_SUCCESS;
}

/* --- events --------------------------------------------------------------------- */

CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned int flags) {
  ENTER("cuEventCreate");
  if (flags & ~7u)
    return CUDA_ERROR_INVALID_VALUE;
  *event = ett_stand_in_make(EVENT, sizeof **event);
  return *event ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) {
  ENTER("cuEventRecord");
  ett_stand_in_check(event, EVENT, "cuEventRecord");
  ett_stand_in_check(stream, STREAM, "cuEventRecord");
  double start = now();
  event->time = stream->end > start ? stream->end : start;
  event->recorded = stream->capture ? 0 : 1;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventElapsedTime(float *milliseconds, CUevent start, CUevent stop) {
  ENTER("cuEventElapsedTime");
  ett_stand_in_check(start, EVENT, "cuEventElapsedTime");
  ett_stand_in_check(stop, EVENT, "cuEventElapsedTime");
  if (!start->recorded || !stop->recorded)
    return CUDA_ERROR_INVALID_HANDLE;
  if (now() < start->time || now() < stop->time)
    return CUDA_ERROR_NOT_READY;
  /* The documentation promises a resolution of about half a microsecond. */
  double ticks = floor(stop->time / 5e-7) - floor(start->time / 5e-7);
  *milliseconds = (float)(ticks * 5e-4);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent event) {
  ENTER("cuEventDestroy");
  ett_stand_in_destroy(event, EVENT, "cuEventDestroy");
  return CUDA_SUCCESS;
}
