/* A file of lines that survives a kill at any moment.
 *
 * A line is in the file completely or not at all: one call writes and syncs it. Opening
 * the file removes a tail without a newline, and last lines that begin with "#~ ", which
 * are marks without a row. Only one process may open a journal. It holds a lock file
 * beside the journal; the kernel releases the lock when the process ends. */
#ifndef ETT_SAMPLE_JOURNAL_H
#define ETT_SAMPLE_JOURNAL_H

#include <stddef.h>

#include "base/err.h"

typedef struct ett_sample_journal ett_sample_journal;

/* Opens path for appending; a new file begins with `header` (whole lines). Returns NULL
 * with err set: ETT_ERR_LIMIT if another process holds it, ETT_ERR_IO if the folder is
 * not writable or path is a link. */
ett_sample_journal *ett_sample_journal_open(const char *path, const char *header,
                                            ett_err *err);

/* Appends newline-separated lines and a final newline by one write. Lines that are not
 * synced survive a crash of the process, but not of the machine. On failure the file is
 * unchanged and the journal usable. Empty lines are refused. */
int ett_sample_journal_append(ett_sample_journal *journal, const char *lines,
                              size_t bytes, int sync, ett_err *err);

/* Returns 0, or -1 with err set. */
int ett_sample_journal_sync(ett_sample_journal *journal, ett_err *err);

/* Returns the journal, which then stays open until one more close. NULL is allowed. */
ett_sample_journal *ett_sample_journal_share(ett_sample_journal *journal);

void ett_sample_journal_close(ett_sample_journal *journal); /* NULL is allowed */

#endif
