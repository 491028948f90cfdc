#include "trace/table/part.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

#include "base/grow.h"
#include "io/utf8.h"

static const struct {
  const char *name, *text;
} damages[ETT_DAMAGE_COUNT] = {
    [ETT_DAMAGE_TRUNCATED] = {"truncated", "the file ends inside a value; the data "
                                           "before it was read"},
    [ETT_DAMAGE_BAD_STRING] = {"bad_string", "a string holds an unescaped quote or a bad "
                                             "escape; its text was taken as written"},
    [ETT_DAMAGE_BAD_UTF8] = {"bad_utf8",
                             "a name is not UTF-8; its invalid bytes became '?'"},
    [ETT_DAMAGE_CONTROL_CHARACTER] =
        {"control_character", "a string has a raw control character, which was kept"},
    [ETT_DAMAGE_BAD_NUMBER] = {"bad_number",
                               "a number cannot be read; treated as absent"},
    [ETT_DAMAGE_INTEGER_OVERFLOW] = {"integer_overflow",
                                     "an integer has more than 64 bits; an arg keeps its "
                                     "digits as text, a time is not usable"},
    [ETT_DAMAGE_BAD_EVENT] = {"bad_event",
                              "an event cannot be read; skipped to the next"},
    [ETT_DAMAGE_ZERO_TS] = {"zero_ts", "an event's ts is 0 among absolute times; its row "
                                       "is excluded"},
    [ETT_DAMAGE_NEGATIVE_DUR] = {"negative_dur", "an event's duration is negative; its "
                                                 "row is excluded"},
    [ETT_DAMAGE_LONG_DUR] = {"long_dur", "an event lasts longer than 30 days, as after a "
                                         "wrapped subtraction; its row is excluded"},
    [ETT_DAMAGE_NO_TS] = {"no_ts", "an event has no ts; its row is excluded"},
    [ETT_DAMAGE_NO_DUR] = {"no_dur", "a complete event has no duration; it counts as 0"},
    [ETT_DAMAGE_ARGS_NOT_OBJECT] = {"args_not_object",
                                    "an event's args are not an object; ignored"},
    [ETT_DAMAGE_UNMATCHED_BEGIN] = {"unmatched_begin",
                                    "a begin or end event has no partner; excluded"},
    [ETT_DAMAGE_BAD_MESSAGE] =
        {"bad_message", "a message or page is damaged or cut off; the data before "
                        "it was read"},
    [ETT_DAMAGE_NO_STARTS] = {"no_starts", "no node has a start time; nodes are placed "
                                           "by their dependencies and durations"},
};

const char *ett_trace_damage_name(ett_trace_damage d) {
  return damages[d].name;
}

const char *ett_trace_damage_text(ett_trace_damage d) {
  return damages[d].text;
}

static const char *class_names[ETT_CLASS_COUNT] = {
    "other",       "kernel",        "memcpy",       "memset",        "device_annotation",
    "device_step", "device_module", "device_async", "cpu_op",        "annotation",
    "runtime",     "python",        "overhead",     "communication", "host",
};

const char *ett_trace_class_name(ett_trace_class c) {
  return class_names[c];
}

int ett_trace_class_find(const char *name) {
  for (int i = 0; i < ETT_CLASS_COUNT; i++)
    if (strcmp(class_names[i], name) == 0)
      return i;
  return -1;
}

