/* A model as text: what a cluster's coefficient files hold.
 *
 * Twins are left out, thresholds keep 16 bits of mantissa and leaves 16 bits of the
 * forest's largest, nodes follow in preorder without pointers, and all of it is base64.
 */
#ifndef ETT_REGRESS_COMPACT_H
#define ETT_REGRESS_COMPACT_H

#include <stddef.h>

#include "regress/serve/model.h"

/* Writes a model as NUL-terminated base64 that the caller frees. Returns 0 or -1. */
int ett_model_to_text(const ett_model *model, char **text, size_t *length, ett_err *err);

/* Reads such text; space and line ends are skipped. The text is untrusted: every count is
 * checked, and the model goes through ett_model_open. Returns 0 or -1. */
int ett_model_from_text(const char *text, size_t length, ett_model *model, ett_err *err);

#endif
