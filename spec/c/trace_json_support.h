/* Documents for the tests of the scanner: drawn at random, whole or damaged, and a digest
 * of what was read that does not depend on how it was read. */
#ifndef ETT_SPEC_TRACE_JSON_SUPPORT_H
#define ETT_SPEC_TRACE_JSON_SUPPORT_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/read/json/json_read.h"

typedef struct text {
  char *bytes;
  size_t length, capacity;
} text;

static inline void put(text *t, const char *s, size_t n) {
  if (t->length + n + 1 > t->capacity) {
    t->capacity = (t->length + n + 1) * 2;
    t->bytes = realloc(t->bytes, t->capacity);
    if (!t->bytes)
      abort();
  }
  memcpy(t->bytes + t->length, s, n);
  t->length += n;
  t->bytes[t->length] = 0;
}

static inline void puts_(text *t, const char *s) {
  put(t, s, strlen(s));
}

static uint64_t dice = 1;

static inline unsigned roll(unsigned below) {
  dice = dice * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(dice >> 33) % below;
}

static inline void space_(text *t) {
  static const char *const kinds[] = {"",
                                      "",
                                      " ",
                                      " ",
                                      "\n  ",
                                      "\t",
                                      "\r\n        ",
                                      "\n                                        "
                                      "                                         "};
  puts_(t, kinds[roll(8)]);
}

static inline void random_string(text *t) {
  static const char *const pieces[] = {
      "aten::mm",
      "kernel<float, 4>(int)",
      "\\\"",
      "\\\\",
      "\\n",
      "\\u00e9",
      "\xC3\xA9",
      "{\\\"a\\\": [",
      "}, {",
      "], ",
      ": ",
      "x",
      "",
      "void at::native::vectorized_elementwise_kernel<2, at::native::CUDAFunctor_add>",
      "\\ud83d\\ude00",
      "\\/"};
  puts_(t, "\"");
  for (unsigned n = roll(4); n; n--)
    puts_(t, pieces[roll(16)]);
  puts_(t, "\"");
}

static inline void random_number(text *t, int negative) {
  char copy[64];
  uint64_t v = ((uint64_t)roll(1u << 31) << 22 ^ roll(1u << 31)) >> roll(52);
  int n = snprintf(copy, sizeof copy, "%s%" PRIu64, negative && !roll(8) ? "-" : "", v);
  if (!roll(3))
    n += snprintf(copy + n, sizeof copy - (size_t)n, ".%0*u", 1 + (int)roll(9), roll(10));
  if (!roll(30))
    snprintf(copy + n, sizeof copy - (size_t)n, "e%d", (int)roll(6) - 2);
  puts_(t, copy);
}

static inline void random_value(text *t, int depth) {
  unsigned kind = roll(depth > 3 ? 5 : 7);
  if (kind < 2) {
    random_number(t, 1);
  } else if (kind < 4) {
    random_string(t);
  } else if (kind == 4) {
    static const char *const words[] = {"true", "false", "null"};
    puts_(t, words[roll(3)]);
  } else {
    puts_(t, kind == 5 ? "[" : "{");
    for (unsigned n = roll(4), i = 0; i < n; i++) {
      if (i)
        puts_(t, ",");
      space_(t);
      if (kind == 6) {
        char key[16];
        snprintf(key, sizeof key, "\"k%u\":", i);
        puts_(t, key);
        space_(t);
      }
      random_value(t, depth + 1);
    }
    space_(t);
    puts_(t, kind == 5 ? "]" : "}");
  }
}

static const char *const asked[] = {"Collective name", "In msg nelems", "dims", "bytes"};
#define ASKED 4

