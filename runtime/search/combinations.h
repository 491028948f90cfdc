/* combinations.h - the plans under every combination of values of fields.
 *
 * Combinations are numbered from 1; the values of the last axis change fastest. Functions
 * of the caller compute what depends on several values: whether a rule refuses the plan,
 * its program, and some members of ett_step_plan. The caller answers each function once
 * for each set of values that it reads. The answers form a tree. Each node holds the axis
 * that the function reads next.
 *
 *   c = ett_combinations_new(…);
 *   ett_combinations_axis(c, …);
 *   ett_combinations_function(c, …);
 *   while (ett_combinations_run(c, …, &stop, …) != ETT_STOP_DONE)
 *     ett_combinations_learn(c, …);   (or another action, by the kind of stop) */
#ifndef ETT_SEARCH_COMBINATIONS_H
#define ETT_SEARCH_COMBINATIONS_H

#include <stddef.h>
#include <stdint.h>

#include "step/step.h"

typedef struct ett_combinations ett_combinations;

/* realloc that also gets the old size; `to` 0 frees. */
typedef void *(*ett_allocate)(void *context, void *memory, size_t from, size_t to);

/* The stored result of one plan. Kept small, because a sweep stores millions of them. */
typedef struct ett_outcome {
  double step_seconds, memory_bytes, bubble_fraction, tokens;
  int64_t number;      /* of the combination */
  int64_t devices;     /* of the plan */
  double memory_limit; /* of the devices of the fullest stage */
  double key;          /* sort key */
} ett_outcome;

/* Whether the estimated memory is within the limit. */
int ett_outcome_fits(const ett_outcome *o);

typedef struct ett_outcome_sum {
  int64_t evaluated, any_fits;
  ett_outcome least; /* the plan with the least memory; ties: the first; number 0: none */
} ett_outcome_sum;

/* A member of ett_step_plan; bytes 0: no member. */
typedef struct ett_plan_member {
  size_t offset, bytes;
} ett_plan_member;

typedef union ett_member_value {
  int integer;
  int64_t big;
  double number;
} ett_member_value;

/* Fields that determine the numbers of devices, tokens and micro-batches of a plan. */
typedef enum ett_plan_size {
  ETT_SIZE_PP,
  ETT_SIZE_TP,
  ETT_SIZE_CP,
  ETT_SIZE_DP,
  ETT_SIZE_MICRO_BATCH,
  ETT_SIZE_SEQ,
  ETT_SIZE_MICRO_BATCHES,
  ETT_SIZE_GLOBAL_BATCH, /* 0: micro-batches are given */
  ETT_PLAN_SIZES,
} ett_plan_size;

typedef struct ett_combinations_settings {
  int64_t size[ETT_PLAN_SIZES]; /* of fields without an axis */
  int64_t devices;              /* plans on another number are skipped; 0: no limit */
  double memory_limit;          /* bytes of a device */
  int caller_sets; /* the run stops at each plan for the caller to set orders and more */
  /* Ranks of a job take turns with groups of `every` combinations. */
  int64_t share_rank, share_size, share_every;
} ett_combinations_settings;

/* counts: number of values of each axis. NULL: no memory, or too many combinations. */
ett_combinations *ett_combinations_new(const size_t *counts, size_t axes,
                                       const ett_combinations_settings *settings,
                                       ett_allocate allocate, void *context,
                                       ett_err *err);
void ett_combinations_free(ett_combinations *c);

/* An axis sets a member of the plan to these values. */
int ett_combinations_axis(ett_combinations *c, size_t axis, ett_plan_member member,
                          const ett_member_value *values, ett_err *err);

/* An axis sets a size of the plan to these values. */
int ett_combinations_size(ett_combinations *c, size_t axis, ett_plan_size size,
                          const int64_t *values, ett_err *err);

/* The answer of a function. Every function may refuse the plan instead. Rules are added
 * first. */
typedef enum ett_function_kind {
  ETT_FUNCTION_RULE,    /* nothing */
  ETT_FUNCTION_PROGRAM, /* the number of ett_combinations_program */
  ETT_FUNCTION_MEMBER,  /* a member's value */
} ett_function_kind;

/* Adds a function; they are called in this order. Returns its number; -1: no memory. */
int ett_combinations_function(ett_combinations *c, ett_function_kind kind,
                              ett_plan_member member, ett_err *err);

/* Adds a program and its demands, which must outlive c. Returns its number; -1: no
 * memory.
 */
int ett_combinations_program(ett_combinations *c, const ett_program *program,
                             ett_demands *demands, ett_err *err);

/* Stores a function's answer for the combination at which the run stopped. axes: the axes
 * that the function read, in that order. refusal 0: the plan is accepted. */
int ett_combinations_learn(ett_combinations *c, int function, const size_t *axes,
                           size_t count, ett_member_value answer, int32_t refusal,
                           ett_err *err);

typedef enum ett_stop {
  ETT_STOP_DONE,
  ETT_STOP_ANSWER, /* the answer of a function is missing */
  ETT_STOP_SET,    /* the caller sets members of the plan (settings.caller_sets) */
  ETT_STOP_TIMES,  /* demands of the program have no time */
  ETT_STOP_FAULT,  /* evaluating the plan failed; the caller refuses it */
} ett_stop;

typedef struct ett_combinations_stop {
  int64_t number; /* of the combination */
  int function;   /* ETT_STOP_ANSWER */
  int program;    /* ETT_STOP_TIMES */
} ett_combinations_stop;

/* Evaluates plans up to number `last`; continues after a stop. plan: the members that no
 * axis and no function sets. is_set: the caller has set the members of the plan at the
 * stop. */
ett_stop ett_combinations_run(ett_combinations *c, const ett_step_plan *plan, int is_set,
                              int64_t last, ett_step_workspace *workspace,
                              ett_combinations_stop *stop, ett_err *err);

/* Refuses the plan at which the run stopped. */
void ett_combinations_refuse(ett_combinations *c);

/* Number of refused plans. first: number of the first plan that a function refused, and
 * its refusal (0: none). */
int64_t ett_combinations_refused(const ett_combinations *c, int64_t *first,
                                 int32_t *refusal);

typedef enum ett_objective {
  ETT_OBJECTIVE_STEP_SECONDS,
  ETT_OBJECTIVE_MEMORY_BYTES,
  ETT_OBJECTIVE_TOKENS_PER_SECOND,
  ETT_OBJECTIVE_TOKENS_PER_SECOND_PER_DEVICE,
} ett_objective;

double ett_outcome_tokens_per_second(const ett_outcome *o);
double ett_outcome_tokens_per_second_per_device(const ett_outcome *o);

/* Plans that fit come first; then by objective, then by number. Keeps only the first
 * `most`; negative: all. */
void ett_combinations_sort(ett_combinations *c, ett_objective objective, int64_t most);

/* The outcomes. Their sum includes those that sorting dropped. */
const ett_outcome *ett_combinations_list(const ett_combinations *c, size_t *count);
const ett_outcome_sum *ett_combinations_sum(const ett_combinations *c);

/* Adds the sum of another rank; adds an outcome. */
void ett_combinations_add_sum(ett_combinations *c, const ett_outcome_sum *part);
int ett_combinations_add(ett_combinations *c, const ett_outcome *o, ett_err *err);

/* Removes the outcomes and their sum. */
void ett_combinations_clear(ett_combinations *c);

#endif
