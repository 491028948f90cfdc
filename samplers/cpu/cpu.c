#include "samplers/cpu/cpu.h"

#include <string.h>

#define DECLARE(isa)                                                                     \
  extern const ett_cpu_kind ett_cpu_point_##isa[], ett_cpu_rows_##isa[],                 \
      ett_cpu_matrix_##isa[];                                                            \
  static const ett_cpu_kind *const tables_##isa[] = {                                    \
      ett_cpu_matrix_##isa, ett_cpu_rows_##isa, ett_cpu_point_##isa, NULL};

DECLARE(base)
#ifdef ETT_CPU_X86
DECLARE(v3)
DECLARE(v4)
#endif

static const ett_cpu_kind *const *tables(const char **isa) {
#ifdef ETT_CPU_X86
  __builtin_cpu_init();
  const int v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                 __builtin_cpu_supports("bmi2");
  const int v4 = v3 && __builtin_cpu_supports("avx512f") &&
                 __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (v4) {
    *isa = "x86-64-v4";
    return tables_v4;
  }
  if (v3) {
    *isa = "x86-64-v3";
    return tables_v3;
  }
#endif
  *isa = "baseline";
  return tables_base;
}

const char *ett_cpu_isa(void) {
  const char *isa;
  tables(&isa);
  return isa;
}

const ett_cpu_kind *ett_cpu_find(const char *name) {
  const ett_cpu_kind *kind;
  for (size_t i = 0; (kind = ett_cpu_kind_at(i)); i++)
    if (strcmp(kind->name, name) == 0)
      break;
  return kind;
}

const ett_cpu_kind *ett_cpu_kind_at(size_t index) {
  const char *isa;
  for (const ett_cpu_kind *const *table = tables(&isa); *table; table++)
    for (const ett_cpu_kind *kind = *table; kind->name; kind++)
      if (index-- == 0)
        return kind;
  return NULL;
}

static int listed_operands(const ett_cpu_shape *shape, const int64_t *d,
                           ett_cpu_operand *out) {
  int n = 0;
  for (; shape->name; shape++, n++) {
    out[n] = (ett_cpu_operand){shape->name, shape->role, 1, 0, 0};
    for (const char *s = shape->size; *s; s++)
      out[n].count *= *s >= 'a' ? d[*s - 'a'] : *s - '0';
  }
  return n;
}

int ett_cpu_operands(const ett_cpu_kind *kind, const int64_t *d, ett_cpu_pass pass,
                     ett_cpu_operand *out, ett_err *err) {
  /* An operand has at most four times the product of dimensions, which fits 64 bits below
   * this limit. */
  const double largest_product = 1e18, largest = 1e15;
  double product = 1;
  for (int i = 0; kind->dims[i]; i++) {
    if (d[i] < 1)
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "%s: dimension '%s' must be a positive integer, got %lld",
                         kind->name, kind->dims[i], (long long)d[i]);
    product *= (double)d[i];
    if ((double)d[i] > 2147483647.0)
      return ett_err_set(err, ETT_ERR_LIMIT,
                         "%s: dimension '%s' must be below 2^31 for the BLAS, got %lld",
                         kind->name, kind->dims[i], (long long)d[i]);
  }
  if (product > largest_product)
    return ett_err_set(
        err, ETT_ERR_LIMIT,
        "%s: the product of the dimensions is %.3g, at most %.3g is supported",
        kind->name, product, largest_product);
  int n = kind->operands            ? kind->operands(d, pass, out)
          : pass == ETT_CPU_FORWARD ? listed_operands(kind->forward, d, out)
                                    : listed_operands(kind->backward, d, out);
  for (int i = 0; i < n; i++)
    if (out[i].count < 1 || (double)out[i].count > largest)
      return ett_err_set(err, ETT_ERR_LIMIT,
                         "%s: operand '%s' has more than %.3g elements", kind->name,
                         out[i].name, largest);
  return n;
}

int ett_cpu_check_index(const ett_cpu_kind *kind, const ett_cpu_operand *operand,
                        const void *data, ett_err *err) {
  const int32_t *index = data;
  for (int64_t i = 0; operand->role == ETT_CPU_INDEX && i < operand->count; i++)
    if (index[i] < 0 || index[i] >= operand->limit)
      return ett_err_set(err, ETT_ERR_ARGUMENT,
                         "%s: operand '%s' holds index %d, must be 0 to %lld", kind->name,
                         operand->name, (int)index[i], (long long)operand->limit - 1);
  return 0;
}
