#include "trace/read/source.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/grow.h"
#include "io/file.h"
#include "trace/read/wire.h"

#define HEAD_BYTES ((size_t)64 << 10)
#define DEPTH 12

void ett_sources_free(ett_sources *s) {
  for (uint32_t i = 0; i < s->count; i++)
    free(s->items[i].path);
  free(s->items);
  memset(s, 0, sizeof *s);
}

static int ends(const char *text, const char *tail) {
  size_t n = strlen(text), m = strlen(tail);
  return n >= m && strcasecmp(text + n - m, tail) == 0;
}

/* Whether a file of a directory is a candidate. */
static int has_extension(const char *path) {
  static const char *const list[] = {
      ".json",     ".json.gz", ".json.zst",       ".gz",
      ".zst",      ".pb",      ".sqlite",         ".sqlite3",
      ".nsys-rep", ".pftrace", ".perfetto-trace", ".et",
      ".db",       ".zip"};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (ends(path, list[i]))
      return 1;
  return 0;
}

static int contains(const char *bytes, size_t n, const char *text) {
  return memmem(bytes, n, text, strlen(text)) != NULL;
}

/* Advice for a zip archive. nsys-jax writes the Nsight Systems report first and Parquet
 * tables last; a zip archive ends with its file names. */
static const char *of_archive(int fd, const char *head, size_t n) {
  struct stat st;
  char tail[4096];
  ptrdiff_t m = 0;
  if (fstat(fd, &st) == 0)
    m = pread(fd, tail, sizeof tail,
              st.st_size > (off_t)sizeof tail ? st.st_size - (off_t)sizeof tail : 0);
  const size_t end = m > 0 ? (size_t)m : 0;
  if (contains(head, n, ".nsys-rep") || contains(tail, end, ".nsys-rep"))
    return "an archive of nsys-jax: unpack it, and 'nsys export --type sqlite FILE' of "
           "the "
           ".nsys-rep in it makes a trace";
  if (contains(tail, end, "nvtx_gpu_proj_trace/") ||
      contains(tail, end, "-metadata.parquet"))
    return "an archive of nsys-jax without a report, as nsys-jax-combine "
           "--keep-nsys-rep=none writes it: take the archives that it was made of";
  return "a zip archive: unpack it and name the folder";
}

/* Advice for a file of an unsupported tool; NULL for others. */
static const char *advice(int fd, const char *path, const char *head, size_t n) {
  if (ends(path, ".nsys-rep") || ends(path, ".qdrep"))
    return "an Nsight Systems report: 'nsys export --type sqlite FILE' makes a trace of "
           "it";
  if (n >= 4 && memcmp(head, "PK\3\4", 4) == 0)
    return of_archive(fd, head, n);
  if (n >= 262 && memcmp(head + 257, "ustar", 5) == 0)
    return "a tar archive: unpack it and name the folder";
  if (n && *head == '{' && contains(head, n, "\"schema\"") &&
      contains(head, n, "\"nodes\"") && !contains(head, n, "\"traceEvents\""))
    return "an execution trace of PyTorch, which has no times: chakra_trace_link and "
           "chakra_converter make an .et file of it and of the Kineto trace";
  return NULL;
}

/* A Perfetto trace: its packets are field 1, and the first ones hold a timestamp, a
 * sequence or a descriptor. */
static int is_perfetto(const char *path, const char *head, size_t n) {
  if (ends(path, ".pftrace") || ends(path, ".perfetto-trace"))
    return 1;
  slice all = {head, head + n};
  field f, g;
  int packets = 0;
  while (packets < 3 && next(&all, &f) > 0) {
    if (f.number != 1 || f.wire != 2)
      return 0;
    slice packet = f.bytes;
    int known = 0, status;
    while ((status = next(&packet, &g)) > 0)
      known |= (g.number == 8 && g.wire == 0) || (g.number == 10 && g.wire == 0) ||
               (g.number == 60 && g.wire == 2) || (g.number == 36 && g.wire == 2);
    if (status < 0 || !known)
      return 0;
    packets++;
  }
  return packets > 0;
}

/* A Chakra execution trace: by its name and length-prefixed messages. */
static int is_chakra(const char *path, const char *head, size_t n) {
  if (!ends(path, ".et") && !ends(path, ".et.gz") && !ends(path, ".et.zst"))
    return 0;
  slice all = {head, head + n};
  uint64_t length;
  int messages = 0;
  for (; messages < 2 && varint(&all, &length); messages++) {
    if (length > (uint64_t)(all.end - all.at))
      return messages > 0 || n == HEAD_BYTES;
    slice message = {all.at, all.at + length};
    field f;
    int status;
    while ((status = next(&message, &f)) > 0)
      ;
    if (status < 0)
      return 0;
    all.at += length;
  }
  return messages == 2;
}

