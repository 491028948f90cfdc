/* Line editing at a terminal by libedit: history, completion, Ctrl-C. Opening it sets
 * LC_CTYPE from the environment, for the width of characters. */
#ifndef ETT_LINE_LINE_H
#define ETT_LINE_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef struct ett_line ett_line;

typedef enum {
  ETT_LINE_TEXT,
  ETT_LINE_END,         /* Ctrl-D on an empty line */
  ETT_LINE_INTERRUPTED, /* by a signal; the line is dropped */
} ett_line_event;

/* Called for the Tab key with the text before the cursor. It sets *insert to the text to
 * add and *list to the choices to show, or leaves them NULL. The caller frees both. */
typedef void ett_line_complete(void *context, const char *text, char **insert,
                               char **list);

/* Opens the terminal on standard input and output. NULL and err when there is none. */
ett_line *ett_line_new(ett_err *err);

/* complete may be NULL. */
void ett_line_set_complete(ett_line *line, ett_line_complete *complete, void *context);

/* Whether a signal is pending. It is called before each wait for a key while SIGINT and
 * SIGTERM are held back, so that no signal is missed between the two. */
typedef bool ett_line_stopped(void *context);

/* stopped may be NULL: then only a signal during a wait ends the line. */
void ett_line_set_stopped(ett_line *line, ett_line_stopped *stopped, void *context);

/* Reads a line under a prompt. *text is valid until the next call and has no newline. */
ett_line_event ett_line_read(ett_line *line, const char *prompt, const char **text);

/* The history in memory and its file. Loading a missing file succeeds. */
void ett_line_remember(ett_line *line, const char *text);
int ett_line_load(ett_line *line, const char *path);
int ett_line_save(ett_line *line, const char *path);

/* Restores the terminal. */
void ett_line_free(ett_line *line);

#endif
