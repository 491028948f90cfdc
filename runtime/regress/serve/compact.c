#include "regress/serve/compact.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"

#define FORMAT 2
#define LEAF 255
#define DEEPEST 64
#define MOST_NODES 4000000
#define MOST_FEATURES 126

/* A growing buffer for writing; a bounded view for reading. */
typedef struct {
  unsigned char *data;
  size_t length, room, at;
  bool bad, deep; /* deep: a tree has more than DEEPEST levels */
} bytes;

static void put(bytes *b, const void *from, size_t n) {
  if (b->bad)
    return;
  if (b->length + n > b->room) {
    size_t room = (b->length + n) * 2 + 256;
    unsigned char *data = realloc(b->data, room);
    if (!data) {
      b->bad = true;
      return;
    }
    b->data = data;
    b->room = room;
  }
  memcpy(b->data + b->length, from, n);
  b->length += n;
}

static void put_number(bytes *b, uint64_t value, int n) {
  unsigned char out[8];
  for (int i = 0; i < n; i++)
    out[i] = (unsigned char)(value >> (8 * i));
  put(b, out, (size_t)n);
}

static void put_double(bytes *b, double value) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  put_number(b, bits, 8);
}

static uint64_t get_number(bytes *b, int n) {
  if (b->bad || b->length - b->at < (size_t)n) {
    b->bad = true;
    return 0;
  }
  const unsigned char *from = b->data + b->at;
  uint64_t value = from[0];
  for (int i = 1; i < n; i++)
    value |= (uint64_t)from[i] << (8 * i);
  b->at += (size_t)n;
  return value;
}

static double get_double(bytes *b) {
  uint64_t bits = get_number(b, 8);
  double value;
  memcpy(&value, &bits, 8);
  return value;
}

/* ---- forests ---- */

/* The distinct thresholds of a forest, ascending, feature by feature: those of feature f
 * are value[from[f] .. from[f + 1]). A node names its threshold by the place in this
 * list, in `width` bytes. */
typedef struct {
  float *value;
  uint32_t from[MOST_FEATURES + 1];
  int features, width;
} thresholds;

static int ascending(const void *a, const void *b) {
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Sorts value[0 .. n) and drops repetitions; returns how many are left. */
static uint32_t distinct(float *value, uint32_t n) {
  uint32_t kept = 0;
  qsort(value, n, sizeof *value, ascending);
  for (uint32_t i = 0; i < n; i++)
    if (kept == 0 || value[i] > value[kept - 1])
      value[kept++] = value[i];
  return kept;
}

/* Adds the end of the next feature's thresholds. */
static void close_feature(thresholds *t, uint32_t count) {
  t->from[t->features + 1] = t->from[t->features] + count;
  t->features++;
  t->width = count > 65536 ? 4 : count > 256 && t->width < 2 ? 2 : t->width;
}

static void collect(const ett_forest *f, int features, thresholds *t) {
  while (t->features < features) {
    float *own = t->value + t->from[t->features];
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->nodes; i++)
      if (f->node[i].feature == t->features)
        own[n++] = f->node[i].value;
    close_feature(t, distinct(own, n));
  }
}

static void put_node(bytes *b, const ett_tree_node *root, uint32_t at, float scale,
                     const thresholds *t, int depth) {
  const ett_tree_node *n = &root[at];
  if (depth > DEEPEST) {
    b->deep = true;
    return;
  }
  if (n->feature < 0) {
    long leaf = scale > 0 ? lround((double)n->value / (double)scale * 32767) : 0;
    put_number(b, LEAF, 1);
    put_number(b, (uint64_t)(leaf + 32768), 2);
    return;
  }
  const float *own = t->value + t->from[n->feature];
  size_t count = t->from[n->feature + 1] - t->from[n->feature];
  const float *found = bsearch(&n->value, own, count, sizeof *own, ascending);
  put_number(b, (uint64_t)n->feature | (n->flags & 1 ? 128u : 0), 1);
  put_number(b, (uint64_t)(found - own), t->width);
  put_node(b, root, n->left, scale, t, depth + 1);
  put_node(b, root, n->left + 1, scale, t, depth + 1);
}

static void put_thresholds(bytes *b, const thresholds *t) {
  for (int f = 0; f < t->features; f++) {
    put_number(b, t->from[f + 1] - t->from[f], 4);
    for (uint32_t i = t->from[f]; i < t->from[f + 1]; i++) {
      uint32_t bits;
      memcpy(&bits, &t->value[i], 4);
      put_number(b, bits, 4);
    }
  }
}

