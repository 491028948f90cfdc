/* deflate.h - data that a page embeds: deflated (RFC 1951), then base64 (RFC 4648), which
 * a browser's atob and DecompressionStream("deflate-raw") undo. */
#ifndef ETT_PACK_DEFLATE_H
#define ETT_PACK_DEFLATE_H

#include <stddef.h>

#include "base/err.h"

/* Returns the text of size bytes, with its length in *length; the caller frees it. NULL
 * on failure. */
char *ett_pack_deflate(const void *bytes, size_t size, size_t *length, ett_err *err);

#endif