/* Format of a file by its first bytes, decompressed; AUTO if it is no trace. */
static ett_trace_kind kind_of(const char *path, const char *head, size_t n) {
  if (n >= 16 && memcmp(head, "SQLite format 3", 16) == 0)
    return ETT_TRACE_NSYS;
  if (is_chakra(path, head, n))
    return ETT_TRACE_CHAKRA;
  size_t i = 0;
  if (n >= 3 && memcmp(head, "\xEF\xBB\xBF", 3) == 0)
    i = 3;
  while (i < n && isspace((unsigned char)head[i]))
    i++;
  if (i < n && (head[i] == '{' || head[i] == '[')) {
    if (contains(head, n, "\"rocprofiler-sdk-tool\""))
      return ETT_TRACE_ROCPROF;
    if (contains(head, n, "\"highres-ticks\"") || contains(head, n, "\"/device:TPU:") ||
        contains(head, n, "\"/host:CPU\""))
      return ETT_TRACE_TPU_JSON;
    return ETT_TRACE_KINETO;
  }
  if (n >= 4 && head[0] == 0x0A && !ends(path, ".xplane.pb") &&
      is_perfetto(path, head, n))
    return ETT_TRACE_PERFETTO;
  /* XSpace: field 1 (planes), length-delimited, the first holding id, name or lines */
  if (n >= 4 && head[0] == 0x0A &&
      (ends(path, ".pb") || contains(head, n, "/device:") || contains(head, n, "/host:")))
    return ETT_TRACE_XPLANE;
  return ETT_TRACE_AUTO;
}

