#include "search/combinations.h"

#include <stdlib.h>
#include <string.h>

typedef struct axis {
  size_t count;
  ett_plan_member member;
  ett_member_value *values; /* NULL: the plan has no such member */
  int64_t *sizes;           /* NULL: not a size */
  ett_plan_size size;
} axis;

/* A link is -1 - the number of an answer (a leaf), 1 + the number of a node, or 0
 * (unknown). */
typedef struct node {
  size_t axis;
  size_t first; /* first of its links, one per value of the axis */
} node;

typedef struct answer {
  ett_member_value value;
  int32_t refusal;
} answer;

typedef struct function {
  ett_function_kind kind;
  ett_plan_member member;
  int number;
  int32_t root; /* a link */
} function;

typedef struct lowered {
  const ett_program *program;
  ett_demands *demands;
} lowered;

/* An array that grows. */
typedef struct array {
  void *items;
  size_t count, capacity;
} array;

struct ett_combinations {
  ett_allocate allocate;
  void *context;
  ett_combinations_settings settings;
  size_t axes;
  axis *axis;
  int64_t total;
  array nodes, links, answers, programs, outcomes;
  array functions; /* without rules that no plan violates */
  int asked;       /* number of all functions */
  ett_outcome_sum sum;
  int64_t refused, first_refused;
  int32_t first_refusal;

  /* The current plan of the run: its number, and the index of its value on each axis. */
  ett_step_plan plan;
  int64_t number; /* 0: none */
  size_t *at;
  int64_t size[ETT_PLAN_SIZES];
  int64_t next; /* the first plan that was not tried */
};

static int no_memory(ett_err *err) {
  return ett_err_set(err, ETT_ERR_MEMORY, "not enough memory");
}

/* Ensures capacity for `more` items of `size` bytes. */
static int grow(ett_combinations *c, array *a, size_t more, size_t size, ett_err *err) {
  if (a->count + more <= a->capacity)
    return 0;
  size_t capacity = a->capacity ? 2 * a->capacity : 16;
  while (capacity < a->count + more)
    capacity *= 2;
  void *items = c->allocate(c->context, a->items, a->capacity * size, capacity * size);
  if (!items)
    return no_memory(err);
  a->items = items;
  a->capacity = capacity;
  return 0;
}

static void *zeroed(ett_combinations *c, size_t count, size_t size) {
  void *memory = c->allocate(c->context, NULL, 0, count * size);
  if (memory)
    memset(memory, 0, count * size);
  return memory;
}

static void release(ett_combinations *c, void *memory, size_t bytes) {
  if (memory)
    c->allocate(c->context, memory, bytes, 0);
}

ett_combinations *ett_combinations_new(const size_t *counts, size_t axes,
                                       const ett_combinations_settings *settings,
                                       ett_allocate allocate, void *context,
                                       ett_err *err) {
  ett_combinations *c = allocate(context, NULL, 0, sizeof *c);
  if (!c) {
    no_memory(err);
    return NULL;
  }
  memset(c, 0, sizeof *c);
  c->allocate = allocate;
  c->context = context;
  c->settings = *settings;
  memcpy(c->size, settings->size, sizeof c->size);
  c->axes = axes;
  c->axis = zeroed(c, axes + 1, sizeof *c->axis);
  c->at = zeroed(c, axes + 1, sizeof *c->at);
  c->total = 1;
  c->next = 1;
  int status = c->axis && c->at ? 0 : no_memory(err);
  for (size_t i = 0; i < axes && status == 0; i++) {
    c->axis[i].count = counts[i];
    if (counts[i] < 1 || (int64_t)counts[i] > INT64_MAX / c->total)
      status =
          ett_err_set(err, ETT_ERR_LIMIT, "a sweep must have 1 to 2^63 - 1 combinations");
    else
      c->total *= (int64_t)counts[i];
  }
  if (status == 0 && grow(c, &c->answers, 1, sizeof(answer), err) == 0) {
    ((answer *)c->answers.items)[c->answers.count++] = (answer){.refusal = 0};
    return c;
  }
  ett_combinations_free(c);
  return NULL;
}

