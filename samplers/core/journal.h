/* A file of lines that survives a kill at any moment.
 *
 * A line is in the file whole or not at all. One call writes it and syncs. Opening the
 * file cuts off a tail without a newline, and last lines that begin with "#~ ": marks
 * whose row is missing. One process at a time: it holds a lock file beside the journal,
 * which the kernel releases when the process ends. */
#ifndef ETT_SAMPLE_JOURNAL_H
#define ETT_SAMPLE_JOURNAL_H

#include <stddef.h>

#include "base/err.h"

typedef struct ett_sample_journal ett_sample_journal;

/* Opens path for appending; a new file begins with `header` (whole lines). Returns NULL
 * with err set: ETT_ERR_LIMIT when another process holds it, ETT_ERR_IO when the folder
 * cannot be written. */
ett_sample_journal *ett_sample_journal_open(const char *path, const char *header,
                                            ett_err *err);

/* Appends lines, with newlines between them, and a newline, by one write; then syncs. On
 * failure the file is unchanged and the journal usable. An empty line is refused. */
int ett_sample_journal_append(ett_sample_journal *journal, const char *lines,
                              size_t bytes, ett_err *err);

/* The same without the sync: the lines survive the process, not the machine. */
int ett_sample_journal_write(ett_sample_journal *journal, const char *lines, size_t bytes,
                             ett_err *err);

/* Returns 0, or -1 with err set. */
int ett_sample_journal_sync(ett_sample_journal *journal, ett_err *err);

void ett_sample_journal_close(ett_sample_journal *journal);

#endif
