/* Files, warnings, categories and devices of a trace as Lua tables. */
#include "bind/trace/trace.h"

#include <stdlib.h>
#include <string.h>

#include "trace/table/strings.h"

static void set_text(lua_State *L, const ett_trace *t, const char *key, uint32_t id) {
  if (id == ETT_STRING_NONE)
    return;
  lua_pushlstring(L, t->strings->items[id].text, t->strings->items[id].length);
  lua_setfield(L, -2, key);
}

static int unread(const ett_trace *t, uint32_t file) {
  for (uint32_t i = 0; i < t->warning_count; i++)
    if (t->warnings[i].file == file &&
        (strcmp(t->warnings[i].code, "ignored_file") == 0 ||
         strcmp(t->warnings[i].code, "unreadable_file") == 0))
      return 1;
  return 0;
}

void ett_lua_push_files(lua_State *L, const ett_trace *t) {
  static const char *const kinds[] = {"auto", "kineto",   "tpu_json", "xplane",
                                      "nsys", "perfetto", "rocprof",  "chakra"};
  lua_Integer n = 0;
  lua_newtable(L);
  for (uint32_t i = 0; i < t->file_count; i++) {
    const ett_trace_file *f = &t->files[i];
    if (unread(t, i))
      continue;
    lua_createtable(L, 0, 14);
    ett_lua_set_string(L, "path", f->path);
    ett_lua_set_integer(L, "index", (int64_t)i + 1);
    ett_lua_set_string(L, "kind", kinds[f->kind]);
    if (f->has_rank)
      ett_lua_set_integer(L, "rank", f->rank);
    ett_lua_set_string(L, "rank_source", f->rank_source);
    if (f->has_world)
      ett_lua_set_integer(L, "world_size", f->world_size);
    ett_lua_set_integer(L, "base_ns", f->base_ns);
    ett_lua_set_integer(L, "bytes", (int64_t)f->bytes);
    ett_lua_set_integer(L, "uncompressed_bytes", (int64_t)f->uncompressed_bytes);
    ett_lua_set_integer(L, "event_count", (int64_t)f->event_count);
    ett_lua_set_integer(L, "seen_count", (int64_t)f->seen_count);
    lua_createtable(L, 0, (int)f->member_count);
    for (uint32_t k = 0; k < f->member_count; k++)
      ett_lua_set_string(L, f->members[k].key, f->members[k].value);
    lua_setfield(L, -2, "root");
    lua_rawseti(L, -2, ++n);
  }
}

void ett_lua_push_warnings(lua_State *L, const ett_trace *t) {
  lua_createtable(L, (int)t->warning_count, 0);
  for (uint32_t i = 0; i < t->warning_count; i++) {
    const ett_trace_warning *w = &t->warnings[i];
    lua_createtable(L, 0, 5);
    if (w->file != ETT_TRACE_NONE)
      ett_lua_set_string(L, "file", t->files[w->file].path);
    ett_lua_set_string(L, "code", w->code);
    ett_lua_set_string(L, "message", w->message);
    ett_lua_set_integer(L, "count", (int64_t)w->count);
    if (w->has_offset)
      ett_lua_set_integer(L, "offset", (int64_t)w->offset);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

typedef struct counted {
  uint32_t category;
  uint64_t count;
} counted;

static int by_count(const void *a, const void *b) {
  const counted *x = a, *y = b;
  if (x->count != y->count)
    return x->count > y->count ? -1 : 1;
  return x->category < y->category ? -1 : 1;
}

int ett_lua_trace_categories(lua_State *L) {
  ett_trace *t = ett_lua_check_trace(L, 1);
  counted *c = lua_newuserdatauv(L, (t->category_count + 1) * sizeof *c, 0);
  for (uint32_t i = 0; i < t->category_count; i++)
    c[i] = (counted){i, 0};
  for (uint32_t b = 0; b < t->block_count; b++)
    for (uint32_t i = 0; i < t->blocks[b].count; i++)
      c[t->blocks[b].category[i]].count++;
  if (t->category_count)
    qsort(c, t->category_count, sizeof *c, by_count);
  lua_newtable(L);
  for (uint32_t i = 0; i < t->category_count && c[i].count; i++) {
    lua_createtable(L, 0, 3);
    set_text(L, t, "category", t->categories[c[i].category]);
    ett_lua_set_string(
        L, "class",
        ett_trace_class_name((ett_trace_class)t->category_class[c[i].category]));
    ett_lua_set_integer(L, "count", (int64_t)c[i].count);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}

typedef struct device_count {
  uint32_t file;
  int32_t device;
  uint64_t events;
} device_count;

static int by_device(const void *a, const void *b) {
  const device_count *x = a, *y = b;
  if (x->file != y->file)
    return x->file < y->file ? -1 : 1;
  return x->device < y->device ? -1 : x->device > y->device;
}

int ett_lua_trace_devices(lua_State *L) {
  ett_trace *t = ett_lua_check_trace(L, 1);
  size_t n = 0, capacity = 64, last = 0;
  device_count *d = lua_newuserdatauv(L, capacity * sizeof *d, 0);
  for (uint32_t b = 0; b < t->block_count; b++) {
    const ett_trace_block *k = &t->blocks[b];
    for (uint32_t i = 0; i < k->count; i++) {
      uint8_t class = t->category_class[k->category[i]];
      if (class != ETT_CLASS_KERNEL && class != ETT_CLASS_MEMCPY &&
          class != ETT_CLASS_MEMSET)
        continue;
      if (k->ph[i] & ETT_PH_INVALID)
        continue;
      if (last >= n || d[last].file != k->file || d[last].device != k->device[i]) {
        for (last = 0; last < n; last++)
          if (d[last].file == k->file && d[last].device == k->device[i])
            break;
        if (last == n) {
          if (n == capacity) {
            device_count *grown = lua_newuserdatauv(L, 2 * capacity * sizeof *d, 0);
            memcpy(grown, d, n * sizeof *d);
            lua_replace(L, -2);
            d = grown;
            capacity *= 2;
          }
          d[n++] = (device_count){k->file, k->device[i], 0};
        }
      }
      d[last].events++;
    }
  }
  qsort(d, n, sizeof *d, by_device);
  lua_createtable(L, (int)n, 0);
  for (size_t i = 0; i < n; i++) {
    lua_createtable(L, 0, 4);
    ett_lua_set_integer(L, "file", (int64_t)d[i].file + 1);
    if (t->files[d[i].file].has_rank)
      ett_lua_set_integer(L, "rank", t->files[d[i].file].rank);
    if (d[i].device >= 0)
      ett_lua_set_integer(L, "device", d[i].device);
    ett_lua_set_integer(L, "events", (int64_t)d[i].events);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
  return 1;
}
