/* XGBoost's models as compiled trees, through the text that the library prints of them.
 */
#ifndef ETT_REGRESS_DUMP_H
#define ETT_REGRESS_DUMP_H

#include "regress/serve/forest.h"

/* Reads the texts of XGBoosterDumpModelEx (format "text", no feature map; numbers have
 * the nine digits that restore a float). Each tree is stored in breadth-first order, so
 * that siblings are adjacent. Returns 0 or -1 with *forest empty. */
int ett_forest_from_dump(const char *const *trees, size_t count, uint32_t features,
                         double base_score, ett_forest *forest, ett_err *err);

#endif
