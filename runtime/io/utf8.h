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

/* The code and the length of the first character of text[0 .. length), length > 0, if it
 * is a control character or invisible; 0 for a visible one, a space and what is not
 * UTF-8. */
size_t ett_utf8_hidden(const char *text, size_t length, uint32_t *code);

enum { ETT_UTF8_PLAIN_SIZE = 9 };

/* The next character of text[0 .. length), length > 0, as a terminal may show it: control
 * characters other than tab and newline, and bytes that are not UTF-8, as \xNN; invisible
 * characters, such as marks that reverse a text, as \u{N}. Writes 1 to
 * ETT_UTF8_PLAIN_SIZE bytes to out, at most 4 for each byte read, and adds their number
 * to *written. Returns the number of bytes read. */
size_t ett_utf8_plain(const char *text, size_t length, char *out, size_t *written);

/* Line and column of data[offset], both from 1; columns count bytes. */
typedef struct {
  size_t line, column;
} ett_place;

ett_place ett_place_of(const char *data, size_t offset);

#endif
