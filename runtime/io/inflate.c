#include "io/stream.h"

#include <errno.h>
#include <isa-l/igzip_lib.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#define INPUT_BYTES ((size_t)256 << 10)

ett_compression ett_compression_of(const void *bytes, size_t size) {
  const unsigned char *b = bytes;
  if (size >= 2 && b[0] == 0x1F && b[1] == 0x8B)
    return ETT_COMPRESSION_GZIP;
  if (size >= 4 && b[1] == 0xB5 && b[2] == 0x2F && b[3] == 0xFD && b[0] == 0x28)
    return ETT_COMPRESSION_ZSTD;
  return ETT_COMPRESSION_NONE;
}

ptrdiff_t ett_file_source_read(void *file_source, void *buffer, size_t size,
                               ett_err *err) {
  ett_file_source *f = file_source;
  for (;;) {
    ssize_t n = pread(f->fd, buffer, size, (off_t)f->offset);
    if (n >= 0) {
      f->offset += (uint64_t)n;
      return n;
    }
    if (errno != EINTR)
      return ett_err_set(err, ETT_ERR_IO, "cannot read at byte %llu: %s",
                         (unsigned long long)f->offset, strerror(errno));
  }
}

struct ett_inflate {
  ett_compression kind;
  ett_byte_source source;
  const char *fault;
  uint64_t taken;
  bool ended, member; /* the source; inside a member or frame */
  struct inflate_state gzip;
  ZSTD_DStream *zstd;
  ZSTD_inBuffer zin;
  unsigned char input[INPUT_BYTES];
};

ett_inflate *ett_inflate_new(ett_compression kind, ett_byte_source source) {
  ett_inflate *in = malloc(sizeof *in);
  if (!in)
    return NULL;
  in->kind = kind;
  in->source = source;
  in->fault = NULL;
  in->taken = 0;
  in->ended = in->member = false;
  in->zstd = NULL;
  in->zin = (ZSTD_inBuffer){in->input, 0, 0};
  if (kind == ETT_COMPRESSION_ZSTD) {
    in->zstd = ZSTD_createDStream();
    if (!in->zstd) {
      free(in);
      return NULL;
    }
  } else {
    isal_inflate_init(&in->gzip);
    in->gzip.crc_flag = ISAL_GZIP;
    in->gzip.next_in = in->input;
    in->gzip.avail_in = 0;
  }
  return in;
}

void ett_inflate_free(ett_inflate *in) {
  if (!in)
    return;
  ZSTD_freeDStream(in->zstd);
  free(in);
}

const char *ett_inflate_fault(const ett_inflate *in) {
  return in->fault;
}

uint64_t ett_inflate_taken(const ett_inflate *in) {
  return in->taken;
}

/* More input: bytes, 0 at the end, -1. */
static ptrdiff_t refill(ett_inflate *in, ett_err *err) {
  if (in->ended)
    return 0;
  ptrdiff_t n = in->source.read(in->source.context, in->input, INPUT_BYTES, err);
  if (n == 0)
    in->ended = true;
  if (n > 0)
    in->taken += (uint64_t)n;
  return n;
}

static ptrdiff_t gzip_read(ett_inflate *in, void *buffer, size_t size, ett_err *err) {
  struct inflate_state *z = &in->gzip;
  z->next_out = buffer;
  z->avail_out = (uint32_t)size;
  while (z->avail_out == size && !in->fault) {
    if (z->avail_in == 0) {
      ptrdiff_t n = refill(in, err);
      if (n < 0)
        return n;
      z->next_in = in->input;
      z->avail_in = (uint32_t)n;
    }
    if (z->block_state == ISAL_BLOCK_FINISH) { /* a member ended; another may follow */
      if (z->avail_in == 0)
        return 0;
      if (*z->next_in == 0) { /* padding between members or behind the last */
        z->next_in++;
        z->avail_in--;
        continue;
      }
      if (*z->next_in !=
          0x1F) { /* anything else is no member: left alone, as gzip does */
        in->ended = true;
        z->avail_in = 0;
        return 0;
      }
      isal_inflate_reset(z);
      z->crc_flag = ISAL_GZIP;
      in->member = false;
    }
    if (z->avail_in == 0 && in->ended) {
      uint32_t before = z->avail_out; /* what the decoder still holds */
      int status = isal_inflate(z);
      if (status == ISAL_DECOMP_OK && z->avail_out < before)
        break;
      in->fault = "gzip data ends early";
      break;
    }
    in->member = true;
    int status = isal_inflate(z);
    if (status == ISAL_INCORRECT_CHECKSUM)
      in->fault = "gzip checksum does not match";
    else if (status != ISAL_DECOMP_OK && status != ISAL_END_INPUT)
      in->fault = "gzip data is damaged";
  }
  return (ptrdiff_t)(size - z->avail_out);
}

static ptrdiff_t zstd_read(ett_inflate *in, void *buffer, size_t size, ett_err *err) {
  ZSTD_outBuffer out = {buffer, size, 0};
  while (out.pos == 0 && !in->fault) {
    if (in->zin.pos == in->zin.size) {
      ptrdiff_t n = refill(in, err);
      if (n < 0)
        return n;
      in->zin.size = (size_t)n;
      in->zin.pos = 0;
    }
    size_t before = in->zin.pos;
    size_t hint = ZSTD_decompressStream(in->zstd, &out, &in->zin);
    if (ZSTD_isError(hint)) {
      in->fault = "zstd data is damaged";
    } else {
      if (in->zin.pos > before || out.pos)
        in->member = hint != 0;
      if (in->ended && out.pos == 0) {
        if (in->member)
          in->fault = "zstd data ends early";
        break;
      }
    }
  }
  return (ptrdiff_t)out.pos;
}

ptrdiff_t ett_inflate_read(void *inflate, void *buffer, size_t size, ett_err *err) {
  ett_inflate *in = inflate;
  if (in->fault || size == 0)
    return 0;
  if (size > (size_t)1 << 30)
    size = (size_t)1 << 30;
  return in->kind == ETT_COMPRESSION_ZSTD ? zstd_read(in, buffer, size, err)
                                          : gzip_read(in, buffer, size, err);
}
