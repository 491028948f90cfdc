// cuda_host.h - runs CUDA C on the host, for checking kernels where there is no device.
//
// Each thread of a block is a fiber. __syncthreads() waits for the block and
// __shfl_xor_sync() for the warp, as on a device; a block whose threads wait at different
// places is reported. Blocks run one after another, so atomics are plain operations.
// A fiber starts once with makecontext() and then runs one thread of each block. Switches
// use _setjmp() and _longjmp(), because swapcontext() makes two system calls.
#undef _FORTIFY_SOURCE // its longjmp refuses another stack
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <utility>

#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline

struct dim3 {
  unsigned x, y, z;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

enum wait_state { READY, AT_BLOCK, AT_WARP, DONE };
struct fiber {
  jmp_buf context;
  dim3 index;
  wait_state state;
  float value;
  char *stack;
};
static fiber fibers[1024];
static int fiber_count, current;
static jmp_buf scheduler;
static ucontext_t first_context;
static void (*body)(void *);
static void *body_argument;

static void wait_as(wait_state state) {
  fibers[current].state = state;
  if (_setjmp(fibers[current].context) == 0)
    _longjmp(scheduler, 1);
}
static void __syncthreads() {
  wait_as(AT_BLOCK);
}
static float __shfl_xor_sync(unsigned, float value, int lanes) {
  fibers[current].value = value;
  int partner = current / 32 * 32 + ((current % 32) ^ lanes);
  wait_as(AT_WARP);
  float theirs = partner < fiber_count ? fibers[partner].value : value;
  wait_as(AT_WARP); // nobody writes the next value before everybody has read this one
  return theirs;
}
template <class U> static U atomicAdd(U *p, U v) {
  U old = *p;
  *p += v;
  return old;
}
static unsigned atomicCAS(unsigned *p, unsigned expected, unsigned wanted) {
  unsigned old = *p;
  if (old == expected)
    *p = wanted;
  return old;
}
static unsigned __float_as_uint(float f) {
  unsigned u;
  memcpy(&u, &f, 4);
  return u;
}
static float __uint_as_float(unsigned u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}
static long long clock64() {
  return 0;
}
static float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}

static void enter() {
  for (;;) {
    body(body_argument);
    wait_as(DONE);
  }
}

// Gives a fiber its stack; switch_to() then begins enter().
static void create(fiber *f) {
  f->stack = (char *)malloc(1 << 16);
  getcontext(&first_context);
  first_context.uc_stack.ss_sp = f->stack;
  first_context.uc_stack.ss_size = 1 << 16;
  makecontext(&first_context, enter, 0);
}

// Runs fiber `current` until it waits.
static void switch_to(fiber *f) {
  bool is_new = !f->stack;
  if (is_new)
    create(f);
  if (_setjmp(scheduler) != 0)
    return;
  if (is_new)
    setcontext(&first_context);
  _longjmp(f->context, 1);
}

// True when every living fiber from first to last waits as `state`; sets *any.
static bool all_at(int first, int last, wait_state state, bool *any) {
  *any = false;
  for (int i = first; i < last; i++) {
    if (fibers[i].state == DONE)
      continue;
    if (fibers[i].state != state)
      return false;
    *any = true;
  }
  return true;
}
static void release(int first, int last) {
  for (int i = first; i < last; i++)
    if (fibers[i].state != DONE)
      fibers[i].state = READY;
}

static void run_block() {
  fiber_count = blockDim.x * blockDim.y * blockDim.z;
  for (int i = 0; i < fiber_count; i++) {
    fiber *f = &fibers[i];
    f->state = READY;
    f->index = {i % blockDim.x, i / blockDim.x % blockDim.y,
                i / (blockDim.x * blockDim.y)};
  }
  for (;;) {
    bool moved = false, any;
    for (current = 0; current < fiber_count; current++)
      if (fibers[current].state == READY) {
        threadIdx = fibers[current].index;
        moved = true;
        switch_to(&fibers[current]);
      }
    for (int w = 0; w < fiber_count; w += 32) {
      int end = w + 32 < fiber_count ? w + 32 : fiber_count;
      if (all_at(w, end, AT_WARP, &any) && any) {
        release(w, end);
        moved = true;
      }
    }
    if (all_at(0, fiber_count, AT_BLOCK, &any)) {
      if (!any)
        return;
      release(0, fiber_count);
      moved = true;
    }
    if (!moved) {
      fprintf(stderr, "the block can never go on: threads wait at different places\n");
      exit(3);
    }
  }
}

template <class F> static void run_grid(dim3 grid, dim3 block, F f) {
  gridDim = grid;
  blockDim = block;
  body = [](void *argument) { (*(F *)argument)(); };
  body_argument = &f;
  for (unsigned z = 0; z < grid.z; z++)
    for (unsigned y = 0; y < grid.y; y++)
      for (unsigned x = 0; x < grid.x; x++) {
        blockIdx = {x, y, z};
        run_block();
      }
}