void ett_combinations_free(ett_combinations *c) {
  if (!c)
    return;
  for (size_t i = 0; c->axis && i < c->axes; i++) {
    release(c, c->axis[i].values, c->axis[i].count * sizeof *c->axis[i].values);
    release(c, c->axis[i].sizes, c->axis[i].count * sizeof *c->axis[i].sizes);
  }
  release(c, c->axis, (c->axes + 1) * sizeof *c->axis);
  release(c, c->at, (c->axes + 1) * sizeof *c->at);
  release(c, c->nodes.items, c->nodes.capacity * sizeof(node));
  release(c, c->links.items, c->links.capacity * sizeof(int32_t));
  release(c, c->answers.items, c->answers.capacity * sizeof(answer));
  release(c, c->functions.items, c->functions.capacity * sizeof(function));
  release(c, c->programs.items, c->programs.capacity * sizeof(lowered));
  release(c, c->outcomes.items, c->outcomes.capacity * sizeof(ett_outcome));
  c->allocate(c->context, c, sizeof *c, 0);
}

int ett_combinations_axis(ett_combinations *c, size_t i, ett_plan_member member,
                          const ett_member_value *values, ett_err *err) {
  axis *a = &c->axis[i];
  a->member = member;
  a->values = zeroed(c, a->count, sizeof *values);
  if (!a->values)
    return no_memory(err);
  memcpy(a->values, values, a->count * sizeof *values);
  return 0;
}

int ett_combinations_size(ett_combinations *c, size_t i, ett_plan_size size,
                          const int64_t *values, ett_err *err) {
  axis *a = &c->axis[i];
  a->size = size;
  a->sizes = zeroed(c, a->count, sizeof *values);
  if (!a->sizes)
    return no_memory(err);
  memcpy(a->sizes, values, a->count * sizeof *values);
  return 0;
}

int ett_combinations_function(ett_combinations *c, ett_function_kind kind,
                              ett_plan_member member, ett_err *err) {
  if (grow(c, &c->functions, 1, sizeof(function), err) != 0)
    return -1;
  ((function *)c->functions.items)[c->functions.count++] =
      (function){kind, member, c->asked, 0};
  return c->asked++;
}

int ett_combinations_program(ett_combinations *c, const ett_program *program,
                             ett_demands *demands, ett_err *err) {
  if (grow(c, &c->programs, 1, sizeof(lowered), err) != 0)
    return -1;
  ((lowered *)c->programs.items)[c->programs.count] = (lowered){program, demands};
  return (int)c->programs.count++;
}

/* Adds a node for an axis. Returns its link; 0: no memory. */
static int32_t add_node(ett_combinations *c, size_t i, ett_err *err) {
  size_t count = c->axis[i].count;
  if (grow(c, &c->nodes, 1, sizeof(node), err) != 0 ||
      grow(c, &c->links, count, sizeof(int32_t), err) != 0)
    return 0;
  if (c->nodes.count >= INT32_MAX) {
    no_memory(err);
    return 0;
  }
  memset((int32_t *)c->links.items + c->links.count, 0, count * sizeof(int32_t));
  ((node *)c->nodes.items)[c->nodes.count] = (node){i, c->links.count};
  c->links.count += count;
  return (int32_t)++c->nodes.count;
}

int ett_combinations_learn(ett_combinations *c, int number, const size_t *axes,
                           size_t count, ett_member_value value, int32_t refusal,
                           ett_err *err) {
  function *functions = c->functions.items, *f = functions;
  while (f < functions + c->functions.count && f->number != number)
    f++;
  int known = f < functions + c->functions.count;
  for (size_t k = 0; k < count; k++)
    known = known && axes[k] < c->axes;
  if (!known)
    return ett_err_set(err, ETT_ERR_INTERNAL,
                       "internal error: a function or field that does not exist");
  if (count == 0 && f->kind == ETT_FUNCTION_RULE && !refusal) {
    memmove(f, f + 1, (size_t)(functions + --c->functions.count - f) * sizeof *f);
    return 0;
  }
  size_t in = SIZE_MAX, leaf = 0; /* the next link is links[in]; SIZE_MAX: the root */
  for (size_t k = 0; k < count; k++) {
    int32_t link = in == SIZE_MAX ? f->root : ((int32_t *)c->links.items)[in];
    if (link <= 0) {
      link = add_node(c, axes[k], err);
      if (link == 0)
        return -1;
      *(in == SIZE_MAX ? &f->root : &((int32_t *)c->links.items)[in]) = link;
    }
    in = ((node *)c->nodes.items)[link - 1].first + c->at[axes[k]];
  }
  if (f->kind != ETT_FUNCTION_RULE || refusal) {
    if (grow(c, &c->answers, 1, sizeof(answer), err) != 0)
      return -1;
    leaf = c->answers.count++;
    ((answer *)c->answers.items)[leaf] = (answer){value, refusal};
  }
  *(in == SIZE_MAX ? &f->root : &((int32_t *)c->links.items)[in]) = -1 - (int32_t)leaf;
  return 0;
}