static int look(ett_source *s, ett_trace_kind mode, ett_err *err) {
  int fd = open(s->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return ett_file_fail(err, "open", s->path, errno);
  char *head = malloc(HEAD_BYTES);
  ett_inflate *in = NULL;
  int result = -1;
  if (!head) {
    ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
    goto done;
  }
  ett_file_source file = {fd, 0};
  ett_byte_source source = {&file, ett_file_source_read};
  ptrdiff_t n = source.read(source.context, head, 8, err);
  if (n < 0)
    goto done;
  s->compression = ett_compression_of(head, (size_t)n);
  file.offset = 0;
  if (s->compression != ETT_COMPRESSION_NONE) {
    in = ett_inflate_new(s->compression, source);
    if (!in) {
      ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
      goto done;
    }
    source = (ett_byte_source){in, ett_inflate_read};
  }
  size_t got = 0;
  do {
    n = source.read(source.context, head + got, HEAD_BYTES - got, err);
    if (n < 0)
      goto done;
    got += (size_t)n;
  } while (n > 0 && got < HEAD_BYTES);
  result = 0;
  s->kind = kind_of(s->path, head, got);
  s->ignored = s->kind == ETT_TRACE_NSYS && in
                   ? "a compressed SQLite file: decompress it first"
                   : advice(fd, s->path, head, got);
  if (s->ignored)
    s->kind = ETT_TRACE_AUTO;
  else if (s->kind == ETT_TRACE_AUTO)
    s->ignored = got ? "its content has no format that ett reads"
                 : in && ett_inflate_fault(in) ? ett_inflate_fault(in)
                                               : "an empty file";
  int json = s->kind == ETT_TRACE_KINETO || s->kind == ETT_TRACE_TPU_JSON;
  if (mode == ETT_TRACE_NSYS && s->kind != ETT_TRACE_NSYS)
    s->ignored = ETT_SOURCE_NOT_NSYS;
  else if (mode == ETT_TRACE_KINETO && !json)
    s->ignored = "not trace JSON, as the profile mode requires";
  else if (mode == ETT_TRACE_TPU_JSON && !json && s->kind != ETT_TRACE_XPLANE)
    s->ignored = "not a TPU trace, as the profile mode requires";
  else if (json && (mode == ETT_TRACE_KINETO || mode == ETT_TRACE_TPU_JSON))
    s->kind = mode;
done:
  ett_inflate_free(in);
  free(head);
  close(fd);
  return result;
}

static int add(ett_sources *s, const char *path, uint64_t bytes, ett_err *err) {
  char *copy = strdup(path);
  if (!copy || ett_grow(&s->items, s->count, &s->capacity, 16, sizeof *s->items)) {
    free(copy);
    return ett_err_set(err, ETT_ERR_MEMORY, "out of memory");
  }
  s->items[s->count++] = (ett_source){.path = copy, .bytes = bytes};
  return 0;
}

/* State of a directory walk: visited files and folders by device and inode, and deferred
 * links. */
typedef struct walker {
  ett_sources *sources;
  struct met {
    dev_t device;
    ino_t number;
  } * met;
  char **links;
  uint32_t met_count, met_capacity, link_count, link_capacity;
  ett_err *err;
} walker;

static int walk_memory(walker *w) {
  return ett_err_set(w->err, ETT_ERR_MEMORY, "out of memory");
}

/* 1 at the first visit, 0 later, -1 on error. */
static int is_new(walker *w, const struct stat *st) {
  for (uint32_t i = 0; i < w->met_count; i++)
    if (w->met[i].device == st->st_dev && w->met[i].number == st->st_ino)
      return 0;
  if (ett_grow(&w->met, w->met_count, &w->met_capacity, 64, sizeof *w->met))
    return walk_memory(w);
  w->met[w->met_count++] = (struct met){st->st_dev, st->st_ino};
  return 1;
}

static int walk(walker *w, const char *folder, int depth);

/* Visits a file or folder by its path. Links are deferred: if the target is also below
 * the folder, the file is named by its real path. */
static int visit(walker *w, const char *path, int depth, bool follow) {
  struct stat st;
  if (!follow && lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
    if (ett_grow(&w->links, w->link_count, &w->link_capacity, 16, sizeof *w->links))
      return walk_memory(w);
    w->links[w->link_count] = strdup(path);
    return w->links[w->link_count] ? (w->link_count++, 0) : walk_memory(w);
  }
  if (stat(path, &st) != 0)
    return 0;
  const bool folder = S_ISDIR(st.st_mode);
  if (!(folder ? depth < DEPTH : S_ISREG(st.st_mode) && has_extension(path)))
    return 0;
  int first = is_new(w, &st);
  if (first <= 0)
    return first;
  return folder ? walk(w, path, depth + 1)
                : add(w->sources, path, (uint64_t)st.st_size, w->err);
}

static int walk(walker *w, const char *folder, int depth) {
  DIR *d = opendir(folder);
  if (!d)
    return ett_file_fail(w->err, "open", folder, errno);
  int result = 0;
  struct dirent *e;
  while (result == 0 && (e = readdir(d))) {
    if (e->d_name[0] == '.' ||
        strcmp(e->d_name, "comm_groups.json") == 0) /* ett.trace.collective reads it */
      continue;
    size_t n = strlen(folder) + strlen(e->d_name) + 2;
    char *path = malloc(n);
    if (!path) {
      result = walk_memory(w);
      break;
    }
    strcpy(path, folder);
    if (n > 2 && folder[strlen(folder) - 1] != '/')
      strcat(path, "/");
    strcat(path, e->d_name);
    result = visit(w, path, depth, false);
    free(path);
  }
  closedir(d);
  return result;
}

static int by_text(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The trace files below a folder, once each: first those on real paths. */
static int walk_all(ett_sources *s, const char *folder, ett_err *err) {
  walker w = {.sources = s, .err = err};
  int result = visit(&w, folder, -1, true);
  for (uint32_t from = 0; result == 0 && from < w.link_count;) {
    uint32_t to = w.link_count;
    qsort(w.links + from, to - from, sizeof *w.links, by_text);
    for (; result == 0 && from < to; from++)
      result = visit(&w, w.links[from], 0, true);
  }
  for (uint32_t i = 0; i < w.link_count; i++)
    free(w.links[i]);
  free(w.links);
  free(w.met);
  return result;
}

static int by_path(const void *a, const void *b) {
  return strcmp(((const ett_source *)a)->path, ((const ett_source *)b)->path);
}

/* Whether x holds the same run as the JSON file j. host.xplane.pb holds the run of
 * host.trace.json.gz, which is truncated. Both hold the run of perfetto_trace.json.gz in
 * the same folder. */
static bool repeats(const ett_source *j, const ett_source *x) {
  const char *slash = strrchr(j->path, '/');
  const char *name = slash ? slash + 1 : j->path;
  const size_t folder = (size_t)(name - j->path);
  if (strncmp(name, "perfetto_trace.json", 19) == 0)
    return (x->kind == ETT_TRACE_XPLANE || x->kind == ETT_TRACE_TPU_JSON) &&
           strncmp(x->path, j->path, folder) == 0 && !strchr(x->path + folder, '/') &&
           strncmp(x->path + folder, "perfetto_trace.json", 19) != 0;
  if (x->kind != ETT_TRACE_XPLANE || !ends(x->path, ".xplane.pb"))
    return false;
  const size_t stem = strlen(x->path) - strlen("xplane.pb");
  return strncmp(j->path, x->path, stem) == 0 &&
         strncmp(j->path + stem, "trace.json", 10) == 0;
}

/* JAX writes a run up to three times. */
static void drop_doubles(ett_sources *s) {
  for (uint32_t i = 0; i < s->count; i++) {
    ett_source *j = &s->items[i];
    for (uint32_t k = 0; k < s->count && j->kind == ETT_TRACE_TPU_JSON && !j->ignored;
         k++)
      if (!s->items[k].ignored && repeats(j, &s->items[k]))
        j->ignored = s->items[k].kind == ETT_TRACE_XPLANE
                         ? "the same run as the xplane.pb beside it, which holds more"
                         : "the same run as the trace.json beside it";
  }
}

int ett_sources_find(ett_sources *s, const char *path, ett_trace_kind mode,
                     ett_err *err) {
  struct stat st;
  memset(s, 0, sizeof *s);
  if (stat(path, &st) != 0)
    return ett_file_fail(err, "read", path, errno);
  int folder = S_ISDIR(st.st_mode);
  if (!folder && !S_ISREG(st.st_mode)) /* a pipe cannot be read twice */
    return ett_err_set(err, ETT_ERR_MISSING,
                       "cannot read '%s': a trace must be a file or a folder, not a pipe "
                       "or device; files that end in .gz or .zst need no unpacking",
                       path);
  if (folder ? walk_all(s, path, err) : add(s, path, (uint64_t)st.st_size, err))
    goto fail;
  if (s->count)
    qsort(s->items, s->count, sizeof *s->items, by_path);
  uint32_t good = 0;
  for (uint32_t i = 0; i < s->count; i++) {
    if (look(&s->items[i], mode, err))
      goto fail;
    good += !s->items[i].ignored;
  }
  drop_doubles(s);
  if (good)
    return 0;
  if (s->count == 1)
    ett_err_set(err, ETT_ERR_FORMAT, "'%s' is not a trace: %s", s->items[0].path,
                s->items[0].ignored);
  else if (s->count)
    ett_err_set(err, ETT_ERR_MISSING,
                "no trace in '%s': none of its %u files is one; '%s': %s", path, s->count,
                s->items[0].path, s->items[0].ignored);
  else if (folder)
    ett_err_set(err, ETT_ERR_MISSING,
                "no trace in '%s': expected *.json, *.pb, *.sqlite, *.db, *.pftrace or "
                "*.et, perhaps with .gz or .zst behind it",
                path);
fail:
  ett_sources_free(s);
  return -1;
}

/* The number before a suffix: 3 in "workload.3.et". */
static int number_before(const char *name, const char *tail, int64_t *rank) {
  const char *end = ends(name, tail) ? name + strlen(name) - strlen(tail) : name;
  const char *d = end;
  while (d > name && isdigit((unsigned char)d[-1]))
    d--;
  if (d == end || d == name || end - d > 6 || d[-1] != '.')
    return 0;
  *rank = strtoll(d, NULL, 10);
  return 1;
}

/* The digits at d, at most 6, as a number; their end, or NULL. */
static const char *rank_digits(const char *d, int64_t *rank) {
  const char *e = d;
  while (isdigit((unsigned char)*e))
    e++;
  if (e == d || e - d > 6)
    return NULL;
  *rank = strtoll(d, NULL, 10);
  return e;
}

/* The rank of a folder rank3, rank_3, worker-3. */
static int rank_of_folder(const char *path, const char *file, int64_t *rank) {
  const char *name = file == path ? file : file - 1;
  while (name > path && name[-1] != '/')
    name--;
  static const char *const before[] = {"rank", "worker"};
  for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
    const size_t length = strlen(before[i]);
    if (strncasecmp(name, before[i], length) != 0)
      continue;
    const char *d = name + length;
    const char *e = rank_digits(d + (*d == '-' || *d == '_'), rank);
    if (e && *e == '/')
      return 1;
  }
  return 0;
}

const char *ett_rank_of_path(const char *path, int64_t *rank) {
  const char *name = strrchr(path, '/');
  name = name ? name + 1 : path;
  if (number_before(name, ".et", rank) || number_before(name, ".et.gz", rank) ||
      number_before(name, ".et.zst", rank))
    return "file name";
  static const char *const before[] = {"rank", "worker", "-w-", "trace"};
  for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
    for (const char *p = name; (p = strcasestr(p, before[i])) != NULL; p++) {
      const char *d = p + strlen(before[i]);
      if (*d == '-' || *d == '_' || *d == '.')
        d++;
      const char *e = rank_digits(d, rank);
      if (e && (i < 3 || *e == '.')) /* trace_12.json, not trace_12_of.json */
        return "file name";
    }
  }
  return rank_of_folder(path, name, rank) ? "folder name" : NULL;
}