static void put_forest(bytes *b, const ett_forest *f, int features) {
  float scale = 0;
  for (uint32_t i = 0; i < f->nodes; i++)
    if (f->node[i].feature < 0)
      scale = fmaxf(scale, fabsf(f->node[i].value));
  put_number(b, f->trees, 4);
  put_number(b, f->nodes, 4);
  put_double(b, (double)f->base_score);
  put_double(b, (double)scale);
  if (f->nodes == 0)
    return;
  thresholds t = {.value = malloc(f->nodes * sizeof *t.value), .width = 1};
  if (!t.value) {
    b->bad = true;
    return;
  }
  collect(f, features, &t);
  put_thresholds(b, &t);
  for (uint32_t i = 0; i < f->trees; i++)
    put_node(b, f->node + f->roots[i], 0, scale, &t, 0);
  free(t.value);
}

static float get_float(bytes *b) {
  uint32_t bits = (uint32_t)get_number(b, 4);
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

/* Reads the thresholds of a forest of `nodes` nodes into t->value, which has room for as
 * many. */
static void get_thresholds(bytes *b, int features, uint32_t nodes, thresholds *t) {
  while (t->features < features && !b->bad) {
    uint32_t at = t->from[t->features], count = (uint32_t)get_number(b, 4);
    if (count > nodes - at) {
      b->bad = true;
      return;
    }
    for (uint32_t i = 0; i < count; i++) {
      t->value[at + i] = get_float(b);
      if (isnan(t->value[at]) || (i > 0 && !(t->value[at + i] > t->value[at + i - 1])))
        b->bad = true;
    }
    close_feature(t, count);
  }
}

/* Reads a tree in preorder into `out`, siblings side by side; *used receives its nodes.
 * It keeps the right siblings of the nodes on the way to the root for later. */
static void get_tree(bytes *b, ett_tree_node *out, uint32_t *used, uint32_t room,
                     double scale, const thresholds *t) {
  struct {
    uint32_t at, depth;
  } later[DEEPEST + 1];
  const unsigned char *from = b->data + b->at, *end = b->data + b->length;
  const uint32_t width = (uint32_t)t->width;
  uint32_t at = 0, depth = 0, waiting = 0;
  *used = 1;
  for (;;) {
    if (end - from < 3 || depth > DEEPEST)
      break;
    const unsigned kind = from[0], two = from[1] | (unsigned)from[2] << 8;
    if (kind == LEAF) {
      out[at] = (ett_tree_node){(float)(((double)two - 32768) / 32767 * scale), -1, 0, 0};
      from += 3;
      if (waiting == 0) {
        b->at = (size_t)(from - b->data);
        return;
      }
      at = later[--waiting].at;
      depth = later[waiting].depth;
      continue;
    }
    const int feature = (int)(kind & 127);
    uint32_t place = width == 1 ? from[1] : two;
    if (width == 4) {
      if (end - from < 5)
        break;
      place |= (uint32_t)from[3] << 16 | (uint32_t)from[4] << 24;
    }
    if (feature >= t->features || place >= t->from[feature + 1] - t->from[feature] ||
        *used + 2 > room)
      break;
    from += 1 + width;
    out[at] = (ett_tree_node){t->value[t->from[feature] + place], (int16_t)feature,
                              (uint16_t)(kind >> 7), *used};
    at = *used;
    later[waiting].at = at + 1;
    later[waiting++].depth = ++depth;
    *used += 2;
  }
  b->bad = true;
}

static void get_trees(bytes *b, ett_forest *f, double scale, const thresholds *t) {
  uint32_t at = 0;
  for (uint32_t i = 0; i < f->trees && !b->bad; i++) {
    uint32_t used = 1;
    if (at >= f->nodes) {
      b->bad = true;
      return;
    }
    f->roots[i] = at;
    get_tree(b, f->node + at, &used, f->nodes - at, scale, t);
    at += used;
  }
  b->bad = b->bad || at != f->nodes;
}

static int get_forest(bytes *b, int features, ett_forest *f, ett_err *err) {
  uint64_t trees = get_number(b, 4), nodes = get_number(b, 4);
  double base = get_double(b), scale = get_double(b);
  memset(f, 0, sizeof *f);
  if (b->bad || nodes > MOST_NODES || nodes > (b->length - b->at) / 2 + 1 ||
      trees > nodes || !(fabs(base) <= (double)FLT_MAX) ||
      !(scale >= 0 && scale <= (double)FLT_MAX / 2)) /* every leaf is finite */
    return ett_err_set(err, ETT_ERR_FORMAT, "damaged forest");
  if (ett_forest_make((uint32_t)trees, (uint32_t)nodes, f, err) != 0)
    return -1;
  f->features = (uint32_t)features;
  f->base_score = (float)base;
  if (nodes == 0)
    return 0;
  thresholds t = {.value = malloc(nodes * sizeof *t.value), .width = 1};
  if (!t.value)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for %zu thresholds",
                       (size_t)nodes);
  get_thresholds(b, features, (uint32_t)nodes, &t);
  get_trees(b, f, scale, &t);
  free(t.value);
  return b->bad ? ett_err_set(err, ETT_ERR_FORMAT, "damaged trees") : 0;
}