static inline void random_event(text *t) {
  static const char *const keys[] = {"ph",  "cat",  "name", "pid", "tid", "ts",
                                     "dur", "args", "id",   "bp",  "tts"};
  static const char *const phases[] = {"X", "X", "X", "X", "s", "f", "M", "i", "B", "E"};
  static const char *const categories[] = {"kernel", "cpu_op", "gpu_memcpy",
                                           "cuda_runtime", "user_annotation"};
  static const char *const args[] = {
      "stream", "device", "correlation", "name", "Collective name", "In msg nelems",
      "dims",   "bytes",  "External id", "grid", "Call stack",      "est %"};
  unsigned order[11], used = 0;
  for (unsigned i = 0; i < 11; i++)
    order[i] = i;
  for (unsigned i = 0; i < 11; i++) {
    unsigned k = i + roll(11 - i), swap = order[i];
    order[i] = order[k];
    order[k] = swap;
  }
  puts_(t, "{");
  for (unsigned i = 0; i < 11; i++) {
    unsigned k = order[i];
    if (k >= 8 ? roll(4) : k != 0 && !roll(12))
      continue;
    if (used++)
      puts_(t, ",");
    space_(t);
    puts_(t, "\"");
    puts_(t, keys[k]);
    puts_(t, "\"");
    space_(t);
    puts_(t, ":");
    space_(t);
    switch (k) {
    case 0:
      puts_(t, "\"");
      puts_(t, phases[roll(10)]);
      puts_(t, "\"");
      break;
    case 1:
      puts_(t, "\"");
      puts_(t, categories[roll(5)]);
      puts_(t, "\"");
      break;
    case 2:
      random_string(t);
      break;
    case 3:
    case 4:
      if (roll(6))
        random_number(t, 0);
      else
        random_string(t);
      break;
    case 5:
    case 6:
      random_number(t, k == 6);
      break;
    case 7:
      puts_(t, "{");
      for (unsigned n = roll(8), j = 0, first = roll(12); j < n; j++) {
        if (j)
          puts_(t, ",");
        space_(t);
        puts_(t, "\"");
        puts_(t, args[(first + j) % 12]);
        puts_(t, "\":");
        space_(t);
        random_value(t, 1);
      }
      space_(t);
      puts_(t, "}");
      break;
    default:
      random_value(t, 2);
    }
  }
  space_(t);
  puts_(t, "}");
}

static inline void random_document(text *t, unsigned events) {
  t->length = 0;
  int bare = !roll(6);
  space_(t);
  if (!bare) {
    puts_(t, "{");
    space_(t);
    puts_(t, "\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0}],"
             "\"distributedInfo\": {\"rank\": 3},");
    puts_(t, "\"traceEvents\"");
    space_(t);
    puts_(t, ":");
  }
  puts_(t, "[");
  for (unsigned i = 0; i < events; i++) {
    if (i)
      puts_(t, ",");
    space_(t);
    if (roll(60))
      random_event(t);
    else
      puts_(t, "{}");
  }
  space_(t);
  puts_(t, "]");
  if (!bare) {
    puts_(t, ", \"traceName\": \"a\\\\b\", \"list\": [1, {\"ph\": \"X\"}]");
    space_(t);
    puts_(t, "}");
  }
  space_(t);
}

/* Events of a few ways of writing, again and again with other digits, and now and then
 * with another byte. */
static inline void repeated_document(text *t, unsigned events) {
  size_t from[8], length[8];
  text forms = {0};
  for (int i = 0; i < 8; i++) {
    from[i] = forms.length;
    random_event(&forms);
    length[i] = forms.length - from[i];
  }
  t->length = 0;
  puts_(t, "[");
  for (unsigned i = 0; i < events; i++) {
    const unsigned form = roll(8);
    if (i)
      puts_(t, roll(2) ? "," : ",\n  ");
    const size_t at = t->length;
    put(t, forms.bytes + from[form], length[form]);
    for (size_t k = at; k < t->length; k++)
      if (t->bytes[k] >= '1' && t->bytes[k] <= '9' && !roll(6))
        t->bytes[k] = (char)('1' + roll(9));
    if (!roll(25))
      t->bytes[at + roll((unsigned)(t->length - at))] = "{}[],:\"\\ 7a\n"[roll(12)];
  }
  puts_(t, "]");
  free(forms.bytes);
}

