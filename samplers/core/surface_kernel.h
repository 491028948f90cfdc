/* What the files of a surface share: its parts and its kernel. */
#ifndef ETT_SAMPLE_SURFACE_KERNEL_H
#define ETT_SAMPLE_SURFACE_KERNEL_H

#include <math.h>

#include "samplers/core/surface.h"

enum { ETT_SAMPLE_MOST_WIDTH = 16 };

struct ett_sample_surface {
  size_t count, width;
  double *x;      /* count x width, scaled to unit spread */
  double *y;      /* centred */
  double *doubt;  /* factors of noise2 */
  double *factor; /* lower Cholesky factor of the kernel matrix */
  double *weight; /* inverse kernel matrix times y */
  double centre[ETT_SAMPLE_MOST_WIDTH], spread[ETT_SAMPLE_MOST_WIDTH];
  double length[ETT_SAMPLE_MOST_WIDTH];
  double mean, amplitude2, noise2;
  double rough, local; /* share and length of the rough part; rough is 0 without one */
};

/* Matern 3/2, and with a rough part exp(-distance / local) for its share: steps such as
 * those of tiles and waves, which a smooth kernel can only take for noise. */
static inline double ett_sample_surface_kernel(const ett_sample_surface *s,
                                               const double *a, const double *b) {
  double sum = 0, plain = 0;
  for (size_t d = 0; d < s->width; d++) {
    const double v = a[d] - b[d], u = v / s->length[d];
    sum += u * u;
    plain += v * v;
  }
  const double r = sqrt(3 * sum), smooth = (1 + r) * exp(-r);
  if (s->rough <= 0)
    return smooth;
  return (1 - s->rough) * smooth + s->rough * exp(-sqrt(plain) / s->local);
}

#endif
