/* numbers.h - elements of the data types of CUDA's libraries as doubles. */
#ifndef ETT_STAND_IN_NUMBERS_H
#define ETT_STAND_IN_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <library_types.h>

static inline size_t ett_stand_in_bytes(cudaDataType_t type) {
  return type == CUDA_R_32F ? 4 : type == CUDA_R_8F_E4M3 ? 1 : 2;
}

static inline double ett_stand_in_small(unsigned bits, int exponent_bits,
                                        int fraction_bits, int bias) {
  unsigned exponent = bits >> fraction_bits & ((1u << exponent_bits) - 1);
  unsigned fraction = bits & ((1u << fraction_bits) - 1);
  double value =
      exponent ? ldexp(1.0 + fraction * ldexp(1, -fraction_bits), (int)exponent - bias)
               : ldexp(fraction, 1 - bias - fraction_bits);
  return bits >> (exponent_bits + fraction_bits) & 1 ? -value : value;
}

static inline double ett_stand_in_get(const char *data, size_t i, cudaDataType_t type) {
  uint16_t half;
  uint32_t bits;
  float f;
  switch ((int)type) {
  case CUDA_R_32F:
    memcpy(&f, data + 4 * i, 4);
    return f;
  case CUDA_R_16BF:
    memcpy(&half, data + 2 * i, 2);
    bits = (uint32_t)half << 16;
    memcpy(&f, &bits, 4);
    return f;
  case CUDA_R_16F:
    memcpy(&half, data + 2 * i, 2);
    return ett_stand_in_small(half, 5, 10, 15);
  default:
    return ett_stand_in_small((unsigned char)data[i], 4, 3, 7);
  }
}

static inline void ett_stand_in_put(char *data, size_t i, cudaDataType_t type,
                                    double value) {
  float f = (float)value;
  uint32_t bits;
  uint16_t half;
  memcpy(&bits, &f, 4);
  switch ((int)type) {
  case CUDA_R_32F:
    memcpy(data + 4 * i, &f, 4);
    return;
  case CUDA_R_16BF:
    half = (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    break;
  default: { /* CUDA_R_16F, normal numbers */
    int exponent;
    double fraction = frexp(fabs(value), &exponent); /* 0.5 to 1 */
    long steps = lrint(ldexp(fraction, exponent > -14 ? 11 : exponent + 25));
    half = value == 0 ? 0
           : exponent > -14
               ? (uint16_t)(((unsigned)(exponent + 14) << 10) + (unsigned)(steps - 1024))
               : (uint16_t)steps;
    half |= value < 0 ? 0x8000 : 0;
  }
  }
  memcpy(data + 2 * i, &half, 2);
}

#endif
