/* Prepares a JSON text for lua-cjson.
 *
 * lua-cjson reads every number as a double and every empty list as an empty table. It
 * accepts 1e999, control characters and text that is not UTF-8. ett_json_prepare refuses
 * these. It rewrites values whose kind would be lost as strings that begin with
 * ETT_JSON_KEPT, a byte that no UTF-8 text contains:
 *
 *     [9007199254740993, 2.0, []]   ->   ["\xFF" "9007199254740993", "\xFF" "2.0",
 * ["\xFF"]]
 */
#ifndef ETT_IO_JSON_PREPARE_H
#define ETT_IO_JSON_PREPARE_H

#include <stddef.h>

#include "base/err.h"

#define ETT_JSON_KEPT '\xFF'

/* Writes the prepared text to out, or only measures it when out is NULL. *written is its
 * length; equal lengths mean equal texts. Faults begin with "LINE:COLUMN: ". The grammar
 * is not checked: lua-cjson does that. Returns 0 or -1. */
int ett_json_prepare(const char *text, size_t length, char *out, size_t *written,
                     ett_err *err);

#endif
