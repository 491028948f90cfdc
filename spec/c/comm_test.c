/* Places of groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "comm/placement.h"

/* Two copies of a slice, on stages s and pp - 1 - s: rank by rank (a map) as by division,
 * and by hand where both stages share a node. */
static void places_copies(void **state) {
  (void)state;
  enum { WORLD = 64 };
  static const int32_t stage[] = {0, 3, 1, 2};
  int32_t map[WORLD];
  for (int i = 0; i < WORLD; i++)
    map[i] = i;
  ett_err err;
  const int64_t tp[] = {1, 2, 4};
  for (int i = 0; i < 3; i++)
    for (int stages_first = 0; stages_first < 2; stages_first++) {
      int64_t dp = WORLD / 4 / tp[i];
      ett_ranks ranks = {.tiers = {3, 0, {8, 16, ETT_TIER_ALL}, {1, 1, 2}},
                         .world = WORLD};
      ett_axis data = {dp, stages_first ? 4 * tp[i] : tp[i]};
      ett_copies copies = {{4, stages_first ? tp[i] : tp[i] * dp}, 2, 2, stage};
      ett_placement divided, counted;
      assert_int_equal(
          ett_place_copies(&ranks, ett_rank_group_of(data), &copies, &divided, &err), 0);
      ranks.map = map;
      assert_int_equal(
          ett_place_copies(&ranks, ett_rank_group_of(data), &copies, &counted, &err), 0);
      assert_int_equal(divided.ranks, 2 * dp);
      assert_memory_equal(&divided, &counted, sizeof counted);
      /* A node of 8 has 8 / (4 tp) blocks of the four stages, each with both copies. */
      if (!stages_first || tp[i] == 4)
        continue;
      assert_int_equal(counted.tier[0].units, 8);
      assert_int_equal(counted.tier[0].inside, 1);
      assert_int_equal(counted.tier[1].members, 2 * 8 / (4 * tp[i]));
      assert_int_equal(counted.tier[1].groups, 2 * tp[i]);
    }
}

static void refuses_what_cannot_be_placed(void **state) {
  (void)state;
  ett_err err;
  ett_tiers bad = {.count = 2, .size = {8, 12}, .card = {1, 1}};
  assert_int_equal(ett_tiers_check(&bad, &err), -1);
  bad = (ett_tiers){.count = 2, .size = {8, 16}, .card = {1, 3}};
  assert_int_equal(ett_tiers_check(&bad, &err), -1);
  bad = (ett_tiers){.size = {8}, .card = {1}};
  assert_int_equal(ett_tiers_check(&bad, &err), -1);
  ett_ranks ranks = {.tiers = {.count = 2, .size = {8, ETT_TIER_ALL}, .card = {1, 1}},
                     .world = 3 * ETT_RANKS_MOST};
  ett_placement place;
  ett_rank_group group = ett_rank_group_of((ett_axis){ETT_RANKS_MOST, 3});
  assert_int_equal(ett_place_group(&ranks, group, &place, &err), -1);
  assert_int_equal(err.code, ETT_ERR_LIMIT);
}

static void assert_on_torus(int64_t world, ett_axis axis, const int32_t along[3],
                            const int32_t apart[3]) {
  ett_ranks ranks = {.tiers = {.count = 2,
                               .size = {64, ETT_TIER_ALL},
                               .card = {1, 1},
                               .axes = 3,
                               .axis = {2, 4, 8}},
                     .world = world};
  ett_placement place;
  ett_err err;
  assert_int_equal(ett_place_group(&ranks, ett_rank_group_of(axis), &place, &err), 0);
  for (int j = 0; j < 3; j++) {
    assert_int_equal(place.tier[0].along[j], along[j]);
    assert_int_equal(place.tier[0].apart[j], apart[j]);
  }
}

static void places_groups_on_a_torus(void **state) {
  (void)state;
  assert_on_torus(128, (ett_axis){8, 1}, (int32_t[]){2, 4, 1}, (int32_t[]){1, 1, 1});
  assert_on_torus(128, (ett_axis){8, 8}, (int32_t[]){1, 1, 8}, (int32_t[]){1, 1, 1});
  assert_on_torus(128, (ett_axis){4, 4}, (int32_t[]){1, 2, 2}, (int32_t[]){1, 2, 1});
  assert_on_torus(128, (ett_axis){4, 16}, (int32_t[]){1, 1, 4}, (int32_t[]){1, 1, 2});
  assert_on_torus(128, (ett_axis){128, 1}, (int32_t[]){2, 4, 8}, (int32_t[]){1, 1, 1});
  assert_on_torus(128, (ett_axis){2, 64}, (int32_t[]){1, 1, 1}, (int32_t[]){1, 1, 1});
  /* Not aligned with the axes: {6, 7, 8} is at (0, 3, 0), (1, 3, 0), (0, 0, 1). */
  assert_on_torus(192, (ett_axis){3, 1}, (int32_t[]){2, 2, 2}, (int32_t[]){1, 3, 1});
  /* Slices of 2 x 2 x 2 and 2 x 4 x 4; none has 49 devices. */
  assert_on_torus(8, (ett_axis){4, 1}, (int32_t[]){2, 2, 1}, (int32_t[]){1, 1, 1});
  assert_on_torus(8, (ett_axis){2, 4}, (int32_t[]){1, 1, 2}, (int32_t[]){1, 1, 1});
  assert_on_torus(32, (ett_axis){4, 8}, (int32_t[]){1, 1, 4}, (int32_t[]){1, 1, 1});
  assert_on_torus(49, (ett_axis){7, 1}, (int32_t[]){2, 4, 2}, (int32_t[]){1, 1, 1});
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(places_copies),
      cmocka_unit_test(places_groups_on_a_torus),
      cmocka_unit_test(refuses_what_cannot_be_placed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
