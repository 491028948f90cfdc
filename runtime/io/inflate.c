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

/* The position in a gzip member (RFC 1952). The header is read here, byte by byte: ISA-L
 * 2.30 checks the header's checksum incorrectly if the header arrives in pieces. */
typedef enum gzip_stage {
  BETWEEN,
  FIXED,
  EXTRA_LENGTH,
  EXTRA,
  NAME,
  COMMENT,
  CHECK,
  BODY
} gzip_stage;

struct ett_inflate {
  ett_compression kind;
  ett_byte_source source;
  const char *fault;
  uint64_t members;
  bool ended, frame; /* the source; inside a zstd frame */
  gzip_stage stage;
  uint8_t flags;
  uint32_t count, extra; /* bytes of the stage so far; of the extra field */
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
  in->members = 0;
  in->ended = in->frame = false;
  in->stage = BETWEEN;
  in->flags = 0;
  in->count = in->extra = 0;
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

/* Reads more input: number of bytes, 0 at the end, -1 on error. */
static ptrdiff_t refill(ett_inflate *in, ett_err *err) {
  if (in->ended)
    return 0;
  ptrdiff_t n = in->source.read(in->source.context, in->input, INPUT_BYTES, err);
  if (n == 0)
    in->ended = true;
  return n;
}

/* The stage after a completed part of the header. */
static gzip_stage stage_after(const ett_inflate *in, gzip_stage done) {
  if (done < EXTRA_LENGTH && in->flags & 4)
    return EXTRA_LENGTH;
  if (done == EXTRA_LENGTH && in->extra)
    return EXTRA;
  if (done < NAME && in->flags & 8)
    return NAME;
  if (done < COMMENT && in->flags & 16)
    return COMMENT;
  if (done < CHECK && in->flags & 2)
    return CHECK; /* the header's own checksum: skipped */
  return BODY;
}

static void header_byte(ett_inflate *in, uint8_t b) {
  bool complete = false;
  uint32_t at = in->count++;
  switch (in->stage) {
  case BETWEEN:
    in->count = 0;
    if (b == 0x1F) {
      in->stage = FIXED;
      in->count = 1;
    } else if (in->members == 0) {
      in->fault = "not gzip data";
    } else if (b !=
               0) { /* zeros are padding; other trailing data is ignored, as gzip does */
      in->ended = true;
      in->gzip.avail_in = 0;
    }
    return;
  case FIXED:
    if ((at == 1 && b != 0x8B) || (at == 2 && b != 8) || (at == 3 && b & 0xE0))
      in->fault = "gzip header is damaged";
    if (at == 3)
      in->flags = b;
    complete = at == 9;
    break;
  case EXTRA_LENGTH:
    in->extra = at == 0 ? b : in->extra | (uint32_t)b << 8;
    complete = at == 1;
    break;
  case EXTRA:
    complete = at + 1 == in->extra;
    break;
  case NAME:
  case COMMENT:
    complete = b == 0;
    break;
  case CHECK:
    complete = at == 1;
    break;
  case BODY:
    break;
  }
  if (!complete)
    return;
  in->stage = stage_after(in, in->stage);
  in->count = 0;
  if (in->stage == BODY) {
    isal_inflate_reset(&in->gzip);
    in->gzip.crc_flag = ISAL_GZIP_NO_HDR_VER; /* the trailer is checked */
  }
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
    bool dry =
        z->avail_in == 0; /* all input was read; the decoder may still have output */
    if (dry && in->stage == BETWEEN && in->members)
      break;
    if (dry && in->stage != BODY) {
      in->fault = "gzip data ends early";
    } else if (in->stage != BODY) {
      while (z->avail_in && in->stage != BODY && !in->fault) {
        z->avail_in--;
        header_byte(in, *z->next_in++);
      }
    } else {
      int status = isal_inflate(z);
      if (status == ISAL_INCORRECT_CHECKSUM)
        in->fault = "gzip checksum does not match";
      else if (status != ISAL_DECOMP_OK && status != ISAL_END_INPUT)
        in->fault = "gzip data is damaged";
      else if (z->block_state == ISAL_BLOCK_FINISH && z->avail_out > 0) {
        in->stage = BETWEEN;
        in->members++;
      } else if (dry && z->avail_out == size)
        in->fault = "gzip data ends early";
    }
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
        in->frame = hint != 0;
      if (in->ended && out.pos == 0) {
        if (in->frame)
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
