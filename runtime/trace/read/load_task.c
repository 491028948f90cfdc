#include "trace/read/load_task.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A source that counts what passes and stops when the caller asked to. */
typedef struct counter {
  ett_load_shared *shared;
  ett_byte_source from;
  uint64_t bytes;
  bool progress;
} counter;

static ptrdiff_t counted_read(void *context, void *buffer, size_t size, ett_err *err) {
  counter *c = context;
  if (atomic_load_explicit(&c->shared->cancelled, memory_order_relaxed))
    return ett_err_set(err, ETT_ERR_LIMIT, "reading was stopped");
  ptrdiff_t n = c->from.read(c->from.context, buffer, size, err);
  if (n > 0) {
    c->bytes += (uint64_t)n;
    if (c->progress)
      atomic_fetch_add_explicit(&c->shared->done, (unsigned long long)n,
                                memory_order_relaxed);
  }
  return n;
}

int ett_load_stretch(ett_load_shared *shared, ett_load_task *t, ett_trace_part *part) {
  const ett_source *s = &shared->sources->items[t->file];
  int fd = open(s->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return ett_err_set(&t->err, ETT_ERR_IO, "cannot open '%s': %s", s->path,
                       strerror(errno));
  uint64_t from = t->begin ? t->begin - 1 : 0; /* the byte before tells of an escape */
  if (t->start == ETT_JSON_ARRAY)
    from = t->begin;
  ett_file_source file = {fd, from};
  counter raw = {shared, {&file, ett_file_source_read}, 0, true};
  counter out = {.shared = shared, .progress = false};
  ett_inflate *in = NULL;
  ett_readahead *ahead = NULL;
  int status = -1;
  ett_byte_source source = {&raw, counted_read};
  if (s->compression != ETT_COMPRESSION_NONE) {
    in = ett_inflate_new(s->compression, source);
    if (!in) {
      ett_err_set(&t->err, ETT_ERR_MEMORY, "out of memory");
      goto done;
    }
    source = (ett_byte_source){in, ett_inflate_read};
    if (shared->readahead) {
      ahead = ett_readahead_new(source, (size_t)512 << 10, 4, &t->err);
      if (!ahead)
        goto done;
      source = (ett_byte_source){ahead, ett_readahead_read};
    }
  }
  out.from = source;
  ett_json_job job = {.scanner = shared->scanner,
                      .args = &shared->args,
                      .part = part,
                      .source = {&out, counted_read},
                      .start = t->start,
                      .offset = from,
                      .stop = t->stop,
                      .decimals = shared->ticks_per_second == 1000000000 ? 3 : 6,
                      .flows = shared->options->flows};
  status = ett_json_read(&job, &t->err);
  t->produced = out.bytes;
done:
  ett_readahead_free(ahead);
  if (in && ett_inflate_fault(in))
    snprintf(t->fault, sizeof t->fault, "%s", ett_inflate_fault(in));
  ett_inflate_free(in);
  close(fd);
  return status;
}

int ett_load_task_run(ett_load_shared *shared, ett_load_task *t, ett_trace_part *part,
                      ett_lexicon *lexicon) {
  const ett_source *s = &shared->sources->items[t->file];
  const ett_trace_options *o = shared->options;
  if (ett_part_init(part, t->file, o->arg_count, lexicon))
    return ett_err_set(&t->err, ETT_ERR_MEMORY, "out of memory");
  if (s->kind == ETT_TRACE_KINETO || s->kind == ETT_TRACE_TPU_JSON)
    return ett_load_stretch(shared, t, part);
  part->begin = 0;
  part->end = ETT_JSON_NOWHERE;
  part->saw_events = true;
  t->produced = s->bytes;
  int status = (s->kind == ETT_TRACE_XPLANE ? ett_xplane_read : shared->nsys)(
      s->path, part, o->args, o->arg_count, shared->ticks_per_second, &t->err);
  atomic_fetch_add(&shared->done, s->bytes);
  return status;
}
