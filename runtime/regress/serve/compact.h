/* A model as text, for the coefficient files of a cluster.
 *
 * The text is base64. It has no twins. A leaf is stored in 16 bits, as a fraction of
 * the forest's largest leaf. Thresholds are exact, because they are values of the rows.
 * Each feature has a list of its thresholds, and a node has the place of its threshold in
 * the list. The nodes of a tree are in preorder, without pointers. */
#ifndef ETT_REGRESS_COMPACT_H
#define ETT_REGRESS_COMPACT_H

#include <stddef.h>

#include "regress/serve/model.h"

/* Writes a model as NUL-terminated base64 that the caller frees. Returns 0 or -1. */
int ett_model_to_text(const ett_model *model, char **text, size_t *length, ett_err *err);

/* Reads such text; spaces and line ends are skipped. The text is untrusted: every count
 * is checked, and ett_model_adopt checks facts and coefficients. Returns 0 or -1. */
int ett_model_from_text(const char *text, size_t length, ett_model *model, ett_err *err);

#endif