/* ---- base64 (RFC 4648) ---- */

static int decode(const char *text, size_t n, bytes *out, ett_err *err) {
  int value[256];
  memset(value, -1, sizeof value);
  for (int i = 0; i < 64; i++)
    value[(unsigned char)ett_base64_digits[i]] = i;
  out->data = malloc(n / 4 * 3 + 4);
  if (!out->data)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for %zu characters", n);
  uint32_t word = 0;
  int have = 0;
  bool padded = false;
  for (size_t i = 0; i < n; i++) {
    while (have == 0 && !padded &&
           i + 4 < n) { /* groups of four digits; other characters are handled below */
      const unsigned char *t = (const unsigned char *)text + i;
      int a = value[t[0]], b = value[t[1]], c = value[t[2]], d = value[t[3]];
      if ((a | b | c | d) < 0)
        break;
      unsigned char *to = out->data + out->length;
      to[0] = (unsigned char)(a << 2 | b >> 4);
      to[1] = (unsigned char)(b << 4 | c >> 2);
      to[2] = (unsigned char)(c << 6 | d);
      out->length += 3;
      i += 4;
    }
    unsigned char c = (unsigned char)text[i];
    if (c == '\n' || c == '\r' || c == ' ' || c == '\t')
      continue;
    padded = padded || c == '=';
    if (c == '=')
      continue;
    if (value[c] < 0 || padded)
      return ett_err_set(err, ETT_ERR_FORMAT, "character %zu is not base64", i + 1);
    word = word << 6 | (uint32_t)value[c];
    if (++have == 4) {
      out->data[out->length++] = (unsigned char)(word >> 16);
      out->data[out->length++] = (unsigned char)(word >> 8);
      out->data[out->length++] = (unsigned char)word;
      have = 0;
      word = 0;
    }
  }
  if (have == 1)
    return ett_err_set(err, ETT_ERR_FORMAT, "the text is cut off");
  if (have >= 2)
    out->data[out->length++] = (unsigned char)(have == 2 ? word >> 4 : word >> 10);
  if (have == 3)
    out->data[out->length++] = (unsigned char)(word >> 2);
  return 0;
}

/* ---- models ---- */

/* The scalars of a model in the order of the file, which has the last two with `modes`.
 */
static int scalars(ett_model_facts *f, bool modes, double *list[24]) {
  double *const all[] = {&f->shrink,       &f->shrink_outside, &f->floor,
                         &f->width_inside, &f->width_outside,  &f->size_least,
                         &f->size_most,    &f->error_mean,     &f->error_median,
                         &f->rows,         &f->dropped,        &f->mode_below,
                         &f->mode_above};
  memcpy(list, all, sizeof all);
  return (int)(sizeof all / sizeof *all) - (modes ? 0 : 2);
}