/* Class of a category text; covers both Kineto formats and tables of Nsight exports. */
static ett_trace_class classify(const char *category, size_t length) {
  static const struct {
    const char *category;
    ett_trace_class is;
  } map[] = {
      {"kernel", ETT_CLASS_KERNEL},
      {"gpu_memcpy", ETT_CLASS_MEMCPY},
      {"memcpy", ETT_CLASS_MEMCPY},
      {"gpu_memset", ETT_CLASS_MEMSET},
      {"memset", ETT_CLASS_MEMSET},
      {"gpu_user_annotation", ETT_CLASS_DEVICE_ANNOTATION},
      {"mtia_ccp_events", ETT_CLASS_DEVICE_ASYNC},
      {"cpu_op", ETT_CLASS_CPU_OP},
      {"operator", ETT_CLASS_CPU_OP},
      {"user_annotation", ETT_CLASS_ANNOTATION},
      {"cuda_runtime", ETT_CLASS_RUNTIME},
      {"cuda_driver", ETT_CLASS_RUNTIME},
      {"hip_runtime", ETT_CLASS_RUNTIME},
      {"hip_driver", ETT_CLASS_RUNTIME},
      {"xpu_runtime", ETT_CLASS_RUNTIME},
      {"xpu_driver", ETT_CLASS_RUNTIME},
      {"mtia_runtime", ETT_CLASS_RUNTIME},
      {"privateuse1_runtime", ETT_CLASS_RUNTIME},
      {"privateuse1_driver", ETT_CLASS_RUNTIME},
      {"runtime", ETT_CLASS_RUNTIME},
      {"driver", ETT_CLASS_RUNTIME},
      {"python_function", ETT_CLASS_PYTHON},
      {"python", ETT_CLASS_PYTHON},
      {"overhead", ETT_CLASS_OVERHEAD},
      {"collective_comm", ETT_CLASS_DEVICE_ANNOTATION},
      {"kernel_dispatch", ETT_CLASS_KERNEL}, /* rocprofv3 */
      {"memory_copy", ETT_CLASS_MEMCPY},
      {"hip_api", ETT_CLASS_RUNTIME},
      {"hip_runtime_api", ETT_CLASS_RUNTIME},
      {"hsa_api", ETT_CLASS_HOST},
      {"marker_api", ETT_CLASS_ANNOTATION},
      {"CUPTI_ACTIVITY_KIND_KERNEL", ETT_CLASS_KERNEL},
      {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE", ETT_CLASS_KERNEL},
      {"CUPTI_ACTIVITY_KIND_MEMCPY", ETT_CLASS_MEMCPY},
      {"CUPTI_ACTIVITY_KIND_MEMSET", ETT_CLASS_MEMSET},
      {"CUPTI_ACTIVITY_KIND_RUNTIME", ETT_CLASS_RUNTIME},
      {"NVTX_EVENTS", ETT_CLASS_ANNOTATION},
      {"MPI_COLLECTIVES_EVENTS", ETT_CLASS_COMMUNICATION},
      {"MPI_P2P_EVENTS", ETT_CLASS_COMMUNICATION},
      {"MPI_START_WAIT_EVENTS", ETT_CLASS_COMMUNICATION},
      {"MPI_OTHER_EVENTS", ETT_CLASS_COMMUNICATION},
      {"CUBLAS_EVENTS", ETT_CLASS_CPU_OP},
      {"CUDNN_EVENTS", ETT_CLASS_CPU_OP},
      {"OSRT_API", ETT_CLASS_HOST},
  };
  for (size_t i = 0; i < sizeof map / sizeof *map; i++)
    if (strlen(map[i].category) == length &&
        strncasecmp(map[i].category, category, length) == 0)
      return map[i].is;
  return ETT_CLASS_OTHER;
}

void ett_lexicon_free(ett_lexicon *l) {
  ett_strings_free(&l->strings);
  ett_strings_free(&l->categories);
  free(l->category_class);
  if (l->spare_bytes)
    munmap(l->spare, l->spare_bytes);
  memset(l, 0, sizeof *l);
}

uint16_t ett_lexicon_category(ett_lexicon *l, const char *text, size_t length) {
  int fresh;
  if (l->categories.count >= ETT_CATEGORY_NONE - 1) {
    uint32_t id = ett_strings_find(&l->categories, text, length);
    return id == ETT_STRING_NONE ? ETT_CATEGORY_NONE : (uint16_t)id;
  }
  if (ett_grow(&l->category_class, l->categories.count, &l->category_capacity, 64, 1))
    return ETT_CATEGORY_NONE;
  uint32_t id = ett_strings_put(&l->categories, text, length, 0, &fresh);
  if (id == ETT_STRING_NONE)
    return ETT_CATEGORY_NONE;
  if (fresh)
    l->category_class[id] = (uint8_t)classify(text, length);
  return (uint16_t)id;
}

uint32_t ett_part_intern(ett_trace_part *p, const char *text, size_t length,
                         uint64_t offset) {
  int fresh;
  uint32_t id = ett_strings_put(&p->lexicon->strings, text, length,
                                (uint64_t)p->file << 44 | offset, &fresh);
  if (fresh && ett_utf8_valid_prefix(text, length) < length) {
    ett_part_damage(p, ETT_DAMAGE_BAD_UTF8, offset);
    p->lexicon->dirty = true;
  }
  return id;
}

int ett_part_init(ett_trace_part *p, uint32_t file, uint32_t arg_count, ett_lexicon *l) {
  memset(p, 0, sizeof *p);
  p->file = file;
  p->lexicon = l;
  if (arg_count && !(p->args = calloc(arg_count, sizeof *p->args)))
    return -1;
  p->arg_count = arg_count;
  return 0;
}

#define BLOCK_BYTES ((size_t)ETT_TRACE_BLOCK * ETT_TRACE_EVENT_BYTES)

#define REGION_BLOCKS 16

void ett_blocks_unmap(const ett_trace_block *blocks, uint32_t count) {
  for (uint32_t i = 0, next; i < count; i = next) {
    char *memory = blocks[i].memory;
    for (next = i + 1; next < count; next++)
      if ((char *)blocks[next].memory != memory + (next - i) * BLOCK_BYTES)
        break;
    munmap(memory, (next - i) * BLOCK_BYTES);
  }
}

void ett_part_free(ett_trace_part *p) {
  ett_blocks_unmap(p->blocks, p->block_count);
  for (uint32_t i = 0; i < p->arg_count; i++)
    free(p->args[i].items);
  for (uint32_t i = 0; i < p->member_count; i++) {
    free(p->members[i].key);
    free(p->members[i].value);
  }
  free(p->blocks);
  free(p->args);
  free(p->tracks);
  ett_strings_free(&p->track_keys);
  free(p->members);
  memset(p, 0, sizeof *p);
}

/* Maps whole blocks, on huge pages; NULL if there is no memory. */
static char *map_region(size_t size) {
  char *m = mmap(NULL, size + ETT_HUGE_PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (m == MAP_FAILED)
    return NULL;
  const size_t before = -(uintptr_t)m % ETT_HUGE_PAGE;
  if (before)
    munmap(m, before);
  munmap(m + before + size, ETT_HUGE_PAGE - before);
  madvise(m + before, size, MADV_HUGEPAGE); /* if it fails, small pages serve */
  return m + before;
}

/* Zeroed memory of a block; NULL if there is none. It is mapped, so that pages after the
 * last row of a block are never touched. The blocks of a part with several are on huge
 * pages, because page faults took a tenth of the time to read a trace. The first block is
 * on huge pages if the thread's previous part had several blocks. */
static char *map_block(ett_lexicon *l, bool several) {
  if (!several) {
    char *m = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                   -1, 0);
    return m == MAP_FAILED ? NULL : m;
  }
  if (!l->spare_bytes) {
    if (!(l->spare = map_region(REGION_BLOCKS * BLOCK_BYTES)))
      return NULL;
    l->spare_bytes = REGION_BLOCKS * BLOCK_BYTES;
  }
  char *block = l->spare;
  l->spare += BLOCK_BYTES;
  l->spare_bytes -= BLOCK_BYTES;
  return block;
}

int ett_part_grow(ett_trace_part *p) {
  if (p->block_count && p->lexicon->room &&
      atomic_fetch_sub(p->lexicon->room, (long long)BLOCK_BYTES) < (long long)BLOCK_BYTES)
    return -1;
  if (ett_grow(&p->blocks, p->block_count, &p->block_capacity, 4, sizeof *p->blocks))
    return -1;
  const bool more = p->block_count > 0;
  char *m = map_block(p->lexicon, more || p->lexicon->several);
  if (!m)
    return -1;
  p->lexicon->several = more;
  const size_t n = ETT_TRACE_BLOCK;
  ett_trace_block b = {.file = p->file, .memory = m};
  b.ts = (int64_t *)(void *)m;
  b.dur = b.ts + n;
  b.correlation = b.dur + n;
  b.name = (uint32_t *)(void *)(b.correlation + n);
  b.track = b.name + n;
  b.stream = (int32_t *)(void *)(b.track + n);
  b.category = (uint16_t *)(void *)(b.stream + n);
  b.device = (int16_t *)(void *)(b.category + n);
  b.ph = (uint8_t *)(b.device + n);
  p->blocks[p->block_count++] = b;
  return 0;
}

uint32_t ett_part_find_track(ett_trace_part *p, int64_t pid, uint8_t pid_type,
                             int64_t tid, uint8_t tid_type) {
  const int64_t key[] = {pid, tid, pid_type << 8 | tid_type};
  int fresh;
  if (ett_grow(&p->tracks, p->track_count, &p->track_capacity, 32, sizeof *p->tracks))
    return ETT_TRACE_NONE;
  uint32_t id = ett_strings_put(&p->track_keys, (const char *)key, sizeof key, 0, &fresh);
  if (fresh)
    p->tracks[p->track_count++] = (ett_track){.pid = pid,
                                              .tid = tid,
                                              .pid_type = pid_type,
                                              .tid_type = tid_type,
                                              .process = ETT_STRING_NONE,
                                              .thread = ETT_STRING_NONE,
                                              .file = p->file};
  return id;
}

int ett_part_arg(ett_trace_part *p, uint32_t arg, ett_trace_arg value) {
  ett_args_column *c = &p->args[arg];
  if (c->count && c->items[c->count - 1].row == value.row) {
    c->items[c->count - 1] = value;
    return 0;
  }
  if (ett_grow(&c->items, c->count, &c->capacity, 64, sizeof *c->items))
    return -1;
  c->items[c->count++] = value;
  return 0;
}

int ett_part_member(ett_trace_part *p, const char *key, size_t key_length,
                    const char *value, size_t value_length) {
  if (ett_grow(&p->members, p->member_count, &p->member_capacity, 16, sizeof *p->members))
    return -1;
  ett_member m = {strndup(key, key_length), strndup(value, value_length)};
  if (!m.key || !m.value) {
    free(m.key);
    free(m.value);
    return -1;
  }
  p->members[p->member_count++] = m;
  return 0;
}
