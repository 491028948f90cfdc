/* Numbers as text, independent of the locale.
 *
 * Reading distinguishes integers from floats, because dimensions are integers and times
 * are not. Writing gives the shortest of 15, 16 or 17 digits that reads back to the same
 * double. */
#ifndef ETT_IO_NUMBER_H
#define ETT_IO_NUMBER_H

#include <stddef.h>
#include <stdint.h>

typedef enum { ETT_NUMBER_NONE, ETT_NUMBER_INTEGER, ETT_NUMBER_FLOAT } ett_number_kind;

typedef struct {
  ett_number_kind kind;
  int64_t integer; /* set when kind is ETT_NUMBER_INTEGER */
  double number;   /* set for both kinds */
} ett_number;

/* Longest text that is read as a number. */
#define ETT_NUMBER_MAX_LENGTH 1000

/* Size of the buffer of ett_number_format, NUL included. */
#define ETT_NUMBER_FORMAT_SIZE 32

/* Reads the whole of text[0 .. length): [+-] digits [. digits] [e [+-] digits]. A side of
 * the point may be empty, not both. No spaces, hexadecimal, infinity or NaN. Digits alone
 * are an integer, unless they overflow 64 bits: then a float. Overflow of a float gives
 * infinity. */
ett_number ett_number_parse(const char *text, size_t length);

/* Writes value and a NUL; returns the length. Integral values keep a ".0", so that a
 * float reads back as a float. NaN and infinities are written "nan", "inf", "-inf". */
size_t ett_number_format(double value, char out[ETT_NUMBER_FORMAT_SIZE]);

/* The value of a hexadecimal digit, 0 to 15; -1 of another character. */
int ett_hex_digit(char c);

#endif
