/* Shared by the files of kinds: operands, and scalar helpers that the compiler can
 * vectorise in the calling loops. */
#ifndef ETT_CPU_VEC_H
#define ETT_CPU_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "samplers/cpu/cpu.h"

#ifndef ETT_CPU_ISA
#define ETT_CPU_ISA base
#endif
#define ETT_CPU_PASTE2(a, b) a##_##b
#define ETT_CPU_PASTE(a, b) ETT_CPU_PASTE2(a, b)
#define ETT_CPU_NAMED(name) ETT_CPU_PASTE(name, ETT_CPU_ISA)

/* e^x, relative error below 2e-7 on [-87, 88], clamped outside: 2^n by the exponent
 * bits and a degree-6 polynomial on [-ln2/2, ln2/2] (Cody and Waite reduction). */
static inline float ett_expf(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  /* Truncation, because -fassociative-math removes the "add 1.5 * 2^23" rounding
   * trick. */
  int32_t whole = (int32_t)(x * 1.44269504089f + (x > 0 ? 0.5f : -0.5f));
  float n = (float)whole;
  float r = x - n * 0.693145751953125f;
  r -= n * 1.428606765330187e-6f;
  float p = 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  int32_t bits = (whole + 127) << 23;
  float scale;
  memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

static inline float ett_sigmoidf(float x) {
  return 1.0f / (1.0f + ett_expf(-x));
}

static inline float ett_tanhf(float x) {
  return 2.0f * ett_sigmoidf(2.0f * x) - 1.0f;
}

/* Softmax of the first `open` entries of a row; the other entries become 0. y may be x.
 */
static inline void softmax_row(const float *x, float *y, int64_t open, int64_t cols,
                               float scale) {
  float top = -3.4e38f, sum = 0;
  for (int64_t i = 0; i < open; i++)
    top = x[i] > top ? x[i] : top;
#pragma GCC ivdep
  for (int64_t i = 0; i < open; i++) {
    y[i] = ett_expf(scale * (x[i] - top));
    sum += y[i];
  }
  const float inverse = 1.0f / sum;
  for (int64_t i = 0; i < open; i++)
    y[i] *= inverse;
  for (int64_t i = open; i < cols; i++)
    y[i] = 0;
}

/* Entries of a table of kinds: operands computed by a function; listed for each pass; or
 * alike in both passes. */
#define COMPUTED(kind, ...)                                                              \
  { #kind, {__VA_ARGS__, NULL }, kind##_operands, NULL, NULL, kind##_run, 0 }
#define LISTED(kind, ...)                                                                \
  { #kind, {__VA_ARGS__, NULL }, NULL, kind##_forward, kind##_backward, kind##_run, 0 }
#define ALIKE(kind, waits, ...)                                                          \
  { #kind, {__VA_ARGS__, NULL }, NULL, kind##_both, kind##_both, kind##_run, waits }

/* The operands of a pass of a LISTED or ALIKE kind. */
#define SHAPES(name, ...)                                                                \
  static const ett_cpu_shape name[] = {__VA_ARGS__, {NULL, 0, NULL}}
#define IN(name, size)                                                                   \
  { name, ETT_CPU_INPUT, size }
#define OUT(name, size)                                                                  \
  { name, ETT_CPU_OUTPUT, size }
#define UPDATED(name, size)                                                              \
  { name, ETT_CPU_UPDATED, size }
#define POSITIVE(name, size)                                                             \
  { name, ETT_CPU_POSITIVE, size }

static inline ett_cpu_operand operand(const char *name, ett_cpu_role role,
                                      int64_t count) {
  return (ett_cpu_operand){name, role, count, 0, 0};
}

#endif