/* The answer for the current values; NULL: unknown. */
static const answer *find(const ett_combinations *c, const function *f) {
  const node *nodes = c->nodes.items;
  const int32_t *links = c->links.items;
  int32_t link = f->root;
  while (link > 0)
    link = links[nodes[link - 1].first + c->at[nodes[link - 1].axis]];
  return link == 0 ? NULL : &((const answer *)c->answers.items)[-1 - link];
}

static void set_member(ett_step_plan *plan, ett_plan_member member,
                       const ett_member_value *value) {
  memcpy((char *)plan + member.offset, value, member.bytes);
}

/* Makes a combination the current plan. */
static void move_to(ett_combinations *c, int64_t number) {
  size_t first = 0; /* first axis that changes */
  if (c->number > 0 && number == c->number + 1) {
    for (first = c->axes; first-- > 0;)
      if (++c->at[first] == c->axis[first].count)
        c->at[first] = 0;
      else
        break;
  } else {
    int64_t left = number - 1;
    for (size_t i = c->axes; i-- > 0; left /= (int64_t)c->axis[i].count)
      c->at[i] = (size_t)(left % (int64_t)c->axis[i].count);
  }
  c->number = number;
  for (size_t i = first; i < c->axes; i++) {
    const axis *a = &c->axis[i];
    if (a->values)
      set_member(&c->plan, a->member, &a->values[c->at[i]]);
    if (a->sizes)
      c->size[a->size] = a->sizes[c->at[i]];
  }
}

