#include "regress/fit/work.h"

#include <math.h>
#include <string.h>

int ett_fit_gate(ett_work *w, const double *least, unsigned char *kinds, ett_err *err) {
  size_t n = w->rows;
  memset(kinds, ETT_OUTLIER_NONE, n);
  for (size_t i = 0; least && i < n; i++)
    if (w->seconds[i] < least[i])
      kinds[i] = ETT_OUTLIER_UNPHYSICAL;
  if (!w->config->gate || !w->config->log_target || n < 8)
    return 0;
  size_t kept = 0; /* exclude impossible rows before computing the median */
  for (size_t i = 0; i < n; i++)
    w->loo[i] = kinds[i] ? 0 : 1;
  if (ett_work_base(w, w->loo, err) != 0)
    return -1;
  for (size_t i = 0; i < n; i++)
    if (!kinds[i])
      w->scratch[kept++] = w->target[i];
  double middle = ett_work_quantile(w->scratch, kept, 0.5);
  for (size_t i = 0; i < kept; i++)
    w->scratch[i] = fabs(w->scratch[i] - middle);
  double spread = 1.4826 * ett_work_quantile(w->scratch, kept, 0.5);
  double limit = fmax(log(w->config->gate_ratio), 8 * spread);
  for (size_t from = 0, to; from < n; from = to) {
    to = ett_work_group_end(w, from);
    double twins = ett_work_group_median(w, from, to, w->scratch);
    for (size_t i = from; i < to && to - from >= 3; i++) {
      size_t row = w->order[i];
      double off = fabs(w->target[row] - twins);
      if (off > log(w->config->gate_ratio) && !kinds[row])
        kinds[row] = ETT_OUTLIER_TWINS;
    }
  }
  for (size_t i = 0; i < n; i++)
    if (fabs(w->target[i] - middle) > limit && !kinds[i])
      kinds[i] = ETT_OUTLIER_MODE;
  return 0;
}
