#include "trace/read/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/file.h"
#include "trace/read/json/json_read.h"

#define CHUNK_LEAST ((uint64_t)4 << 20)
#define CHUNK_MOST ((uint64_t)64 << 20)
/* For fewer bytes of files (as stored, perhaps compressed), starting threads takes longer
 * than they save. */
#define WORKERS_LEAST_BYTES ((uint64_t)1 << 20)

/* One file, or a stretch of one: bytes from begin to stop. */
typedef struct load_task {
  uint32_t file;
  uint64_t begin, stop;
  ett_json_start start;
  int status;
  ett_err err;
  char fault[96];
  uint64_t produced; /* bytes that came out of the source */
} load_task;

/* Data that all tasks of a trace share. */
typedef struct load_shared {
  const ett_sources *sources;
  const ett_trace_options *options;
  const ett_json_scanner *scanner;
  ett_json_args args;
  int64_t ticks_per_second;
  ett_trace_reader nsys;
  bool readahead;
  atomic_ullong done; /* bytes read so far */
  atomic_bool cancelled;
} load_shared;

/* A source that counts its bytes, and stops when the reading is cancelled. */
typedef struct counter {
  load_shared *shared;
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

static int read_stretch(load_shared *shared, load_task *t, ett_trace_part *part) {
  const ett_source *s = &shared->sources->items[t->file];
  int fd = open(s->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return ett_file_fail(&t->err, "open", s->path, errno);
  uint64_t from = t->begin ? t->begin - 1 : 0; /* the byte before may be a backslash */
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

static int run_task(load_shared *shared, load_task *t, ett_trace_part *part,
                    ett_lexicon *lexicon) {
  const ett_source *s = &shared->sources->items[t->file];
  const ett_trace_options *o = shared->options;
  if (ett_part_init(part, t->file, o->arg_count, lexicon))
    return ett_err_set(&t->err, ETT_ERR_MEMORY, "out of memory");
  if (s->kind == ETT_TRACE_KINETO || s->kind == ETT_TRACE_TPU_JSON)
    return read_stretch(shared, t, part);
  part->begin = 0;
  part->end = ETT_JSON_NOWHERE;
  part->saw_events = true;
  static ett_trace_parser *const parsers[] = {[ETT_TRACE_XPLANE] = ett_xplane_parse,
                                              [ETT_TRACE_PERFETTO] = ett_perfetto_parse,
                                              [ETT_TRACE_ROCPROF] = ett_rocprof_parse,
                                              [ETT_TRACE_CHAKRA] = ett_chakra_parse};
  ett_reading r = {.part = part,
                   .args = o->args,
                   .arg_count = o->arg_count,
                   .ticks_per_second = shared->ticks_per_second};
  int status = s->kind == ETT_TRACE_NSYS
                   ? shared->nsys(s->path, &r, &t->err)
                   : ett_read_parsed(parsers[s->kind], s, &r, &t->err);
  if (!status && o->mode == ETT_TRACE_NSYS && part->kind == ETT_TRACE_ROCPROF)
    status = ett_err_set(&t->err, ETT_ERR_FORMAT, ETT_SOURCE_NOT_NSYS);
  t->produced = (uint64_t)(r.bytes.end - r.bytes.at);
  atomic_fetch_add(&shared->done, s->bytes);
  return status;
}

typedef struct run {
  load_shared shared;
  ett_load *load;
  load_task *tasks;
  uint32_t task_count;
  atomic_uint next;
  atomic_llong room;
  uint64_t total; /* bytes of all files */
  bool watched;   /* the caller waits and reports: new threads begin immediately */
  bool stopped;   /* by the progress function */
} run;

/* Full blocks are charged while a part grows; this charges its last block. */
static int is_over(const ett_trace_part *part, atomic_llong *room) {
  if (!room)
    return 0;
  if (part->block_count)
    atomic_fetch_sub(room, (long long)part->blocks[part->block_count - 1].count *
                               ETT_TRACE_EVENT_BYTES);
  return atomic_load(room) < 0;
}

static void work(void *context, uint32_t thread) {
  run *r = context;
  ett_lexicon *lexicon = &r->load->lexicons[thread];
  for (;;) {
    uint32_t i = atomic_fetch_add(&r->next, 1);
    if (i >= r->task_count || atomic_load(&r->shared.cancelled))
      break;
    ett_trace_part *part = &r->load->parts[i];
    r->tasks[i].status = run_task(&r->shared, &r->tasks[i], part, lexicon);
    if (is_over(part, lexicon->room))
      atomic_store(&r->shared.cancelled, true);
  }
}

static uint64_t total_bytes(const ett_sources *s) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < s->count; i++)
    if (!s->items[i].ignored)
      n += s->items[i].bytes;
  return n;
}

static void report(void *context) {
  run *r = context;
  const ett_trace_options *o = r->shared.options;
  if (r->stopped || !o->progress ||
      !o->progress(o->context, atomic_load(&r->shared.done), r->total))
    return;
  r->stopped = true;
  atomic_store(&r->shared.cancelled, true);
}

/* Runs the tasks in threads and reports progress meanwhile. */
static int read_all(run *r, ett_err *err) {
  const ett_trace_options *o = r->shared.options;
  ett_workers_run(r->load->workers, r->load->lexicon_count, work, r,
                  r->watched ? report : NULL);
  if (r->stopped || (o->progress && o->progress(o->context, r->total, r->total)))
    return ett_err_set(err, ETT_ERR_LIMIT, "reading was stopped");
  return 0;
}

static bool divides(const ett_source *x) {
  return !x->ignored && x->compression == ETT_COMPRESSION_NONE &&
         (x->kind == ETT_TRACE_KINETO || x->kind == ETT_TRACE_TPU_JSON);
}

/* Bytes of the next stretch when `left` bytes of divisible files are left. Stretches
 * become shorter towards the end, so that the threads end together. */
static uint64_t stretch_bytes(const ett_trace_options *o, unsigned threads,
                              uint64_t left) {
  if (o->chunk_bytes)
    return o->chunk_bytes;
  if (threads == 1)
    return UINT64_MAX / 2;
  const uint64_t share = left / (threads * 2) + 1;
  return share < CHUNK_LEAST ? CHUNK_LEAST : share > CHUNK_MOST ? CHUNK_MOST : share;
}

/* Counts the tasks, and makes them if `tasks` is not NULL: a file each; a large
 * uncompressed JSON file in several stretches. */
static uint32_t divide(const run *r, unsigned threads, load_task *tasks) {
  const ett_sources *s = r->shared.sources;
  uint64_t left = 0;
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->count; i++)
    left += divides(&s->items[i]) ? s->items[i].bytes : 0;
  for (uint32_t i = 0; i < s->count; i++) {
    const ett_source *x = &s->items[i];
    if (x->ignored)
      continue;
    uint64_t at = 0;
    do {
      const uint64_t size =
          divides(x) ? stretch_bytes(r->shared.options, threads, left) : UINT64_MAX / 2;
      const bool last = x->bytes - at <= size;
      if (tasks)
        tasks[n] = (load_task){.file = i,
                               .begin = at,
                               .stop = last ? UINT64_MAX : at + size,
                               .start = at ? ETT_JSON_GUESS : ETT_JSON_DOCUMENT,
                               .status = 1};
      n++;
      const uint64_t taken = last ? x->bytes - at : size;
      left -= divides(x) ? taken : 0;
      at += taken;
    } while (at < x->bytes);
  }
  return n;
}