/* The product of sizes; wraps as Lua's integers do. */
static int64_t product(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* Applies the functions to the current plan. Returns 0 with the number of its program,
 * ETT_STOP_ANSWER, or -1 if the plan is refused. */
static int ask(ett_combinations *c, int *program, ett_combinations_stop *stop) {
  const function *functions = c->functions.items;
  for (size_t i = 0; i < c->functions.count; i++) {
    const function *f = &functions[i];
    const answer *a = find(c, f);
    if (!a) {
      stop->function = f->number;
      return ETT_STOP_ANSWER;
    }
    if (a->refusal) {
      c->refused++;
      if (!c->first_refusal || c->number < c->first_refused) {
        c->first_refused = c->number;
        c->first_refusal = a->refusal;
      }
      return -1;
    }
    if (f->kind == ETT_FUNCTION_PROGRAM)
      *program = a->value.integer;
    else if (f->kind == ETT_FUNCTION_MEMBER)
      set_member(&c->plan, f->member, &a->value);
  }
  return 0;
}

int ett_outcome_fits(const ett_outcome *o) {
  return o->memory_bytes <= o->memory_limit;
}

static void add_sum(ett_outcome_sum *to, const ett_outcome_sum *part) {
  const ett_outcome *a = &part->least, *b = &to->least;
  to->evaluated += part->evaluated;
  to->any_fits |= part->any_fits;
  if (a->number && (!b->number || a->memory_bytes < b->memory_bytes ||
                    (a->memory_bytes == b->memory_bytes && a->number < b->number)))
    to->least = *a;
}

void ett_combinations_add_sum(ett_combinations *c, const ett_outcome_sum *part) {
  add_sum(&c->sum, part);
}

int ett_combinations_add(ett_combinations *c, const ett_outcome *o, ett_err *err) {
  if (grow(c, &c->outcomes, 1, sizeof *o, err) != 0)
    return -1;
  ((ett_outcome *)c->outcomes.items)[c->outcomes.count++] = *o;
  return 0;
}

/* Evaluates the current plan. ETT_STOP_DONE: evaluated or refused; ETT_STOP_TIMES: some
 * demands have no time. */
static ett_stop visit(ett_combinations *c, int is_set, ett_step_workspace *workspace,
                      ett_combinations_stop *stop, ett_err *err) {
  const ett_combinations_settings *s = &c->settings;
  const int64_t *size = c->size;
  int64_t number = c->number;
  ett_outcome o = {.number = number};
  o.devices = product(product(size[ETT_SIZE_PP], size[ETT_SIZE_TP]),
                      product(size[ETT_SIZE_CP], size[ETT_SIZE_DP]));
  if ((s->share_size > 1 &&
       (number - 1) / s->share_every % s->share_size != s->share_rank) ||
      (s->devices && o.devices != s->devices))
    return ETT_STOP_DONE;
  stop->number = number;
  int asked = ask(c, &stop->program, stop);
  if (asked != 0)
    return asked < 0 ? ETT_STOP_DONE : ETT_STOP_ANSWER;
  if (s->caller_sets && !is_set)
    return ETT_STOP_SET;
  int64_t sequences = product(size[ETT_SIZE_DP], size[ETT_SIZE_MICRO_BATCH]);
  int64_t micro_batches = size[ETT_SIZE_MICRO_BATCHES];
  if (size[ETT_SIZE_GLOBAL_BATCH]) /* 0 is refused below */
    micro_batches = sequences > 0 ? size[ETT_SIZE_GLOBAL_BATCH] / sequences : 0;
  o.tokens = (double)product(product(sequences, micro_batches), size[ETT_SIZE_SEQ]);
  c->plan.micro_batches = micro_batches;
  if (stop->program < 0 || (size_t)stop->program >= c->programs.count) {
    ett_err_set(err, ETT_ERR_INTERNAL, "internal error: no program %d",
                stop->program + 1);
    return ETT_STOP_FAULT;
  }
  const lowered *own = &((const lowered *)c->programs.items)[stop->program];
  ett_step_result r;
  int status = ett_step_evaluate(own->program, &c->plan, own->demands, workspace,
                                 ETT_KEEP_TOTALS, &r, err);
  if (status != 0)
    return status < 0 ? ETT_STOP_FAULT : ETT_STOP_TIMES;
  o.step_seconds = r.step_seconds;
  o.memory_bytes = r.memory_bytes;
  o.bubble_fraction = r.bubble_fraction;
  o.memory_limit = r.memory_limit_bytes > 0 ? r.memory_limit_bytes : s->memory_limit;
  add_sum(&c->sum, &(ett_outcome_sum){1, ett_outcome_fits(&o), o});
  return ett_combinations_add(c, &o, err) == 0 ? ETT_STOP_DONE : ETT_STOP_FAULT;
}

ett_stop ett_combinations_run(ett_combinations *c, const ett_step_plan *plan, int is_set,
                              int64_t last, ett_step_workspace *workspace,
                              ett_combinations_stop *stop, ett_err *err) {
  c->plan = *plan;
  c->number = 0;
  for (; c->next <= last && c->next <= c->total; c->next++, is_set = 0) {
    move_to(c, c->next);
    ett_stop found = visit(c, is_set, workspace, stop, err);
    if (found != ETT_STOP_DONE)
      return found;
  }
  return ETT_STOP_DONE;
}

void ett_combinations_refuse(ett_combinations *c) {
  c->refused++;
  c->next++;
}

int64_t ett_combinations_refused(const ett_combinations *c, int64_t *first,
                                 int32_t *refusal) {
  *first = c->first_refused;
  *refusal = c->first_refusal;
  return c->refused;
}

static int in_order(const void *left, const void *right) {
  const ett_outcome *a = left, *b = right;
  int fits = ett_outcome_fits(a);
  if (fits != ett_outcome_fits(b))
    return fits ? -1 : 1;
  if (a->key != b->key)
    return a->key < b->key ? -1 : 1;
  return a->number < b->number ? -1 : a->number > b->number;
}

double ett_outcome_tokens_per_second(const ett_outcome *o) {
  return o->tokens / o->step_seconds;
}

double ett_outcome_tokens_per_second_per_device(const ett_outcome *o) {
  return ett_outcome_tokens_per_second(o) / (double)o->devices;
}

void ett_combinations_sort(ett_combinations *c, ett_objective objective, int64_t most) {
  ett_outcome *list = c->outcomes.items;
  for (size_t i = 0; i < c->outcomes.count; i++)
    switch (objective) {
    case ETT_OBJECTIVE_STEP_SECONDS:
      list[i].key = list[i].step_seconds;
      break;
    case ETT_OBJECTIVE_MEMORY_BYTES:
      list[i].key = list[i].memory_bytes;
      break;
    case ETT_OBJECTIVE_TOKENS_PER_SECOND:
      list[i].key = -ett_outcome_tokens_per_second(&list[i]);
      break;
    case ETT_OBJECTIVE_TOKENS_PER_SECOND_PER_DEVICE:
      list[i].key = -ett_outcome_tokens_per_second_per_device(&list[i]);
      break;
    }
  if (c->outcomes.count > 0)
    qsort(list, c->outcomes.count, sizeof *list, in_order);
  if (most >= 0 && (uint64_t)most < c->outcomes.count)
    c->outcomes.count = (size_t)most;
}

const ett_outcome *ett_combinations_list(const ett_combinations *c, size_t *count) {
  *count = c->outcomes.count;
  return c->outcomes.items;
}

const ett_outcome_sum *ett_combinations_sum(const ett_combinations *c) {
  return &c->sum;
}

void ett_combinations_clear(ett_combinations *c) {
  c->sum = (ett_outcome_sum){0};
  c->outcomes.count = 0;
}