int ett_model_to_text(const ett_model *m, char **text, size_t *length, ett_err *err) {
  bytes b = {0};
  ett_model_facts facts = m->facts;
  double *list[24];
  bool modes = facts.mode_below > 0 || facts.mode_above > 0;
  int count = scalars(&facts, modes, list), used = 0;
  *text = NULL;
  if (m->features > MOST_FEATURES)
    return ett_err_set(err, ETT_ERR_ARGUMENT, "too many features for a coefficient file");
  for (int i = 0; i < m->columns; i++)
    used += m->x[i] != 0;
  put_number(&b, FORMAT, 1);
  put_number(&b, (uint64_t)m->design.family, 1);
  put_number(&b,
             (m->design.backward ? 1u : 0) | (facts.log_target ? 2u : 0) |
                 (facts.has_base ? 4u : 0) | (modes ? 8u : 0),
             1);
  put_number(&b, (uint64_t)m->design.dims, 1);
  put_double(&b, m->design.multiprocessors);
  for (int i = 0; i < count; i++)
    put_double(&b, *list[i]);
  for (int i = 0; i < m->design.dims; i++) {
    put_double(&b, facts.least[i]);
    put_double(&b, facts.most[i]);
  }
  put_number(&b, (uint64_t)used, 1);
  for (int i = 0; i < m->columns; i++)
    if (m->x[i] != 0) {
      put_number(&b, (uint64_t)i, 1);
      put_double(&b, m->x[i]);
    }
  put_number(&b, (uint64_t)m->forests, 1);
  for (int i = 0; i < m->forests; i++)
    put_forest(&b, &m->forest[i], m->features);
  put_forest(&b, &m->difficulty, m->features);
  if (!b.bad && !b.deep)
    *text = ett_base64(b.data, b.length, length);
  free(b.data);
  if (b.deep)
    return ett_err_set(err, ETT_ERR_ARGUMENT,
                       "a coefficient file holds trees of at most %d levels", DEEPEST);
  return *text ? 0 : ett_err_set(err, ETT_ERR_MEMORY, "no memory for a coefficient file");
}

static int read_parts(bytes *b, ett_model *parts, double *x, ett_err *err) {
  ett_model_facts *f = &parts->facts;
  double *list[24];
  if (get_number(b, 1) != FORMAT)
    return ett_err_set(
        err, ETT_ERR_FORMAT,
        "coefficients of another version of ett: run `ett calibrate` again");
  parts->design.family = (ett_family)get_number(b, 1);
  unsigned flags = (unsigned)get_number(b, 1);
  parts->design.backward = flags & 1;
  f->log_target = flags & 2 ? 1 : 0;
  f->has_base = flags & 4 ? 1 : 0;
  parts->design.dims = (int)get_number(b, 1);
  parts->design.multiprocessors = get_double(b);
  if (b->bad)
    return ett_err_set(err, ETT_ERR_FORMAT, "coefficients are truncated");
  if (ett_design_check(&parts->design, err) != 0)
    return -1;
  parts->columns = ett_design_columns(&parts->design);
  parts->features = ett_design_features(&parts->design);
  int count = scalars(f, flags & 8, list);
  for (int i = 0; i < count; i++)
    *list[i] = get_double(b);
  for (int i = 0; i < parts->design.dims; i++) {
    f->least[i] = get_double(b);
    f->most[i] = get_double(b);
  }
  f->width_twin = f->width_inside;
  int used = (int)get_number(b, 1);
  for (int i = 0, last = -1; i < used; i++) {
    int column = (int)get_number(b, 1);
    double value = get_double(b);
    if (b->bad || column >= parts->columns || column <= last)
      return ett_err_set(err, ETT_ERR_FORMAT, "coefficients are damaged");
    x[column] = value;
    last = column;
  }
  parts->x = x;
  int forests = (int)get_number(b, 1);
  if (b->bad || forests > ETT_MODEL_FORESTS)
    return ett_err_set(err, ETT_ERR_FORMAT, "coefficients are truncated");
  for (parts->forests = 0; parts->forests < forests; parts->forests++)
    if (get_forest(b, parts->features, &parts->forest[parts->forests], err) != 0)
      return -1;
  if (get_forest(b, parts->features, &parts->difficulty, err) != 0)
    return -1;
  return b->at == b->length
             ? 0
             : ett_err_set(err, ETT_ERR_FORMAT, "coefficients have %zu bytes too many",
                           b->length - b->at);
}

int ett_model_from_text(const char *text, size_t length, ett_model *model, ett_err *err) {
  bytes b = {0};
  memset(model, 0, sizeof *model);
  double *x = model->memory = calloc(ETT_DESIGN_COLUMNS, sizeof *x);
  if (!x)
    return ett_err_set(err, ETT_ERR_MEMORY, "no memory for coefficients");
  const int status =
      decode(text, length, &b, err) != 0 ? -1 : read_parts(&b, model, x, err);
  free(b.data);
  if (status == 0)
    return ett_model_adopt(model, err);
  ett_model_close(model);
  return -1;
}