static int plan(run *r, unsigned threads, ett_err *err) {
  const uint32_t n = divide(r, threads, NULL);
  r->tasks = calloc(n ? n : 1, sizeof *r->tasks);
  r->load->parts = calloc(n ? n : 1, sizeof *r->load->parts);
  if (!r->tasks || !r->load->parts)
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
  r->task_count = r->load->part_count = divide(r, threads, r->tasks);
  return 0;
}

/* A guessed boundary is right if the stretch before ended at it. Otherwise the stretch is
 * read again from where the one before ended. */
static int verify(run *r, ett_err *err) {
  ett_load *l = r->load;
  uint64_t position = 0;
  bool object = false;
  for (uint32_t i = 0; i < r->task_count; i++) {
    load_task *t = &r->tasks[i];
    ett_trace_part *p = &l->parts[i];
    ett_load_file *f = &l->files[t->file];
    if (t->start == ETT_JSON_DOCUMENT)
      position = 0;
    if (f->failed)
      continue;
    bool wrong = t->start == ETT_JSON_GUESS &&
                 (position == ETT_JSON_NOWHERE || t->status < 0 || p->begin != position);
    if (wrong) {
      ett_part_free(p);
      if (ett_part_init(p, t->file, r->shared.options->arg_count, &l->lexicons[0]))
        return ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
      t->status = 0;
      t->produced = 0;
      if (position == ETT_JSON_NOWHERE || position >= t->stop)
        continue;
      t->begin = position;
      t->start = ETT_JSON_ARRAY;
      t->status = read_stretch(&r->shared, t, p);
    }
    if (t->status < 0) {
      if (t->err.code == ETT_ERR_MEMORY) {
        *err = t->err;
        return -1;
      }
      f->failed = 1;
      f->err = t->err;
      continue;
    }
    if (t->fault[0])
      memcpy(f->fault, t->fault, sizeof f->fault);
    position = p->end;
    if (t->start == ETT_JSON_DOCUMENT)
      object = p->root_object;
    if (object && p->cut_at) /* a bare array may end with the file, a member may not */
      ett_part_damage(p, ETT_DAMAGE_TRUNCATED, p->cut_at);
  }
  return 0;
}

