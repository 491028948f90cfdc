/* One line of input from a terminal, edited: history, completion, Ctrl-C. By libedit.
 *
 * Opening it sets LC_CTYPE from the environment, so that characters have their width;
 * numbers are read and written as before.
 */
#ifndef ETT_LINE_LINE_H
#define ETT_LINE_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

typedef struct ett_line ett_line;

typedef enum {
  ETT_LINE_TEXT,        /* a line came */
  ETT_LINE_END,         /* end of input: Ctrl-D on an empty line */
  ETT_LINE_INTERRUPTED, /* a signal came; what was typed is gone */
} ett_line_event;

/* What the Tab key does: given the text before the cursor, fills insert with what can be
 * added to it (maybe nothing) and list with the choices to show (maybe none). Both are
 * allocated by malloc and freed by the caller. */
typedef void ett_line_complete(void *context, const char *text, char **insert,
                               char **list);

/* Opens the terminal on standard input and output. NULL and err when there is none. */
ett_line *ett_line_new(ett_err *err);

/* Says who completes; NULL for nobody. */
void ett_line_set_complete(ett_line *line, ett_line_complete *complete, void *context);

/* Says whether a signal came that nobody has answered yet. It is asked before each wait
 * for a key with SIGINT and SIGTERM held back, so that what comes after its answer ends
 * the wait. */
typedef bool ett_line_stopped(void *context);

/* Says who is asked; NULL for nobody: then only what comes during a wait ends the line.
 */
void ett_line_set_stopped(ett_line *line, ett_line_stopped *stopped, void *context);

/* Reads a line under a prompt. *text is valid until the next call and has no newline. */
ett_line_event ett_line_read(ett_line *line, const char *prompt, const char **text);

/* The history in memory; and its file, written whole. Loading a file that is not there is
 * no fault. */
void ett_line_remember(ett_line *line, const char *text);
int ett_line_load(ett_line *line, const char *path);
int ett_line_save(ett_line *line, const char *path);

/* Gives the terminal back. */
void ett_line_free(ett_line *line);

#endif