/* Bytes of memory as a source. */
typedef struct memory_source {
  const char *bytes;
  size_t length, at, step;
} memory_source;

static inline ptrdiff_t memory_read(void *context, void *buffer, size_t size,
                                    ett_err *err) {
  memory_source *m = context;
  (void)err;
  size_t n = m->length - m->at;
  if (n > size)
    n = size;
  if (m->step && n > m->step)
    n = m->step;
  memcpy(buffer, m->bytes + m->at, n);
  m->at += n;
  return (ptrdiff_t)n;
}

static inline uint64_t mix(uint64_t h, const void *bytes, size_t n) {
  const unsigned char *p = bytes;
  for (size_t i = 0; i < n; i++)
    h = (h ^ p[i]) * 1099511628211u;
  return h;
}

static inline uint64_t mix_text(uint64_t h, const ett_trace_part *p, uint32_t id) {
  const ett_string *s = &p->lexicon->strings.items[id];
  return mix(mix(h, s->text, s->length), "|", 1);
}

/* Every row a part holds, ids resolved to texts; parts in a row go on from h. */
static inline uint64_t digest(uint64_t h, const ett_trace_part *p) {
  for (uint32_t b = 0; b < p->block_count; b++) {
    const ett_trace_block *k = &p->blocks[b];
    for (uint32_t i = 0; i < k->count; i++) {
      const ett_track *w = &p->tracks[k->track[i]];
      h = mix(h, &k->ts[i], 8);
      h = mix(h, &k->dur[i], 8);
      h = mix(h, &k->correlation[i], 8);
      h = mix(h, &k->stream[i], 4);
      h = mix(h, &k->device[i], 2);
      h = mix(h, &k->ph[i], 1);
      h = mix_text(h, p, k->name[i]);
      if (k->category[i] != ETT_CATEGORY_NONE) {
        const ett_string *c = &p->lexicon->categories.items[k->category[i]];
        h = mix(h, c->text, c->length);
      }
      if (w->pid_type == ETT_ID_TEXT)
        h = mix_text(h, p, (uint32_t)w->pid);
      else
        h = mix(h, &w->pid, 8);
      if (w->tid_type == ETT_ID_TEXT)
        h = mix_text(h, p, (uint32_t)w->tid);
      else
        h = mix(h, &w->tid, 8);
      for (uint32_t a = 0; a < p->arg_count; a++) {
        /* args are few here: a walk is fine */
        for (uint32_t j = 0; j < p->args[a].count; j++) {
          const ett_trace_arg *x = &p->args[a].items[j];
          if (x->row != (b << 16 | i))
            continue;
          h = mix(h, &a, 4);
          h = mix(h, &x->type, 4);
          h = x->type == ETT_ARG_TEXT ? mix_text(h, p, x->value.text)
                                      : mix(h, &x->value, 8);
        }
      }
    }
  }
  return h;
}

/* Reads bytes from an offset on with a scanner; the part must be freed. */
static inline int read_memory(const ett_json_scanner *scanner, const char *bytes,
                              size_t length, size_t step, ett_json_start start,
                              uint64_t offset, uint64_t stop, const ett_json_args *args,
                              ett_lexicon *lexicon, ett_trace_part *part, ett_err *err) {
  uint64_t from = start == ETT_JSON_GUESS ? offset - 1 : offset;
  memory_source source = {bytes + from, length - from, 0, step};
  if (ett_part_init(part, 0, ASKED, lexicon))
    return -1;
  ett_json_job job = {.scanner = scanner,
                      .args = args,
                      .part = part,
                      .source = {&source, memory_read},
                      .start = start,
                      .offset = from,
                      .stop = stop,
                      .decimals = 3,
                      .learn_after = 1};
  return ett_json_read(&job, err);
}

#endif
