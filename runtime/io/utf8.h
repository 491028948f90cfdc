/* UTF-8 validation. It precedes every reader, so an error names the byte. */
#ifndef ETT_IO_UTF8_H
#define ETT_IO_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length of the longest prefix of data[0 .. length) that is UTF-8 (RFC 3629: no overlong
 * forms, no surrogates, nothing above U+10FFFF). Equal to length when all of it is. */
size_t ett_utf8_valid_prefix(const char *data, size_t length);

/* Writes the UTF-8 form of code (<= 0x10FFFF) and returns its length, 1 to 4. */
size_t ett_utf8_encode(uint32_t code, char out[4]);

/* Line and column of data[offset], both from 1; columns count bytes. */
typedef struct {
  size_t line, column;
} ett_place;

ett_place ett_place_of(const char *data, size_t offset);

#endif