/* Runs the tasks within the memory that the options allow. */
static int read_within(run *r, ett_err *err) {
  ett_load *l = r->load;
  const size_t most = r->shared.options->memory_bytes;
  atomic_store(&r->room, (long long)most);
  for (uint32_t i = 0; i < l->lexicon_count && most; i++)
    l->lexicons[i].room = &r->room;
  int status = read_all(r, err) || verify(r, err) ? -1 : 0;
  if (atomic_load(&r->room) < 0)
    status = ett_err_set(err, ETT_ERR_LIMIT,
                         "the trace needs more than %zu MB of memory; "
                         "ETT_MEMORY_LIMIT=16G sets another limit",
                         most / 1000000);
  for (uint32_t i = 0; i < l->lexicon_count; i++)
    l->lexicons[i].room = NULL;
  return status;
}

/* Number of threads: the option's, or that of cores; at most 64. */
static unsigned threads_of(const ett_trace_options *options) {
  const long n =
      options->threads ? (long)options->threads : sysconf(_SC_NPROCESSORS_ONLN);
  return n < 1 ? 1 : n > 64 ? 64 : (unsigned)n;
}

int ett_load_run(ett_load *l, const ett_sources *sources,
                 const ett_trace_options *options, int64_t ticks_per_second,
                 ett_err *err) {
  run r = {.shared = {.sources = sources,
                      .options = options,
                      .ticks_per_second = ticks_per_second},
           .load = l};
  memset(l, 0, sizeof *l);
  r.shared.scanner = options->scanner ? ett_json_scanner_named(options->scanner)
                                      : ett_json_scanner_best();
  if (!r.shared.scanner)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "this machine has no '%s' instructions",
                       options->scanner);
  const unsigned threads = threads_of(options);
  int status = -1;
  uint32_t compressed = 0;
  l->files = calloc(sources->count ? sources->count : 1, sizeof *l->files);
  if (!l->files ||
      ett_json_args_init(&r.shared.args, options->args, options->arg_count)) {
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    goto done;
  }
  for (uint32_t i = 0; i < sources->count; i++) {
    const ett_source *s = &sources->items[i];
    compressed += !s->ignored && s->compression != ETT_COMPRESSION_NONE;
    if (s->ignored || s->kind != ETT_TRACE_NSYS || r.shared.nsys)
      continue;
    if (!options->nsys) {
      ett_err_set(err, ETT_ERR_MISSING, "reading '%s' needs the SQLite reader", s->path);
      goto done;
    }
    /* cppcheck-suppress AssignmentIntegerToAddress ; the callback gives a function */
    r.shared.nsys = options->nsys(options->context, err);
    if (!r.shared.nsys)
      goto done;
  }
  if (plan(&r, threads, err))
    goto done;
  /* with fewer streams than threads, a thread for decoding saves time */
  r.shared.readahead = compressed && r.task_count < threads;
  l->lexicon_count = threads < r.task_count ? threads : r.task_count;
  if (!l->lexicon_count)
    l->lexicon_count = 1;
  l->lexicons = calloc(l->lexicon_count, sizeof *l->lexicons);
  if (!l->lexicons) {
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    goto done;
  }
  r.total = total_bytes(sources);
  r.watched = l->lexicon_count > 1 || options->progress;
  if (r.watched || (threads > 1 && r.total >= WORKERS_LEAST_BYTES))
    l->workers = ett_workers_new(threads);
  if (read_within(&r, err))
    goto done;
  for (uint32_t i = 0; i < r.task_count; i++) {
    ett_load_file *f = &l->files[r.tasks[i].file];
    if (sources->items[r.tasks[i].file].compression != ETT_COMPRESSION_NONE)
      f->uncompressed_bytes = r.tasks[i].produced;
    else
      f->uncompressed_bytes = sources->items[r.tasks[i].file].bytes;
  }
  status = 0;
done:
  ett_json_args_free(&r.shared.args);
  free(r.tasks);
  if (status)
    ett_load_free(l);
  return status;
}

void ett_load_free(ett_load *l) {
  for (uint32_t i = 0; i < l->part_count; i++)
    ett_part_free(&l->parts[i]);
  for (uint32_t i = 0; i < l->lexicon_count && l->lexicons; i++)
    ett_lexicon_free(&l->lexicons[i]);
  free(l->parts);
  free(l->lexicons);
  free(l->files);
  ett_workers_free(l->workers);
  memset(l, 0, sizeof *l);
}

bool ett_load_saw_events(const ett_load *l, uint32_t file) {
  for (uint32_t k = 0; k < l->part_count; k++)
    if (l->parts[k].file == file && l->parts[k].saw_events)
      return true;
  return false;
}
