/* How the core reports an error.
 *
 * The core never prints, exits or raises: a function that can fail returns a status
 * (0 or a pointer on success) and fills the caller's ett_err. */
#ifndef ETT_BASE_ERR_H
#define ETT_BASE_ERR_H

/* Kinds of errors; Lua has them by name (ett_err_kind). */
typedef enum ett_err_code {
  ETT_OK = 0,
  ETT_ERR_ARGUMENT, /* an impossible argument */
  ETT_ERR_MEMORY,   /* an allocation failed */
  ETT_ERR_IO,       /* a file or device failed */
  ETT_ERR_FORMAT,   /* the contents of a file are wrong */
  ETT_ERR_LIMIT,    /* a limit was exceeded */
  ETT_ERR_MISSING,  /* a library, device or file is missing */
  ETT_ERR_INTERNAL, /* a defect in ett */
  ETT_ERR_LOST,     /* this process can no longer use a device */
} ett_err_code;

typedef struct ett_err {
  ett_err_code code;
  char message[1024]; /* lower case, no full stop: expected, found, where */
} ett_err;

/* Fills *err (which may be NULL) from a printf format; returns -1, so that a failing
 * function can end with `return ett_err_set(err, …)`. Long messages are cut. */
int ett_err_set(ett_err *err, ett_err_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The name of a code as error objects carry it: "argument", "memory", "io", … */
const char *ett_err_kind(ett_err_code code);

#endif
