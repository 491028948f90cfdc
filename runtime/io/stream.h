/* Byte streams: from a file, through gzip or zstd, or read ahead by a thread.
 *
 * A source is a context and a read function. gzip goes through ISA-L, zstd through
 * libzstd; several members or frames are one stream. */
#ifndef ETT_IO_STREAM_H
#define ETT_IO_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* read returns the number of bytes, 0 at the end, -1 with *err filled. */
typedef struct ett_byte_source {
  void *context;
  ptrdiff_t (*read)(void *context, void *buffer, size_t size, ett_err *err);
} ett_byte_source;

typedef enum ett_compression {
  ETT_COMPRESSION_NONE,
  ETT_COMPRESSION_GZIP,
  ETT_COMPRESSION_ZSTD
} ett_compression;

/* Detects the compression from the first bytes of a file; 4 are enough. */
ett_compression ett_compression_of(const void *bytes, size_t size);

/* A file from an offset on, by pread: several sources can share a descriptor. */
typedef struct ett_file_source {
  int fd;
  uint64_t offset;
} ett_file_source;

ptrdiff_t ett_file_source_read(void *file_source, void *buffer, size_t size,
                               ett_err *err);

/* Decompressed bytes of a source, which must outlive it; NULL when memory ran out.
 * Truncated or damaged data ends the stream; see ett_inflate_fault. */
typedef struct ett_inflate ett_inflate;
ett_inflate *ett_inflate_new(ett_compression kind, ett_byte_source source);
ptrdiff_t ett_inflate_read(void *inflate, void *buffer, size_t size, ett_err *err);
/* NULL, or the fault of the data: "gzip data ends early", …. */
const char *ett_inflate_fault(const ett_inflate *in);
void ett_inflate_free(ett_inflate *in);

/* Reads a source in its own thread into a ring of buffers. NULL with *err when the thread
 * cannot start. */
typedef struct ett_readahead ett_readahead;
ett_readahead *ett_readahead_new(ett_byte_source source, size_t buffer_bytes,
                                 unsigned buffers, ett_err *err);
ptrdiff_t ett_readahead_read(void *readahead, void *buffer, size_t size, ett_err *err);
/* Stops the thread and frees everything; the source may be used again. */
void ett_readahead_free(ett_readahead *ahead);

#endif
