/* A file of lines that survives being killed at any moment.
 *
 * A line is in the file whole or not at all: it is written by one call and synced, and a
 * tail without a newline (a write cut short by a kill or a full disk) is cut off when the
 * file is opened again. So are last lines that begin "#~ ": they are marks of the line
 * after them, which did not come. One process at a time: a lock file beside it is held by
 * the kernel for the life of the process, so that nothing is left to clean after a kill.
 */
#ifndef ETT_SAMPLE_JOURNAL_H
#define ETT_SAMPLE_JOURNAL_H

#include <stddef.h>

#include "base/err.h"

typedef struct ett_sample_journal ett_sample_journal;

/* Opens path for appending, making it with the text `header` (whole lines) when it is
 * not there. Returns NULL with err set: ETT_ERR_LIMIT when another process holds it,
 * ETT_ERR_IO when the folder cannot be written. */
ett_sample_journal *ett_sample_journal_open(const char *path, const char *header,
                                            ett_err *err);

/* Appends one line, or several with newlines between them, and a newline by one write and
 * syncs. On failure the file is as it was before and the journal stays usable. An empty
 * line is refused. */
int ett_sample_journal_append(ett_sample_journal *journal, const char *lines,
                              size_t bytes, ett_err *err);

/* The same without the sync: what is written outlives the process, not the machine. */
int ett_sample_journal_write(ett_sample_journal *journal, const char *lines, size_t bytes,
                             ett_err *err);

/* Syncs what was written. Returns 0, or -1 with err set. */
int ett_sample_journal_sync(ett_sample_journal *journal, ett_err *err);

/* How many bytes of incomplete last lines were cut off by open. */
size_t ett_sample_journal_repaired(const ett_sample_journal *journal);

void ett_sample_journal_close(ett_sample_journal *journal);

#endif
